package mailbox

import "testing"

// The helpers of the other tests call Wake at every turn. Here only what the mailbox asked for itself, by
// Notify, may bring the consumer its next entry.

// expectFlushBrings flushes and takes, nothing else.
func (f *fixture) expectFlushBrings(c *consumer, want string) {
	f.t.Helper()
	equal(f.t, "before the flush", show(f.m.Take(&c.Consumer, nil)), "")
	wakes := c.wakes.Load()
	f.store.flush()
	equal(f.t, "wakes by the flush", c.wakes.Load(), wakes+1)
	equal(f.t, "after the flush", show(f.m.Take(&c.Consumer, nil)), want)
}

// quiet attaches a consumer and flushes, so that nothing is owed to it.
func (f *fixture) quiet(c *consumer) *consumer {
	f.attach(c)
	f.store.flush()
	return c
}

func TestTheFlushOfAnEntryWakes(t *testing.T) {
	f := setup(t, session)
	c := f.quiet(&consumer{})
	f.add(0)
	f.add(0)
	f.expectFlushBrings(c, "1 2")
}

func TestTheFlushOfASettlementWakes(t *testing.T) {
	f := setup(t, session)
	c := f.quiet(&consumer{Consumer: Consumer{Credit: 1}})
	f.publish(2)
	f.settle(c, keys(f.take(c))...)
	f.expectFlushBrings(c, "2")
}

func TestTheFlushOfADeadLetterWakes(t *testing.T) {
	f := setup(t, queue)
	f.deadLetterTo()
	c := f.quiet(&consumer{Consumer: Consumer{Credit: 1}})
	f.publish(2)
	f.take(c)
	b := f.store.begin()
	f.m.DeadLetter(b, &c.Consumer, []uint64{1}, ReasonRejected)
	b.Commit()
	f.expectFlushBrings(c, "2")
}

func TestTheFlushOfAnExpiryWakes(t *testing.T) {
	f := setup(t, session)
	f.addExpiring(10)
	f.add(0)
	f.store.flush()
	f.host.clock.Add(10)
	c := f.quiet(&consumer{})
	f.sweep()
	f.expectFlushBrings(c, "2")
}

func TestTheFlushOfAReleaseWakesWhoGetsTheEntryNext(t *testing.T) {
	f := setup(t, queue)
	first := f.quiet(&consumer{})
	f.publish(1)
	f.take(first)
	second := f.quiet(&consumer{})
	f.release(first, 1)
	f.detach(first)
	f.expectFlushBrings(second, "1+r")
}

func TestALoadWakes(t *testing.T) {
	f := setup(t, queue)
	f.publish(10)
	f.store.fold()
	f.restore(f.store.last, Sent{})
	gate := make(chan struct{})
	f.store.gate = gate
	c := f.quiet(&consumer{})
	wakes := c.wakes.Load()
	close(gate)
	poll(t, "the consumer to be woken", func() bool { return c.wakes.Load() > wakes })
	equal(t, "taken", show(f.m.Take(&c.Consumer, nil)), span(1, 10))
}

func TestAConsumerThatTakesIsNotWokenForWhatItGetsAnyway(t *testing.T) {
	f := setup(t, queue)
	c := f.quiet(&consumer{Consumer: Consumer{UnsentMax: 1}})
	f.publish(5)
	for range 5 {
		equal(t, "taken", len(f.m.Take(&c.Consumer, nil)), 1)
		equal(t, "wakes", c.wakes.Load(), 1)
	}
}

// The flush has come and its waiters are not called yet: a Take that finds nothing assigns what has become ready.
// Its caller stops at nothing, and the waiter finds nothing left to assign; so that Take itself must wake.
func TestATakeBetweenAFlushAndItsWaitersWakesItsOwnCaller(t *testing.T) {
	f := setup(t, session)
	c := f.quiet(&consumer{})
	f.add(0)
	f.store.mu.Lock()
	f.store.flushLSN = f.store.last
	f.store.mu.Unlock()
	wakes := c.wakes.Load()
	if len(f.m.Take(&c.Consumer, nil)) == 0 {
		equal(t, "wakes", c.wakes.Load(), wakes+1)
		equal(t, "taken after the wake", show(f.m.Take(&c.Consumer, nil)), "1")
	}
}

// Whoever waits for the mailbox to run low, to put in more, learns of it though nothing can be assigned.
func TestEntriesThatLeaveBySweepWake(t *testing.T) {
	for _, durable := range []bool{true, false} {
		p := session
		p.Durable = durable
		f := setup(t, p)
		c := f.quiet(&consumer{Consumer: Consumer{Credit: 1}})
		f.publish(1)
		f.m.Wake()
		f.take(c)
		f.addExpiring(10)
		f.store.flush()
		wakes := c.wakes.Load()
		f.sweep()
		equal(t, "wakes when nothing has expired", c.wakes.Load(), wakes)
		f.host.clock.Add(10)
		b := f.store.begin()
		f.m.Sweep(b)
		b.Commit()
		equal(t, "taken meanwhile", show(f.m.Take(&c.Consumer, nil)), "")
		f.m.Wake()
		equal(t, "wakes when one has", c.wakes.Load(), wakes+1)
		f.m.Wake()
		equal(t, "wakes afterwards", c.wakes.Load(), wakes+1)
	}
}
