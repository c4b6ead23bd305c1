package mailbox

import (
	"fmt"

	"pgregory.net/rapid"

	"emanet/internal/store"
)

func (r *modelRun) stepSettle(rt *rapid.T) {
	c := r.consumer(rt)
	if c == nil {
		return
	}
	es := r.pick(rt, r.held(c, true))
	equal(rt, "settled", r.settle(c.real, entryKeys(es)...), len(es))
	for _, e := range es {
		if e.lender != nil {
			r.settledLoan(e)
			continue
		}
		e.consumer, e.gone = c, r.store.last
	}
	r.after()
}

func (r *modelRun) stepRelease(rt *rapid.T) {
	c := r.consumer(rt)
	if c == nil || !r.session() {
		return
	}
	for _, e := range r.pick(rt, r.held(c, true)) {
		if e.lender != nil {
			continue // at QoS 2 an entry moves
		}
		lsn, ok := r.release(c.real, e.key)
		equal(rt, "released", ok, true)
		if !e.released {
			e.released, e.releasedAt, e.lsn = true, r.store.last, r.store.last
			e.taken = true // whoever released it answers
		}
		if e.consumer == nil {
			e.consumer, e.taken = c, true
		}
		if lsn > r.store.flushLSN || e.lsn > r.store.flushLSN { // a start gives the tail the LSN of the last flush
			equal(rt, "waits for", lsn, e.lsn)
		}
	}
	r.after()
}

func (r *modelRun) stepRequeue(rt *rapid.T) {
	c := r.consumer(rt)
	if c == nil {
		return
	}
	es := r.pick(rt, r.held(c, false))
	for _, e := range es {
		e.consumer, e.taken = nil, false
	}
	equal(rt, "requeued", r.requeue(c.real, entryKeys(es)...), len(es))
	for _, e := range es {
		if r.policy.CountDeliveries {
			e.deliveries = append(e.deliveries, r.store.last)
		}
	}
	r.after()
}

func (r *modelRun) note(attached bool, window int, change func(*store.Batch)) {
	b := r.store.begin()
	b.Put("session", "s", nil)
	change(b)
	r.records = append(r.records, sessionNote{b.Commit(), r.m.Sent(), attached, window})
}

func (r *modelRun) stepAttach(rt *rapid.T) {
	if r.session() && len(r.model.consumers) > 0 {
		r.detachNow(r.model.consumers[0]) // a takeover
	}
	if len(r.model.consumers) > 3 {
		return
	}
	c := &modelConsumer{real: &consumer{}}
	c.credit = rapid.IntRange(1, 20).Draw(rt, "credit")
	if !r.session() {
		c.priority = rapid.IntRange(0, 1).Draw(rt, "consumer priority")
		c.credit *= rapid.IntRange(0, 1).Draw(rt, "limited")
	}
	c.single = rapid.IntRange(0, 3).Draw(rt, "one at a time") == 0
	real := &c.real.Consumer
	real.Credit, real.Priority, real.Wake = c.credit, c.priority, func() {}
	if !c.single {
		real.UnsentMax = 1 << 40
	}
	r.note(true, c.credit, func(b *store.Batch) { r.m.Attach(b, real) })
	r.model.consumers = append(r.model.consumers, c)
	r.after()
}

func (r *modelRun) detachNow(c *modelConsumer) {
	r.m.Detach(&c.real.Consumer)
	r.giveBack(func(e *modelEntry) bool { return !e.sent })
	r.model.detach(c)
}

func (r *modelRun) stepDetach(rt *rapid.T) {
	c := r.consumer(rt)
	if c == nil {
		return
	}
	r.note(false, 0, func(*store.Batch) { r.detachNow(c) })
	r.after()
}

// stepEvict evicts by the last fold or by a new one: settlements stand in the pages later than entries.
func (r *modelRun) stepEvict(rt *rapid.T) {
	if rapid.Bool().Draw(rt, "fold") {
		r.store.fold()
	}
	r.waitLoad()
	r.m.Evict(r.store.folded, 0)
	r.after()
}

