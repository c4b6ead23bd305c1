package mailbox

import (
	"testing"
)

func TestEntriesGoByPriorityAndThenInOrderOfArrival(t *testing.T) {
	f := setup(t, queue)
	for _, p := range []uint8{0, 5, 0, 9, 5} {
		f.add(p)
	}
	f.store.flush()
	f.expectTake(f.attach(&consumer{}), "4 2 5 1 3")
}

func TestAnEntryIsNotDeliveredBeforeItIsFlushed(t *testing.T) {
	f := setup(t, session)
	c := f.attach(&consumer{})
	f.add(0)
	f.expectTake(c, "")
	f.store.flush()
	equal(t, "woken by the flush", c.wakes.Load() > 0, true)
	f.expectTake(c, "1")
}

func TestWhatIsUnflushedWhenAConsumerComesIsAnnouncedByTheNextFlush(t *testing.T) {
	f := setup(t, session)
	f.add(0)
	c := f.attach(&consumer{})
	f.expectTake(c, "")
	f.store.flush()
	equal(t, "wakes", c.wakes.Load(), 1)
	f.expectTake(c, "1")
}

func TestAVolatileEntryNeedsNoFlushAndIsNotWritten(t *testing.T) {
	f := setup(t, queue)
	c := f.attach(&consumer{})
	f.publish(1)
	b := f.store.begin()
	msg := bodyOf(10)
	f.m.Append(b, entryOf(msg), true)
	b.Commit()
	f.m.Wake()
	ds := f.expectTake(c, "1 2")
	f.expectLive(1)
	f.settle(c, keys(ds)...)
	f.expectEmpty()
}

func TestAMailboxOfMemoryAloneWorksWithoutABatch(t *testing.T) {
	f := setup(t, Policy{Identifiers: 3, MaxEntries: 4})
	c := f.attach(&consumer{Consumer: Consumer{Credit: 2}})
	for range 9 {
		f.m.Append(nil, entryOf(bodyOf(10)), false)
	}
	f.m.Wake()
	for _, want := range []string{"1 2", "6 7", "8 9"} { // the window of 2 is not dropped, nor counted
		ds := f.expectTake(c, want)
		equal(t, "settled", f.m.Settle(nil, &c.Consumer, keys(ds)), 2)
		f.m.Wake()
	}
	f.expectEmpty()
}

func TestKeysAreTheSeqModuloTheIdentifiersAndWrapAround(t *testing.T) {
	p := session
	p.Identifiers = 3
	f := setup(t, p)
	c := f.attach(&consumer{Consumer: Consumer{Credit: 100}})
	f.publish(7)
	ds := f.expectTake(c, "1 2 3") // 4 would have the key of 1
	equal(t, "keys", [3]uint64(keys(ds)), [3]uint64{1, 2, 0})
	f.settle(c, 2)
	f.store.flush()
	f.expectTake(c, "") // 5 is free, but may not overtake 4
	f.settle(c, 1)
	f.expectTake(c, "") // the key is free when that is on disk
	f.store.flush()
	ds = f.expectTake(c, "4 5")
	equal(t, "keys", [2]uint64(keys(ds)), [2]uint64{1, 2})
}

func TestAllIdentifiersCanBeInFlight(t *testing.T) {
	f := setup(t, session)
	c := f.attach(&consumer{})
	f.publish(65_540)
	ds := f.take(c)
	equal(t, "taken", len(ds), 65_535)
	f.settle(c, ds[0].Key)
	f.store.flush()
	ds = f.expectTake(c, "65536")
	equal(t, "key of seq 65,536", ds[0].Key, 1)
}

func TestCreditIsFreeOnlyWhenTheSettlementIsFlushed(t *testing.T) {
	f := setup(t, queue)
	c := f.attach(&consumer{Consumer: Consumer{Credit: 2}})
	f.publish(4)
	f.expectTake(c, "1 2")
	f.settle(c, 1, 2)
	f.expectTake(c, "")
	equal(t, "status while settling", f.status(), "ready 2, in flight 0, bytes 20")
	f.store.flush()
	f.expectTake(c, "3 4")
}

func TestMoreCreditLetsMoreThrough(t *testing.T) {
	f := setup(t, queue)
	c := f.attach(&consumer{Consumer: Consumer{Credit: 1}})
	f.publish(4)
	f.expectTake(c, "1")
	f.m.SetCredit(&c.Consumer, 3)
	f.m.Wake()
	f.expectTake(c, "2 3")
}

