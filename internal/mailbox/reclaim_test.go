package mailbox

import "testing"

func TestNothingMovesBehindWhatIsOnlyOnDisk(t *testing.T) { // from there an eviction would take it out of reach
	f := setup(t, session)
	c := f.attach(&consumer{Consumer: Consumer{UnsentMax: 1}})
	l := f.lender(queue)
	l.fill(2)
	f.publish(1500)
	lent := l.lend(2)
	f.evict()
	equal(t, "lent", l.member.Borrow(lent[:1]), false)
	b := f.store.begin()
	equal(t, "moved", l.member.Move(b, lent[1:], []uint8{2}), false)
	b.Commit()
	l.member.GiveBack(lent)
	equal(t, "room", l.member.Room(), 0)
	f.settle(c, keys(f.expectTake(c, span(1, 1500)))...)
	equal(t, "told of room", l.rooms.Load(), int64(1))
	equal(t, "moved", l.move(2), true)
}

func TestWhatMovedStaysInMemoryUntilItIsSent(t *testing.T) {
	f := setup(t, session)
	c := f.attach(&consumer{Consumer: Consumer{UnsentMax: 1}})
	l := f.lender(queue)
	l.fill(1000)
	equal(t, "moved", l.move(1000), true)
	f.publish(1000)
	f.evict()
	equal(t, "on disk only", f.m.lanes[0].gap.count, uint64(1000))
	equal(t, "room", l.member.Room(), 0)
	f.detach(c)
	b := f.store.begin()
	back := l.member.Reclaim(b, 2000)
	equal(t, "back", len(back), 1000)
	l.member.SettleMoved(b, back)
	b.Commit()
	f.store.flush()
	c = f.attach(&consumer{})
	f.settle(c, keys(f.expectTake(c, span(1001, 2000)))...)
	f.expectEmpty()
	equal(t, "told of room", l.rooms.Load(), int64(1))
}

func TestLoansDoNotKeepWhatIsBehindThemInMemory(t *testing.T) {
	f := setup(t, session)
	c := f.attach(&consumer{Consumer: Consumer{UnsentMax: 1}})
	l := f.lender(queue)
	l.fill(2)
	f.publish(300)
	l.borrow(2)
	f.publish(1000)
	f.evict()
	equal(t, "on disk only", f.m.lanes[0].gap.count, uint64(1000))
	f.settle(c, keys(f.expectTake(c, span(1, 1302)))...)
}