// stepScatter leaves what one consumer gave back between what another holds, and evicts around it.
func (r *modelRun) stepScatter(rt *rapid.T) {
	if r.session() || r.policy.SingleActive {
		return
	}
	r.stepAttach(rt)
	r.stepAttach(rt)
	r.stepBurst(rt)
	r.store.flush()
	r.after()
	r.stepTake(rt)
	r.stepDetach(rt)
	r.stepEvict(rt)
}

func (r *modelRun) stepSweep(rt *rapid.T) {
	r.host.clock.Add(rapid.Int64Range(0, 40).Draw(rt, "ms"))
	for i := 0; i == 0 || r.host.wish() != 0 && r.host.wish() <= r.host.Now(); i++ {
		r.sweep()
		r.waitLoad()
		r.noteDrops(true)
		r.after()
	}
	if n := r.model.countable(); r.policy.MaxEntries > 0 && n > r.policy.MaxEntries {
		rt.Fatalf("%d entries after the sweeps, the bound is %d", n, r.policy.MaxEntries)
	}
	for _, e := range r.model.byTurn() { // the first of each lane that was never sent
		if !e.sent {
			if e.expiresAt != 0 && e.expiresAt <= r.host.Now() && e.priority == 0 && r.session() {
				rt.Fatalf("entry %d is in front, expired and not shed", e.seq)
			}
			break
		}
	}
}

func (r *modelRun) stepPurge(rt *rapid.T) {
	if rapid.IntRange(0, 3).Draw(rt, "really") != 0 || r.m.Borrows() {
		return
	}
	want := uint64(0)
	n := r.purge()
	for _, e := range r.model.entries {
		if e.ready() {
			e.gone = r.store.last
			want++
		}
	}
	equal(rt, "purged", n, want)
	r.after()
}

func (r *modelRun) stepCrash(rt *rapid.T) {
	if rapid.IntRange(0, 2).Draw(rt, "really") != 0 {
		return
	}
	kept := store.LSN(rapid.Uint64Range(uint64(r.store.flushLSN), uint64(r.store.last)).Draw(rt, "kept"))
	var last sessionNote
	for _, n := range r.records {
		if n.lsn <= kept {
			last = n
		}
	}
	var sent Sent
	if r.session() {
		sent = last.sent
		if last.attached {
			sent.First, sent.Before = max(sent.First, last.window), 0
		}
	}
	r.host.sweepAt = 0
	r.restore(kept, sent)
	r.lenders = nil
	r.model.crash(kept, sent)
	r.model.nextSeq = r.m.Status().NextSeq
	for _, e := range r.model.entries {
		if r.session() && e.surely && !e.sent {
			rt.Fatalf("entry %d was sent and is forgotten to have been", e.seq)
		}
		if e.seq >= r.model.nextSeq {
			rt.Fatalf("next seq %d is below entry %d", r.model.nextSeq, e.seq)
		}
	}
	last.lsn = 0 // stands until the record of this start is on disk
	r.records = []sessionNote{last}
	r.note(false, 0, func(*store.Batch) {})
	r.after()
}

// drain ends the run: with a consumer that settles everything nothing is left.
func (r *modelRun) drain() {
	for len(r.model.consumers) > 0 {
		r.detachNow(r.model.consumers[0])
	}
	c := r.attach(&consumer{})
	last := map[uint8]uint64{}
	for {
		ds := r.take(c)
		r.settle(c, keys(ds)...)
		for _, d := range ds {
			if d.Seq <= last[d.Priority] {
				r.rt.Fatalf("%d came after %d", d.Seq, last[d.Priority])
			}
			last[d.Priority] = d.Seq
		}
		r.store.flush()
		r.sweep()
		r.store.flush()
		if s := r.m.Status(); s.Ready+s.InFlight == 0 {
			break
		} else if len(ds) == 0 && r.host.wish() == 0 && s.InFlight == 0 {
			r.rt.Fatalf("stuck: %s", fmt.Sprint(s))
		}
	}
	r.expectEmpty()
}
