package mailbox

import (
	"testing"

	"emanet/internal/store"
)

func TestSettledEntriesAreWrittenAsRanges(t *testing.T) {
	f := setup(t, queue)
	c := f.attach(&consumer{})
	f.publish(10)
	f.take(c)
	b := f.store.begin()
	f.m.Settle(b, &c.Consumer, []uint64{1, 2, 3, 7, 8, 10})
	b.Commit()
	last := f.store.records[len(f.store.records)-1]
	var ranges []store.SeqRange
	for o := store.NewOps(last.ops); o.Next(); {
		ranges = append(ranges, o.Op().Range)
	}
	equal(t, "ranges", [3]store.SeqRange(ranges), [3]store.SeqRange{{From: 1, To: 3}, {From: 7, To: 8}, {From: 10, To: 10}})
	f.expectLive(4, 5, 6, 9)
}

func TestAKeyIsSettledOnce(t *testing.T) {
	f := setup(t, session)
	c := f.attach(&consumer{})
	f.publish(2)
	f.take(c)
	equal(t, "first", f.settle(c, 1), 1)
	equal(t, "again, before the flush", f.settle(c, 1), 0)
	f.store.flush()
	equal(t, "again", f.settle(c, 1), 0)
	equal(t, "never sent", f.settle(c, 9), 0)
	f.expectLive(2)
}

func TestWhatWasAssignedButNotTakenCannotBeSettled(t *testing.T) {
	f := setup(t, session)
	c := f.attach(&consumer{})
	f.publish(1)
	equal(t, "settled", f.settle(c, 1), 0)
	f.expectTake(c, "1")
}

func TestRequeuedEntriesComeBackAtTheirOriginalPosition(t *testing.T) {
	f := setup(t, queue)
	c := f.attach(&consumer{Consumer: Consumer{Credit: 4}})
	f.publish(6)
	f.expectTake(c, "1 2 3 4")
	f.requeue(c, 3, 2)
	f.expectTake(c, "2+ 3+")
	f.requeue(c, 4)
	f.requeue(c, 1)
	f.expectTake(c, "4+ 1+") // each went out again as soon as it had come back
	f.settle(c, 1, 2, 3, 4)
	f.store.flush()
	f.expectTake(c, "5 6")
}

func TestRequeueWithPrefetchOneGivesTheSameEntryAgain(t *testing.T) {
	f := setup(t, queue)
	c := f.attach(&consumer{Consumer: Consumer{Credit: 1}})
	f.publish(2)
	f.expectTake(c, "1")
	f.requeue(c, 1)
	f.expectTake(c, "1+")
	f.settle(c, 1)
	f.store.flush()
	f.expectTake(c, "2")
}

func TestRequeueMayGoToAnotherConsumer(t *testing.T) {
	f := setup(t, queue)
	a := f.attach(&consumer{Consumer: Consumer{Credit: 1}})
	f.publish(1)
	f.expectTake(a, "1")
	b := f.attach(&consumer{Consumer: Consumer{Priority: 1}})
	f.requeue(a, 1)
	f.expectTake(a, "")
	f.expectTake(b, "1+")
	equal(t, "settled by the first", f.settle(a, 1), 0)
	equal(t, "settled by the second", f.settle(b, 1), 1)
	f.expectEmpty()
}

func TestDeliveryCountsAreWrittenAndSurviveARestart(t *testing.T) {
	p := queue
	p.CountDeliveries = true
	f := setup(t, p)
	c := f.attach(&consumer{})
	f.publish(2)
	f.take(c)
	f.requeue(c, 2)
	f.take(c)
	f.requeue(c, 2)
	equal(t, "deliveries", f.take(c)[0].Deliveries, 2)
	f.restore(f.store.last, Sent{})
	ds := f.expectTake(f.attach(&consumer{}), "1 2+")
	equal(t, "deliveries after the restart", ds[1].Deliveries, 2)
}

