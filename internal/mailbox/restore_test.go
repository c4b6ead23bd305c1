package mailbox

import (
	"testing"
)

// taking publishes n entries, has a consumer with this credit take, and returns it.
func (f *fixture) taking(n, credit int) *consumer {
	c := f.attach(&consumer{Consumer: Consumer{Credit: credit}})
	f.publish(n)
	f.take(c)
	return c
}

func TestARestartGivesBackWhatIsUnsettledInOrder(t *testing.T) {
	f := setup(t, queue)
	c := f.attach(&consumer{})
	for _, p := range []uint8{0, 3, 0, 3, 0} {
		f.add(p)
	}
	f.store.flush()
	f.take(c)
	f.settle(c, 2, 3)
	f.restore(f.store.last, Sent{})
	equal(t, "status", f.status(), "ready 3, in flight 0, bytes 30")
	f.expectTake(f.attach(&consumer{}), "4 1 5")
	equal(t, "next seq", f.add(0), 6)
}

func TestWhatWasNotFlushedMayBeLostButNothingElse(t *testing.T) {
	f := setup(t, queue)
	f.publish(3)
	c := f.attach(&consumer{})
	f.take(c)
	f.settle(c, 2)
	f.add(0)
	f.restore(f.store.flushLSN, Sent{})
	f.expectTake(f.attach(&consumer{}), "1 2 3")
	equal(t, "next seq", f.add(0), 4)
}

func TestAfterADetachedCrashTheHighestSeqSentDecidesDUP(t *testing.T) {
	for _, folded := range []int{0, 2, 6} {
		f := setup(t, session)
		f.publish(folded)
		f.store.fold()
		f.publish(6 - folded)
		f.restore(f.store.last, Sent{High: 4})
		f.expectTake(f.attach(&consumer{}), "1+ 2+ 3+ 4+ 5 6")
	}
}

func TestAfterAnAttachedCrashTheFirstOfTheWindowCarryDUP(t *testing.T) {
	for _, folded := range []int{0, 2, 6} {
		f := setup(t, session)
		c := f.attach(&consumer{Consumer: Consumer{Credit: 3}})
		f.publish(folded)
		f.store.fold()
		f.publish(6 - folded)
		f.take(c)
		f.settle(c, 1, 2)
		f.restore(f.store.last, Sent{First: 3})
		f.expectTake(f.attach(&consumer{}), "3+ 4+ 5+ 6")
	}
}

func TestTheRecordedHighCountsAlsoAfterAnAttachedCrash(t *testing.T) {
	f := setup(t, session)
	f.publish(5)
	f.restore(f.store.last, Sent{High: 3, First: 1})
	f.expectTake(f.attach(&consumer{}), "1+ 2+ 3+ 4 5")
}

func TestBeforeSparesWhatCameAfterTheCrash(t *testing.T) {
	f := setup(t, session)
	f.publish(4)
	f.restore(f.store.last, Sent{First: 6, Before: 3})
	f.expectTake(f.attach(&consumer{}), "1+ 2+ 3 4")
}

func TestWhatCameAfterTheFirstCrashAndWasSentIsKnownToBeAfterTheSecond(t *testing.T) {
	f := setup(t, session)
	f.publish(1)
	f.store.fold()
	f.publish(1)
	f.restore(f.store.last, Sent{High: 2, First: 3, Before: 2})
	f.expectTake(f.attach(&consumer{}), "1+ 2+")
}

func TestSentSaysWhatASecondRestartMustKnow(t *testing.T) {
	f := setup(t, session)
	f.publish(2000)
	f.store.fold()
	f.restore(f.store.last, Sent{First: 1500})
	f.publish(1)
	equal(t, "before anything was read", f.m.Sent(), Sent{First: 1500, Before: 2001})

	// A connection with a small window comes, settles, and goes: the guess of the first crash still stands.
	c := f.attach(&consumer{Consumer: Consumer{Credit: 3}})
	f.expectTake(c, "1+ 2+ 3+")
	f.settle(c, 1, 2)
	f.store.flush()
	equal(t, "highest sent that was read", f.m.Detach(&c.Consumer), uint64(pagingDefaults.loadLen))
	sent := f.m.Sent()
	f.restore(f.store.last, sent)
	ds := f.take(f.attach(&consumer{}))
	equal(t, "taken", len(ds), 1999)
	for _, d := range ds {
		equal(t, "DUP", d.Redelivered, d.Seq <= 1500)
	}
}

