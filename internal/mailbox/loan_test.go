package mailbox

import (
	"fmt"
	"sync/atomic"
	"testing"

	"emanet/internal/store"
)

// lender is a mailbox that lends, on the fixture's store, and one member of it.
type lender struct {
	f       *fixture
	id      uint64
	m       *Mailbox
	member  *Member
	wakes   int
	rooms   atomic.Int64 // a page that was read may tell
	orphans []store.Entry
}

func (l *lender) RoomCame()                      { l.rooms.Add(1) }
func (l *lender) Orphaned(entries []store.Entry) { l.orphans = append(l.orphans, entries...) }

func (f *fixture) lender(p Policy) *lender {
	l := &lender{f: f}
	if p.Durable {
		b := f.store.begin()
		l.id = b.MailboxCreate()
		b.Commit()
	}
	l.m = New(f.store, f.host, l.id, p)
	l.m.Lends(func() { l.wakes++ })
	l.member = Join(l.m, f.m, l)
	return l
}

// fill appends n entries and flushes them.
func (l *lender) fill(n int) {
	for range n {
		b := l.f.store.begin()
		msg := bodyOf(10)
		e := store.Entry{Message: msg, Attr: 2}
		if l.m.Durable() {
			b.Message(msg, &e.MessageID)
		}
		l.m.Append(b, e, false)
		b.Commit()
	}
	l.f.store.flush()
	l.m.Wake()
}

// lend takes up to n out of the lender for the member.
func (l *lender) lend(n int) []Lent {
	turns := []Turn{{Member: l.member, Room: n}}
	l.m.Lend(turns, nil, 1000)
	return turns[0].Lent
}

func (l *lender) borrow(n int) {
	l.f.t.Helper()
	if lent := l.lend(n); len(lent) != n || !l.member.Borrow(lent) {
		l.f.t.Fatalf("%d of %d were lent", len(lent), n)
	}
}

func (l *lender) move(n int) bool {
	b := l.f.store.begin()
	defer b.Commit()
	lent := l.lend(n)
	was := make([]uint8, len(lent))
	for i := range was {
		was[i] = 0x42
	}
	return l.member.Move(b, lent, was)
}

func (l *lender) expect(ready, out int) {
	l.f.t.Helper()
	s := l.m.Status()
	equal(l.f.t, "the lender's", fmt.Sprint(s.Ready, s.InFlight), fmt.Sprint(ready, out))
}

func TestEntriesGoRoundTheMembersWithRoom(t *testing.T) {
	f := setup(t, session)
	l := f.lender(Policy{})
	l.fill(10)
	turns := []Turn{{Member: l.member, Room: 2}, {Member: l.member, Room: 5}, {Member: l.member}, {Member: l.member, Room: 2}}
	equal(t, "the last", l.m.Lend(turns, nil, 1000), 1)
	var got []string
	for _, turn := range turns {
		s := ""
		for i := range turn.Lent {
			s += fmt.Sprint(turn.Lent[i].Seq)
		}
		got = append(got, s)
	}
	equal(t, "lent", fmt.Sprint(got), "[14 25789  36]")
	l.expect(1, 9)
}

func TestALoanIsNeitherDroppedNorExpiredByItsBorrower(t *testing.T) {
	f := setup(t, Policy{Identifiers: 65535, MaxEntries: 1})
	f.m.paging = &paging{lowBytes: 1}
	c := f.attach(&consumer{Consumer: Consumer{Credit: 10, UnsentMax: 1}})
	l := f.lender(Policy{})
	for range 3 {
		msg := bodyOf(10)
		msg.ExpiresAt = f.host.Now() + 5
		l.m.Append(nil, store.Entry{Message: msg}, true)
	}
	l.borrow(3)
	f.host.clock.Add(10)
	for range 5 { // of its own
		f.m.Append(nil, entryOf(bodyOf(10)), true)
	}
	f.m.Sweep(nil)
	f.m.Wake()
	f.expectTake(c, "1 2 3 8")
	equal(t, "dropped", f.host.drops(ReasonOverflow), 4)
	equal(t, "expired", f.host.drops(ReasonExpired), 0)
}

func TestASettlementOfALoanIsWrittenForItsLender(t *testing.T) {
	for _, p := range []Policy{session, {Identifiers: 65535}} {
		f := setup(t, p)
		c := f.attach(&consumer{Consumer: Consumer{Credit: 10}})
		l := f.lender(queue)
		l.fill(3)
		l.borrow(3)
		equal(t, "owes", f.m.Owes(), true)
		ds := f.expectTake(c, "1 2 3")
		equal(t, "settled", f.settle(c, keys(ds)[:2]...), 2)
		l.expect(0, 1)
		equal(t, "on disk", fmt.Sprint(f.store.live(l.id)), "[3]")
		equal(t, "room at once", l.member.Room(), 9)
	}
}

func TestABorrowerThatClosesGivesAllBack(t *testing.T) {
	f := setup(t, session)
	c := f.attach(&consumer{Consumer: Consumer{Credit: 10}})
	l := f.lender(queue)
	l.fill(5)
	l.borrow(2)
	f.expectTake(c, "1 2")
	l.borrow(2)
	l.expect(1, 4)
	f.m.Close()
	l.expect(5, 0)
	turns := []Turn{{Member: l.member, Room: 9}}
	l.m.Lend(turns, nil, 1000)
	got := ""
	for i := range turns[0].Lent {
		got += fmt.Sprint(turns[0].Lent[i].Seq, turns[0].Lent[i].sent(), " ")
	}
	equal(t, "in order, the first two as sent", got, "1 true 2 true 3 false 4 false 5 false ")
	equal(t, "taken", l.member.Borrow(turns[0].Lent), false)
	l.member.GiveBack(turns[0].Lent)
	l.expect(5, 0)
}

