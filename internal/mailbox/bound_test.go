package mailbox

import (
	"fmt"
	"testing"

	"emanet/internal/store"
)

func TestDropOldestMakesWayInTheBatchOfTheNewEntry(t *testing.T) {
	p := queue
	p.MaxEntries = 3
	f := setup(t, p)
	f.publish(5)
	f.expectLive(3, 4, 5)
	equal(t, "counted", f.host.drops(ReasonOverflow), 2)
	equal(t, "status", f.status(), "ready 3, in flight 0, bytes 30")
	f.restore(f.store.last, Sent{})
	f.expectTake(f.attach(&consumer{}), "3 4 5")
}

func TestABoundByBytesDropsAsManyAsItTakes(t *testing.T) {
	p := queue
	p.MaxBytes = 100
	f := setup(t, p)
	f.publish(10)
	f.addMessage(bodyOf(35), 0)
	f.store.flush()
	f.expectLive(5, 6, 7, 8, 9, 10, 11)
	equal(t, "status", f.status(), "ready 7, in flight 0, bytes 95")
	f.addMessage(bodyOf(101), 0) // larger than the bound: it cannot stay either
	f.expectEmpty()
	equal(t, "counted", f.host.drops(ReasonOverflow), 12)
}

func TestALargeMessageDropsALimitedNumberAtOnceAndTheRestInSweeps(t *testing.T) {
	p := queue
	p.MaxBytes = 50_000
	f := setup(t, p)
	f.publish(5000)
	f.addMessage(bodyOf(45_000), 0)
	equal(t, "dropped at once", f.host.drops(ReasonOverflow), TrimLen)
	equal(t, "sweep is asked for now", f.host.wish(), f.host.Now())
	f.sweepDue()
	equal(t, "dropped", f.host.drops(ReasonOverflow), 4500)
	equal(t, "status", f.status(), "ready 501, in flight 0, bytes 50000")
}

func TestTheLowestPriorityIsDroppedFirst(t *testing.T) {
	p := queue
	p.MaxEntries = 3
	f := setup(t, p)
	for _, priority := range []uint8{5, 0, 9, 5, 9, 9} {
		f.add(priority)
	}
	f.expectLive(3, 5, 6)
	f.add(0) // the lowest itself
	f.expectLive(3, 5, 6)
}

func TestInFlightEntriesAreNeitherDroppedNorCounted(t *testing.T) {
	p := queue
	p.MaxEntries = 2
	f := setup(t, p)
	c := f.taking(2, 2)
	f.publish(3)
	f.expectLive(1, 2, 4, 5)
	f.detach(c) // what was sent may have arrived
	f.publish(1)
	f.expectLive(1, 2, 5, 6)
	f.expectTake(f.attach(&consumer{}), "1+ 2+ 5 6")
}

func TestAfterARestartWhatMayHaveBeenSentIsNotDropped(t *testing.T) {
	for _, folded := range []bool{false, true} {
		p := session
		p.MaxEntries = 2
		f := setup(t, p)
		f.taking(4, 3)
		if folded {
			f.store.fold()
		}
		f.restore(f.store.last, Sent{First: 3})
		f.publish(3)
		f.sweepDue()
		f.sweep()
		f.sweepDue()
		f.expectLive(1, 2, 3, 6, 7)
	}
}

func TestTheWindowOfAnAttachedSessionIsNotDroppedThoughItWasNotSent(t *testing.T) {
	// ADR 0002, R2.
	p := session
	p.MaxEntries = 2
	f := setup(t, p)
	c := f.attach(&consumer{Consumer: Consumer{Credit: 3}})
	for range 9 {
		f.add(0)
	}
	f.expectLive(1, 2, 3, 8, 9)
	f.store.flush()
	f.expectTake(c, "1 2 3")
	f.settle(c, 1, 2)
	f.publish(3)
	f.expectLive(3, 8, 9, 11, 12) // 8 and 9 moved into the window
	f.expectTake(c, "8 9")
	f.m.Detach(&c.Consumer)
	equal(t, "status", f.status(), "ready 5, in flight 0, bytes 50")
	f.publish(1)
	f.expectLive(3, 8, 9, 12, 13)
}

func TestTheWindowEndsWithTheConnection(t *testing.T) {
	p := session
	p.MaxEntries = 2
	f := setup(t, p)
	c := f.attach(&consumer{Consumer: Consumer{Credit: 5}})
	for range 7 {
		f.add(0)
	}
	f.expectLive(1, 2, 3, 4, 5, 6, 7)
	f.detach(c)
	f.publish(1)
	f.expectLive(7, 8)
	f.expectTake(f.attach(&consumer{}), "7 8")
}

func TestAFloodDoesNotStarveASlowSession(t *testing.T) {
	p := session
	p.MaxEntries = 2
	f := setup(t, p)
	c := f.attach(&consumer{Consumer: Consumer{Credit: 1}})
	f.publish(1)
	f.expectTake(c, "1")
	f.settle(c, 1)
	for range 5 {
		f.add(0)
	}
	f.store.flush()
	f.add(0) // there is always something unflushed
	f.expectTake(c, "2")
}

func TestNothingIsSentPastAnExpiredFrontBeforeThatIsOnDisk(t *testing.T) {
	// ADR 0002, R1: a crash would bring 1 back behind 2.
	f := setup(t, session)
	f.addExpiring(10)
	f.add(0)
	f.store.flush()
	c := f.attach(&consumer{Consumer: Consumer{Credit: 1}})
	f.detach(c)
	f.host.clock.Add(10)
	f.sweep()
	f.expectLive(2)
	c = f.attach(&consumer{Consumer: Consumer{Credit: 1}})
	f.expectTake(c, "")
	f.store.flush()
	f.expectTake(c, "2")
}