func TestSentNamesByNumberWhatIsStillOnDisk(t *testing.T) {
	f := setup(t, session)
	f.publish(3000)
	f.store.fold()
	f.restore(f.store.last, Sent{First: 2500})
	gate := make(chan struct{})
	f.store.gate = gate
	c := f.attach(&consumer{Consumer: Consumer{Credit: 3}})
	gate <- struct{}{} // one load, of 1,024
	var ds []Delivery
	poll(t, "deliveries", func() bool { ds = f.m.Take(&c.Consumer, ds); return len(ds) == 3 })
	equal(t, "sent", f.m.Sent(), Sent{High: 1024, First: 2500, Before: 3001})
	f.settle(c, 1)
	equal(t, "sent", f.m.Sent(), Sent{High: 1024, First: 2499, Before: 3001})
	f.detach(c)
	equal(t, "sent", f.m.Sent(), Sent{High: 1024, First: 2499, Before: 3001})
	close(gate)
}

func TestTheCountsFoundAtStartGiveWayToThePages(t *testing.T) {
	for _, off := range []int{-3, 5} {
		f := setup(t, queue)
		f.publish(100)
		f.store.fold()
		f.store = f.store.restart()
		st := f.store.state(f.id)
		st.Lanes[0].Count += uint64(off)
		st.Lanes[0].Bytes += int64(off) * 10
		f.m = Restore(f.store, f.host, st, Sent{}, f.policy)
		c := f.attach(&consumer{})
		f.settle(c, keys(f.expectTake(c, span(1, 100)))...)
		f.expectEmpty()
	}
}

func TestReleasedEntriesComeBackAsReleasedAfterARestart(t *testing.T) {
	for _, foldedWhen := range []string{"never", "before the release", "after the release"} {
		f := setup(t, session)
		c := f.taking(3, 10)
		if foldedWhen == "before the release" {
			f.store.fold()
		}
		f.release(c, 2)
		f.store.flush()
		if foldedWhen == "after the release" {
			f.store.fold()
		}
		f.restore(f.store.last, Sent{High: 3})
		equal(t, "status, folded "+foldedWhen, f.status(), "ready 3, in flight 0, bytes 20")
		c = f.attach(&consumer{})
		f.expectTake(c, "1+ 2+r 3+")
		f.settle(c, 1, 2, 3)
		f.expectEmpty()
	}
}

func TestAReleaseThatWasNotFlushedIsAnEntryInFlightAgain(t *testing.T) {
	f := setup(t, session)
	c := f.taking(1, 10)
	f.release(c, 1)
	f.restore(f.store.flushLSN, Sent{High: 1})
	ds := f.expectTake(f.attach(&consumer{}), "1+")
	equal(t, "has its body", len(ds[0].Message.Payload), 9)
}

func TestTwoEntriesOfOneKeyAfterAnAttachedCrashDoNotWaitForEachOther(t *testing.T) {
	// ADR 0002, R3: seq 1 unsettled, those between settled, and 1 + identifiers within the window.
	p := session
	p.Identifiers = 3
	f := setup(t, p)
	c := f.taking(4, 3)
	f.settle(c, 2, 0)
	f.store.flush()
	f.restore(f.store.last, Sent{First: 3})
	c = f.attach(&consumer{Consumer: Consumer{Credit: 3}})
	f.expectTake(c, "1+")
	f.settle(c, 1)
	f.store.flush()
	f.expectTake(c, "4+")
	f.settle(c, 1)
	f.expectEmpty()
}

func TestSettlementsAboveTheLastFoldAreNotDeliveredAgain(t *testing.T) {
	f := setup(t, queue)
	f.publish(10)
	c := f.attach(&consumer{})
	f.store.fold()
	f.take(c)
	f.settle(c, 1, 2, 5, 9, 10)
	f.store.flush()
	f.restore(f.store.last, Sent{})
	f.store.fold() // the pages may have learned of them by the time they are read
	f.expectTake(f.attach(&consumer{}), "3 4 6 7 8")

	f.publish(1)
	f.restore(f.store.last, Sent{})
	f.expectTake(f.attach(&consumer{}), "3 4 6 7 8 11")
}