func TestDetachGivesBackInOrderAndMarksOnlyWhatWasTaken(t *testing.T) {
	f := setup(t, queue)
	c := f.attach(&consumer{Consumer: Consumer{Credit: 3}})
	f.publish(3)
	f.m.Take(&c.Consumer, nil)
	f.settle(c, 2)
	f.store.flush()
	f.publish(3) // 4 is assigned, not taken
	equal(t, "highest sent", f.m.Detach(&c.Consumer), 3)
	equal(t, "status", f.status(), "ready 5, in flight 0, bytes 50")
	f.expectTake(f.attach(&consumer{}), "1+ 3+ 4 5 6")
}

func TestDetachOfOneOfSeveralInterleavesWhatItHeld(t *testing.T) {
	f := setup(t, queue)
	a, b := f.attach(&consumer{Consumer: Consumer{Credit: 3}}), f.attach(&consumer{Consumer: Consumer{Credit: 3}})
	f.publish(8) // a: 1 3 5, b: 2 4 6
	f.expectTake(a, "1 3 5")
	f.detach(b) // never took
	f.detach(a)
	f.expectTake(f.attach(&consumer{}), "1+ 2 3+ 4 5+ 6 7 8")
}

func TestDetachTwiceIsFine(t *testing.T) {
	f := setup(t, queue)
	c := f.attach(&consumer{})
	f.publish(1)
	f.take(c)
	f.detach(c)
	f.detach(c)
	f.expectTake(c, "")
	equal(t, "status", f.status(), "ready 1, in flight 0, bytes 10")
}

func TestLateKeysAfterATakeoverAreIgnored(t *testing.T) {
	f := setup(t, session)
	old := f.attach(&consumer{})
	f.publish(2)
	f.take(old)
	f.m.Detach(&old.Consumer)
	c := f.attach(&consumer{})
	f.expectTake(c, "1+ 2+")
	equal(t, "settled", f.settle(old, 1), 0)
	_, ok := f.release(old, 2)
	equal(t, "released", ok, false)
	equal(t, "requeued", f.requeue(old, 1), 0)
	_, ok = f.m.InFlight(&old.Consumer, 1)
	equal(t, "in flight", ok, false)
	f.expectLive(1, 2)
}

func TestWhatTheOldConnectionSettledHoldsKeyAndCreditUntilItIsOnDisk(t *testing.T) {
	for _, identifiers := range []uint64{2, 65535} {
		p := session
		p.Identifiers = identifiers
		f := setup(t, p)
		old := f.attach(&consumer{Consumer: Consumer{Credit: 2}})
		f.publish(4)
		f.settle(old, keys(f.take(old))...)
		f.m.Detach(&old.Consumer)
		c := f.attach(&consumer{Consumer: Consumer{Credit: 2}})
		f.expectTake(c, "")
		f.store.flush()
		f.expectTake(c, "3 4")
	}
}

func TestAnEntrySettledBeforeItsResendIsNotTakenForTheNextOfItsKey(t *testing.T) {
	p := session
	p.Identifiers = 3
	f := setup(t, p)
	old := f.attach(&consumer{Consumer: Consumer{Credit: 3}})
	f.publish(4)
	f.take(old)
	f.m.Detach(&old.Consumer)
	c := f.attach(&consumer{Consumer: Consumer{Credit: 3}})
	equal(t, "settled", f.settle(c, 1), 1)
	f.store.flush() // 4, of the same key, is assigned behind 1, 2 and 3
	f.expectTake(c, "2+ 3+ 4")
}

func TestAReleasedEntryStaysUnderItsKeyUntilItIsSettled(t *testing.T) {
	f := setup(t, session)
	c := f.attach(&consumer{Consumer: Consumer{Credit: 1}})
	f.publish(2)
	f.take(c)
	lsn, ok := f.release(c, 1)
	equal(t, "released", ok, true)
	equal(t, "waits for its own batch", lsn, f.store.last)
	again, ok := f.release(c, 1)
	equal(t, "released again", ok, true)
	equal(t, "waits for the same", again, lsn)
	e, _ := f.m.InFlight(&c.Consumer, 1)
	equal(t, "released, no body", e.Released && e.Message == nil, true)
	f.store.flush()
	f.expectTake(c, "") // holds the credit
	f.settle(c, 1)
	f.store.flush()
	f.expectTake(c, "2")
}

