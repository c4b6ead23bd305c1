package mailbox

import (
	"errors"
	"testing"

	"emanet/internal/message"
	"emanet/internal/store"
)

// addExpiring appends an entry whose message expires so many milliseconds from now.
func (f *fixture) addExpiring(in int64) uint64 {
	return f.addMessage(&message.Message{Topic: "t", Payload: make([]byte, 9), ExpiresAt: f.host.Now() + in}, 0)
}

func TestTheHeadExpiresWithoutAnyConsumer(t *testing.T) {
	f := setup(t, queue)
	start := f.host.Now()
	f.addExpiring(50)
	f.addExpiring(20) // further back: expires when it gets to the head
	f.addExpiring(90)
	f.store.flush()
	equal(t, "wish", f.host.wish(), start+50)
	f.host.clock.Store(start + 49)
	f.sweep()
	f.expectLive(1, 2, 3)
	f.host.clock.Store(start + 50)
	f.sweepDue()
	f.expectLive(3)
	equal(t, "next wish", f.host.wish(), start+90)
	equal(t, "counted", f.host.drops(ReasonExpired), 2)
	equal(t, "status", f.status(), "ready 1, in flight 0, bytes 10")
}

func TestTheQueuesOwnTTLAndTheMessagesExpiryTheEarlierCounts(t *testing.T) {
	p := queue
	p.TTL = 30
	f := setup(t, p)
	start := f.host.Now()
	f.addExpiring(50)
	equal(t, "wish", f.host.wish(), start+30)
	f.sweepAfter(30)
	f.expectEmpty()
	f.addExpiring(10)
	equal(t, "wish", f.host.wish(), start+40)
}

// sweepAfter lets time pass and sweeps what is due.
func (f *fixture) sweepAfter(ms int64) {
	f.host.clock.Add(ms)
	f.sweepDue()
}

func TestTheOwnDeadlineSurvivesARestart(t *testing.T) {
	p := queue
	p.TTL = 30
	f := setup(t, p)
	start := f.host.Now()
	f.add(0)
	f.store.flush()
	f.host.clock.Add(10)
	f.host.sweepAt = 0
	f.restore(f.store.last, Sent{})
	equal(t, "wish", f.host.wish(), start+30)
}

func TestAnExpiredEntryIsNotDeliveredEvenBeforeTheSweep(t *testing.T) {
	f := setup(t, queue)
	f.addExpiring(10)
	f.add(0)
	f.store.flush()
	f.host.clock.Add(10)
	c := f.attach(&consumer{})
	f.expectTake(c, "")
	f.sweepDue()
	f.expectTake(c, "2")
}

func TestWhatWasSentDoesNotExpire(t *testing.T) {
	f := setup(t, session)
	f.addExpiring(10)
	f.store.flush()
	c := f.attach(&consumer{})
	f.expectTake(c, "1")
	f.sweepAfter(20)
	f.detach(c)
	f.sweepAfter(20)
	f.restore(f.store.last, Sent{High: 1})
	f.sweepAfter(20)
	f.expectTake(f.attach(&consumer{}), "1+")
}

func TestWhatWasAssignedAndNeverTakenExpiresOnceItIsBack(t *testing.T) {
	f := setup(t, queue)
	f.addExpiring(10)
	f.add(0)
	f.store.flush()
	f.host.sweepAt = 0
	f.m.sweepAt = 0
	f.detach(f.attach(&consumer{}))
	f.sweepAfter(10)
	f.expectTake(f.attach(&consumer{}), "2")
}

func TestASweepIsWishedForBehindWhatCameBack(t *testing.T) {
	f := setup(t, session)
	c := f.taking(1, 1)
	f.detach(c)
	f.addExpiring(10)
	f.store.flush()
	f.sweepAfter(10)
	f.expectLive(1)
}

func TestTheNextHeadIsWishedForWhenABoundDropsTheOneBefore(t *testing.T) {
	p := queue
	p.MaxEntries = 2
	f := setup(t, p)
	f.add(0)
	f.addExpiring(10)
	equal(t, "the head never expires", f.host.wish(), 0)
	f.add(0)
	equal(t, "wish", f.host.wish(), f.host.Now()+10)
}

func TestASweepIsBoundedAndAsksForTheNext(t *testing.T) {
	f := setup(t, queue)
	for range SweepLen + 5 {
		f.addExpiring(10)
	}
	f.store.flush()
	f.host.clock.Add(10)
	f.sweep()
	equal(t, "left", f.m.Status().Ready, 5)
	f.sweepDue()
	f.expectEmpty()
}

func TestALongQueueOfExpiredEntriesOnDiskIsShedWithoutAConsumer(t *testing.T) {
	for _, restart := range []bool{false, true} {
		p := queue
		p.TTL = 10
		f := setup(t, p)
		f.publish(5000)
		f.evict()
		if restart {
			f.host.sweepAt = 0
			f.restore(f.store.last, Sent{})
		}
		f.host.clock.Add(5)
		f.sweepDue()
		f.publish(1)
		f.host.clock.Add(5)
		f.sweepDue()
		f.expectLive(5001)
		equal(t, "wish", f.host.wish(), f.host.Now()+5)
	}
}

func TestEveryLaneOnDiskIsShedAfterARestart(t *testing.T) {
	p := queue
	p.DeadLetterExpired = true
	f := setup(t, p)
	f.host.dead = func(*store.Batch, *store.Entry, Reason) {}
	for priority := range uint8(3) {
		msg := bodyOf(10)
		if priority < 2 { // the first to be read never expires
			msg.ExpiresAt = f.host.Now() + 10
		}
		f.addMessage(msg, priority)
	}
	f.store.flush()
	f.store.fold()
	f.host.sweepAt = 0
	f.restore(f.store.last, Sent{})
	f.sweepAfter(10)
	f.expectLive(3)
}

func TestExpiredEntriesAreDeadLetteredIfThePolicySaysSo(t *testing.T) {
	p := queue
	p.DeadLetterExpired = true
	f := setup(t, p)
	other := f.deadLetterTo()
	for range 3 {
		f.addExpiring(10)
	}
	f.add(0)
	f.store.flush()
	f.host.clock.Add(10)
	lsn := f.store.last
	f.sweep()
	equal(t, "one batch", f.store.last, lsn+1)
	f.expectLive(4)
	equal(t, "moved", len(f.store.live(other.ID())), 3)
}

func TestAnEmptyMailboxHasNoWish(t *testing.T) {
	f := setup(t, queue)
	f.publish(3)
	f.sweep()
	equal(t, "wishes", f.host.wishes, 0)
}

func TestAFailedLoadIsReportedAndTriedAgain(t *testing.T) {
	f := setup(t, queue)
	f.publish(1000)
	f.store.fold()
	f.restore(f.store.last, Sent{})
	f.store.readErr = errors.New("disk is gone")
	c := f.attach(&consumer{})
	f.waitLoad()
	poll(t, "the report", func() bool { f.host.mu.Lock(); defer f.host.mu.Unlock(); return len(f.host.errs) == 1 })
	equal(t, "tries again in a second", f.host.wish(), f.host.Now()+retryLoad)
	f.store.readErr = nil
	f.sweepAfter(retryLoad)
	f.expectTake(c, span(1, 1000))
}