func TestNothingIsSentPastADroppedFrontBeforeThatIsOnDisk(t *testing.T) {
	p := session
	p.MaxEntries = 2
	f := setup(t, p)
	f.publish(2)
	f.add(0)
	f.expectLive(2, 3)
	c := f.attach(&consumer{Consumer: Consumer{Credit: 1}})
	f.expectTake(c, "") // 2 is on disk, that 1 is gone is not
	f.store.flush()
	f.expectTake(c, "2")
}

func TestRejectNewTellsThePublisherAndChangesNothing(t *testing.T) {
	p := queue
	p.MaxEntries, p.MaxBytes, p.Overflow = 2, 100, RejectNew
	a, b := setup(t, p), setup(t, queue)
	a.publish(1)
	equal(t, "fits", a.m.Admit(nil, bodyOf(90)), Admitted)
	equal(t, "too many bytes", a.m.Admit(nil, bodyOf(91)), Rejected)
	a.publish(1)
	before := a.m.Status()
	equal(t, "no bound", b.m.Admit(nil, bodyOf(1000)), Admitted)
	equal(t, "too many", a.m.Admit(nil, bodyOf(1)), Rejected)
	equal(t, "status", a.m.Status(), before)
	equal(t, "counted", a.host.drops(ReasonRejected), 2)

	c := a.attach(&consumer{})
	a.take(c)
	equal(t, "in flight does not count", a.m.Admit(nil, bodyOf(1)), Admitted)
}

func TestBackPressureHoldsThePublisherUntilThereIsRoom(t *testing.T) {
	p := queue
	p.MaxEntries, p.Overflow = 2, BackPressure
	f := setup(t, p)
	f.publish(2)
	equal(t, "full", f.m.Admit(nil, bodyOf(1)), Wait)
	equal(t, "nothing was dropped", f.host.drops(ReasonRejected), 0)
	f.expectTake(f.attach(&consumer{Consumer: Consumer{Credit: 1}}), "1")
	equal(t, "room", f.m.Admit(nil, bodyOf(1)), Admitted)
}

func TestDeadLetterOldestMovesInOneBatch(t *testing.T) {
	p := queue
	p.MaxEntries, p.Overflow = 2, DeadLetterOldest
	f := setup(t, p)
	other := f.deadLetterTo()
	f.publish(2)
	for n := 1; n <= 3; n++ {
		lsn := f.store.last
		f.add(0)
		equal(t, "batches", f.store.last, lsn+1)
		equal(t, "moved", len(f.store.live(other.ID())), n)
		equal(t, "left", len(f.store.live(f.id)), 2)
	}
}

func TestADeadLetterMayComeBackToTheSameMailbox(t *testing.T) {
	p := queue
	p.TTL, p.DeadLetterExpired = 10, true
	f := setup(t, p)
	f.host.dead = func(b *store.Batch, e *store.Entry, _ Reason) {
		f.m.Append(b, store.Entry{Message: e.Message, MessageID: e.MessageID}, false)
	}
	f.publish(2)
	f.host.clock.Add(10)
	f.sweep()
	f.expectLive(3, 4)
	f.store.flush()
	f.expectTake(f.attach(&consumer{}), "3 4")
}

func TestABoundHoldsAcrossAGapOnDisk(t *testing.T) {
	for _, overflow := range []Overflow{DropOldest, DeadLetterOldest} {
		t.Run(fmt.Sprint(overflow), func(t *testing.T) {
			p := queue
			p.MaxEntries, p.Overflow = 2000, overflow
			f := setup(t, p)
			f.host.dead = func(*store.Batch, *store.Entry, Reason) {}
			f.publish(2000)
			if f.evict() == 0 {
				t.Fatal("nothing was evicted")
			}
			for range 3000 { // the head is used up before the gap is loaded
				f.add(0)
				f.store.flush()
			}
			f.sweepDue()
			equal(t, "status", f.status(), "ready 2000, in flight 0, bytes 20000")
			equal(t, "oldest", f.store.live(f.id)[0], 3001)
			equal(t, "counted", f.host.drops(ReasonOverflow), 3000)
			c := f.attach(&consumer{})
			equal(t, "taken", show(f.take(c)), span(3001, 5000))
		})
	}
}

func TestALoweredBoundIsEnforcedAfterARestart(t *testing.T) {
	f := setup(t, queue)
	f.publish(5000)
	f.store.fold()
	f.policy.MaxEntries = 100
	f.restore(f.store.last, Sent{})
	f.publish(1)
	f.sweepDue()
	equal(t, "status", f.status(), "ready 100, in flight 0, bytes 1000")
	f.expectTake(f.attach(&consumer{}), span(4902, 5001))
}

func TestAWindowThatGrowsDoesNotUncoverWhatWasDroppedBehindTheOld(t *testing.T) {
	p := session
	p.MaxEntries = 1
	f := setup(t, p)
	old := f.attach(&consumer{Consumer: Consumer{Credit: 2, UnsentMax: 1}})
	f.publish(3)
	f.add(0) // drops 3, behind the window
	f.expectLive(1, 2, 4)
	f.m.Detach(&old.Consumer)
	c := f.attach(&consumer{Consumer: Consumer{Credit: 10}})
	f.add(0)
	f.expectTake(c, "") // 4 must not go before it is on disk that 3 is gone
	f.store.flush()
	f.expectTake(c, "1 2 4 5")
}