func TestAReleasedEntryIsResumedAsReleasedWhenThatIsOnDisk(t *testing.T) {
	f := setup(t, session)
	c := f.attach(&consumer{})
	f.publish(2)
	f.take(c)
	f.release(c, 1)
	f.m.Detach(&c.Consumer)
	c = f.attach(&consumer{})
	f.expectTake(c, "")
	f.store.flush()
	f.expectTake(c, "1+r 2+")
}

func TestReleasedEntriesNeedNoCreditButUseIt(t *testing.T) {
	f := setup(t, session)
	c := f.attach(&consumer{Consumer: Consumer{Credit: 3}})
	f.publish(4)
	f.take(c)
	f.release(c, 1)
	f.release(c, 2)
	f.m.Detach(&c.Consumer)
	f.store.flush()
	c = f.attach(&consumer{Consumer: Consumer{Credit: 1}})
	f.expectTake(c, "1+r 2+r")
	f.settle(c, 1)
	f.store.flush()
	f.expectTake(c, "")
	f.settle(c, 2)
	f.store.flush()
	f.expectTake(c, "3+")
}

func TestAnAcknowledgementBeforeTheResendCounts(t *testing.T) {
	// ADR 0002: id -> entry is the lowest unsettled seq ever sent, wherever this connection's cursor stands.
	f := setup(t, session)
	c := f.attach(&consumer{Consumer: Consumer{Credit: 5}})
	f.publish(6)
	f.take(c)
	f.m.Detach(&c.Consumer)
	c = f.attach(&consumer{Consumer: Consumer{Credit: 2}})
	f.store.flush()
	f.m.Wake()                             // 1 and 2 are assigned, 3 to 5 wait, 6 was never sent
	equal(t, "settled", f.settle(c, 1), 1) // assigned
	equal(t, "settled", f.settle(c, 4), 1) // waiting
	equal(t, "never sent", f.settle(c, 6), 0)
	_, ok := f.release(c, 2)
	equal(t, "released", ok, true)
	_, ok = f.release(c, 3)
	equal(t, "released", ok, true)
	f.expectTake(c, "") // whoever released 2 sends what ends it, once that is on disk; Take would be too early
	f.store.flush()
	f.expectTake(c, "") // 2 and 3 hold the credit
	f.settle(c, 2, 3)
	f.store.flush()
	f.expectTake(c, "5+ 6")
	f.settle(c, 5, 6)
	f.expectEmpty()
}

func TestDeadLetterByAConsumerMovesAndSettlesInOneBatch(t *testing.T) {
	f := setup(t, queue)
	other := f.deadLetterTo()
	c := f.attach(&consumer{})
	f.publish(3)
	f.take(c)
	b := f.store.begin()
	equal(t, "dead-lettered", f.m.DeadLetter(b, &c.Consumer, []uint64{1, 3, 7}, ReasonRejected), 2)
	lsn := b.Commit()
	equal(t, "moved in the same batch", f.store.last, lsn)
	f.expectLive(2)
	equal(t, "moved", len(f.store.live(other.ID())), 2)
	equal(t, "counted", f.host.drops(ReasonRejected), 2)
}

func TestAReleasedEntryThatWaitsForItsResumeIsLookedAtAndStaysThere(t *testing.T) {
	// ADR 0002, R8: clients that repeat PUBREC on CONNECT ask for it before its PUBREL has gone out again.
	f := setup(t, session)
	c := f.attach(&consumer{Consumer: Consumer{Credit: 3}})
	f.publish(3)
	f.take(c)
	f.release(c, 1)
	f.m.Detach(&c.Consumer)
	c = f.attach(&consumer{Consumer: Consumer{Credit: 3}})
	e, ok := f.m.InFlight(&c.Consumer, 1)
	equal(t, "in flight, released", ok && e.Released, true)
	equal(t, "its end before its PUBREL", f.settle(c, 1), 0)
	f.store.flush()
	f.expectTake(c, "1+r 2+ 3+")
	equal(t, "its end", f.settle(c, 1), 1)
}