func TestARoomThatComesIsTold(t *testing.T) {
	f := setup(t, session)
	l := f.lender(Policy{})
	equal(t, "nobody consumes", l.member.Room(), 0)
	c := f.attach(&consumer{Consumer: Consumer{Credit: 2}})
	equal(t, "told", l.rooms.Load(), int64(1))
	equal(t, "room", l.member.Room(), 2)
	l.fill(3)
	l.borrow(2)
	equal(t, "room", l.member.Room(), 0)
	ds := f.expectTake(c, "1 2")
	equal(t, "told", l.rooms.Load(), int64(1))
	f.settle(c, ds[0].Key)
	f.m.Wake()
	equal(t, "told", l.rooms.Load(), int64(2))
	equal(t, "room", l.member.Room(), 1)
}

func TestAMemberThatDoesNotReadIsLentLittle(t *testing.T) {
	f := setup(t, session)
	c := f.attach(&consumer{Consumer: Consumer{Credit: 100, UnsentMax: 1000}})
	l := f.lender(Policy{})
	l.fill(50)
	l.borrow(10) // of some 150 bytes each
	equal(t, "room", l.member.Room(), 0)
	f.expectTake(c, span(1, 10))
	equal(t, "told", l.rooms.Load(), int64(1))
	equal(t, "room", l.member.Room(), 90)
}

func TestAMoveIsOneBatchAndIsSentAfterItsFlush(t *testing.T) {
	for _, p := range []Policy{session, {Identifiers: 65535}} {
		f := setup(t, p)
		c := f.attach(&consumer{Consumer: Consumer{Credit: 10}})
		l := f.lender(queue)
		l.fill(2)
		equal(t, "moved", l.move(1), true)
		equal(t, "on disk, the lender's", fmt.Sprint(f.store.live(l.id)), "[2]")
		f.expectTake(c, "")
		f.store.flush()
		ds := f.expectTake(c, "1")
		f.settle(c, ds[0].Key)
		l.expect(1, 0)
	}
}

func TestWhatMovedAndWasNotSentIsReclaimed(t *testing.T) {
	f := setup(t, session)
	f.add(0)
	c := f.attach(&consumer{Consumer: Consumer{Credit: 3}})
	f.add(0)
	l := f.lender(queue)
	l.fill(4)
	equal(t, "moved", l.move(2), true)
	f.store.flush()
	f.expectTake(c, "1 2 3")
	f.add(0)
	f.detach(c)
	b := f.store.begin()
	back := l.member.Reclaim(b, 10)
	equal(t, "back", len(back), 1) // 3 was sent
	equal(t, "attr", back[0].Attr, 0x42)
	l.member.SettleMoved(b, back)
	b.Commit()
	f.expectLive(1, 2, 3, 5)
	f.store.flush()
	c = f.attach(&consumer{})
	f.settle(c, keys(f.expectTake(c, "1+ 2+ 3+ 5"))...)
	f.expectEmpty()
}

func TestABorrowerThatClosesOrphansWhatMovedAndWasNotSent(t *testing.T) {
	f := setup(t, Policy{Identifiers: 65535})
	c := f.attach(&consumer{Consumer: Consumer{Credit: 3, UnsentMax: 1}})
	l := f.lender(queue)
	l.fill(3)
	equal(t, "moved", l.move(3), true)
	f.store.flush()
	ds := f.m.Take(&c.Consumer, nil)
	equal(t, "sent", show(ds), "1")
	f.detach(c)
	f.m.Close()
	equal(t, "orphans", len(l.orphans), 2)
	l.expect(0, 0)
}

func TestALenderBecomesDurable(t *testing.T) {
	f := setup(t, session)
	l := f.lender(Policy{MaxBytes: 1 << 20})
	l.fill(3)
	b := f.store.begin()
	l.m.Promote(b)
	l.id = l.m.ID()
	b.Commit()
	l.fill(2)
	equal(t, "on disk", fmt.Sprint(f.store.live(l.id)), "[4 5]")
	f.attach(&consumer{Consumer: Consumer{Credit: 10}})
	equal(t, "bytes", l.m.Status().Bytes, 50)
	lent := l.lend(5)
	b = f.store.begin()
	l.member.Settled(b, lent)
	b.Commit()
	f.store.flush()
	equal(t, "left", fmt.Sprint(f.store.live(l.id), l.m.Status().Bytes), "[] 0")
}

func TestALoanIsReturnedAndWhatIsTheBorrowersOwnIsNot(t *testing.T) {
	f := setup(t, session)
	c := f.attach(&consumer{Consumer: Consumer{Credit: 3}})
	l := f.lender(queue)
	l.fill(2)
	f.publish(1)
	l.borrow(2)
	own := f.m.Return(&c.Consumer, append(keys(f.expectTake(c, "1 2 3")), 77))
	equal(t, "its own", fmt.Sprint(own), "[1]")
	l.expect(2, 0)
	equal(t, "room", l.member.Room(), 2)
	f.settle(c, own...)
	f.expectEmpty()
	b := f.store.begin()
	l.member.Settled(b, l.lend(2))
	b.Commit()
	l.expect(0, 0)
}