func TestAConsumerThatDoesNotTakeHoldsLittle(t *testing.T) {
	f := setup(t, queue)
	slow := f.attach(&consumer{Consumer: Consumer{UnsentMax: 1}})
	f.publish(5)
	equal(t, "status", f.status(), "ready 4, in flight 1, bytes 40")
	first := f.m.Take(&slow.Consumer, nil)
	equal(t, "first", show(first), "1")
	f.expectTake(slow, "2 3 4 5")
}

func TestTwelveJobsAndTwoConsumersAreSixAndSixInTurns(t *testing.T) {
	f := setup(t, queue)
	f.publish(12)
	a, b := &consumer{}, &consumer{}
	a.Credit, b.Credit = 6, 6
	batch := f.store.begin()
	for _, c := range []*consumer{a, b} {
		c.UnsentMax, c.Wake = 1<<30, func() {}
		f.m.Attach(batch, &c.Consumer)
	}
	batch.Commit()
	f.expectTake(a, "1 3 5 7 9 11")
	f.expectTake(b, "2 4 6 8 10 12")
}

func TestTheTurnSurvivesThatAnotherConsumerLeaves(t *testing.T) {
	f := setup(t, queue)
	a, b := f.attach(&consumer{}), f.attach(&consumer{})
	for i := range 6 {
		passer := f.attach(&consumer{Consumer: Consumer{Priority: -1}})
		f.publish(1)
		f.detach(passer)
		want := a
		if i%2 == 1 {
			want = b
		}
		equal(t, "taken by whose turn it was", len(f.take(want)), 1)
	}
}

func TestASlowConsumerWithCreditOneDoesNotHoldUpItsFellow(t *testing.T) {
	f := setup(t, queue)
	slow := f.attach(&consumer{Consumer: Consumer{Credit: 1}})
	fast := f.attach(&consumer{Consumer: Consumer{Credit: 1}})
	f.publish(6)
	f.expectTake(slow, "1")
	for _, want := range []string{"2", "3", "4", "5", "6"} {
		ds := f.expectTake(fast, want)
		f.settle(fast, keys(ds)...)
		f.store.flush()
	}
	f.expectTake(slow, "")
	f.settle(slow, 1)
	f.expectEmpty()
}

func TestConsumersOfHigherPriorityGoFirstWhileTheyHaveRoom(t *testing.T) {
	f := setup(t, queue)
	low := f.attach(&consumer{})
	high := f.attach(&consumer{Consumer: Consumer{Priority: 10, Credit: 2}})
	f.publish(4)
	f.expectTake(high, "1 2")
	f.expectTake(low, "3 4")
	f.settle(high, 1)
	f.store.flush()
	f.publish(2)
	f.expectTake(high, "5")
	f.expectTake(low, "6")
}

func TestASingleActiveConsumerKeepsItsPlaceUntilItLeaves(t *testing.T) {
	p := queue
	p.SingleActive = true
	f := setup(t, p)
	first := f.attach(&consumer{Consumer: Consumer{Credit: 2}})
	second := f.attach(&consumer{Consumer: Consumer{Priority: 10}})
	f.publish(4)
	f.expectTake(first, "1 2")
	f.expectTake(second, "")
	f.detach(first)
	f.expectTake(second, "1+ 2+ 3 4")
}

func TestAfterCloseNothingIsHandedOutOrTakenIn(t *testing.T) {
	f := setup(t, queue)
	c := f.attach(&consumer{})
	f.publish(3)
	ds := f.m.Take(&c.Consumer, nil)
	f.publish(1)
	b := f.store.begin()
	b.MailboxDelete(f.id)
	f.m.Close()
	equal(t, "seq", f.m.Append(b, entryOf(bodyOf(10)), false), 0)
	equal(t, "settled", f.m.Settle(b, &c.Consumer, keys(ds)), 0)
	equal(t, "purged", f.m.Purge(b), 0)
	f.m.Sweep(b)
	late := &consumer{}
	f.m.Attach(b, &late.Consumer)
	b.Commit()
	f.store.flush()
	f.m.Wake()
	f.expectTake(c, "")
	f.expectTake(late, "")
	f.m.Detach(&c.Consumer)
	equal(t, "status", f.m.Status(), Status{NextSeq: 5})
}
