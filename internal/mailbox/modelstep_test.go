package mailbox

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"emanet/internal/message"
	"emanet/internal/store"
)

// modelRun walks a mailbox and the model through the same steps and compares them after each. What the fake
// store checks by itself comes on top: settlements name live entries and count exactly.
type modelRun struct {
	*fixture
	rt      *rapid.T
	model   *model
	records []sessionNote
	lenders []*modelLender
}

// sessionNote is the broker's record of a session.
type sessionNote struct {
	lsn      store.LSN
	sent     Sent
	attached bool
	window   int
}

func TestAMailboxBehavesAsAListWalkedFromTheFront(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := newModelRun(rt)
		rt.Repeat(map[string]func(*rapid.T){
			"":        func(*rapid.T) { r.compare() },
			"append":  r.stepAppend,
			"burst":   r.stepBurst,
			"flush":   func(*rapid.T) { r.store.flush(); r.after() },
			"take":    r.stepTake,
			"take2":   r.stepTake,
			"settle":  r.stepSettle,
			"settle2": r.stepSettle,
			"release": r.stepRelease,
			"requeue": r.stepRequeue,
			"attach":  r.stepAttach,
			"detach":  r.stepDetach,
			"evict":   r.stepEvict,
			"scatter": r.stepScatter,
			"lend":    r.stepLend,
			"lend2":   r.stepLend,
			"leave":   r.stepLeave,
			"sweep":   r.stepSweep,
			"purge":   r.stepPurge,
			"crash":   r.stepCrash,
		})
		r.drain()
	})
}

func newModelRun(rt *rapid.T) *modelRun {
	p := Policy{Durable: true}
	switch rapid.SampledFrom([]string{"session", "queue", "counting queue"}).Draw(rt, "kind") {
	case "session":
		p.Identifiers = uint64(rapid.IntRange(3, 12).Draw(rt, "identifiers"))
		p.MaxEntries = rapid.SampledFrom([]uint64{0, 2, 10, 500}).Draw(rt, "bound")
	case "queue":
		p.MaxEntries = rapid.SampledFrom([]uint64{0, 2, 10, 500}).Draw(rt, "bound")
		p.TTL = rapid.SampledFrom([]int64{0, 0, 50}).Draw(rt, "ttl")
		p.SingleActive = rapid.Bool().Draw(rt, "single active")
	default:
		p.CountDeliveries = true
	}
	r := &modelRun{fixture: setup(rt, p), rt: rt, model: &model{policy: p, nextSeq: 1}}
	if rapid.Bool().Draw(rt, "small pages") { // so that a few entries are enough for several loads
		r.paging = &paging{loadLen: 7, loadBytes: 1200, lowLen: 3, lowBytes: 500, leastLen: 2, leastBytes: 300}
		r.m.paging = r.paging
	}
	return r
}

func (r *modelRun) session() bool { return r.policy.Identifiers > 0 }

func (r *modelRun) stepAppend(rt *rapid.T) {
	var priority uint8
	if !r.session() {
		priority = rapid.Uint8Range(0, 2).Draw(rt, "priority")
	}
	msg := bodyOf(rapid.IntRange(1, 100).Draw(rt, "size"))
	if rapid.IntRange(0, 3).Draw(rt, "expires") == 0 {
		msg.ExpiresAt = r.host.Now() + rapid.Int64Range(1, 100).Draw(rt, "in")
	}
	r.append(msg, priority)
	r.after()
}

func (r *modelRun) stepBurst(rt *rapid.T) {
	for range rapid.SampledFrom([]int{1, 3, 20, 20, 20, 700}).Draw(rt, "burst") {
		r.append(bodyOf(10), 0)
	}
	r.after()
}

func (r *modelRun) append(msg *message.Message, priority uint8) {
	seq := r.addMessage(msg, priority)
	equal(r.rt, "seq", seq, r.model.nextSeq)
	r.model.nextSeq++
	e := &modelEntry{
		seq: seq, key: seq, priority: priority, cost: store.Cost(msg), expiresAt: msg.ExpiresAt,
		lsn: r.store.last, appended: r.store.last,
	}
	if r.session() {
		e.key = seq % r.policy.Identifiers
	}
	if ttl := r.policy.TTL; ttl > 0 && (e.expiresAt == 0 || r.host.Now()+ttl < e.expiresAt) {
		e.expiresAt = r.host.Now() + ttl
	}
	r.model.entries = append(r.model.entries, e)
	r.noteDrops(false)
}

// noteDrops finds out what the mailbox dropped, by what the store still has, and judges it.
func (r *modelRun) noteDrops(mayExpire bool) {
	live := r.store.live(r.id)
	isThere := func(e *modelEntry) bool {
		_, there := slices.BinarySearch(live, e.seq)
		return there || e.lender != nil
	}
	var expired, overflow, left []*modelEntry
	for _, e := range r.model.entries {
		if mayExpire && e.gone == 0 && !isThere(e) && e.ready() && !e.sent && e.expiresAt != 0 && e.expiresAt <= r.host.Now() {
			expired = append(expired, e)
		}
	}
	for _, e := range expired { // first: what a bound spares is counted without them
		e.gone, e.dropped = r.store.last, true
	}
	for _, e := range r.model.entries {
		switch {
		case e.gone != 0:
		case isThere(e):
			if r.model.mayDrop(e) {
				left = append(left, e)
			}
		case r.policy.MaxEntries > 0 && r.model.mayDrop(e):
			overflow = append(overflow, e)
		default:
			r.rt.Fatalf("entry %d is gone", e.seq)
		}
	}
	for _, e := range overflow {
		for _, o := range left {
			if o.priority < e.priority || o.priority == e.priority && o.seq < e.seq {
				r.rt.Fatalf("%d was dropped before %d", e.seq, o.seq)
			}
		}
	}
	for _, e := range overflow {
		e.gone, e.dropped = r.store.last, true
	}
	for _, e := range append(expired, overflow...) {
		e.front = r.model.inFront(e)
	}
	if n := r.model.countable(); len(overflow) > 0 && n < r.policy.MaxEntries {
		r.rt.Fatalf("%d were dropped, %d are left", len(overflow), n)
	}
}

// after lets both sides come to rest.
func (r *modelRun) after() {
	r.settleDown()
	r.model.forget(r.store.flushLSN)
	r.model.dispatch(r.store.flushLSN, r.host.Now())
}

func (r *modelRun) pick(rt *rapid.T, entries []*modelEntry) []*modelEntry {
	if len(entries) == 0 {
		return nil
	}
	n := rapid.IntRange(1, min(len(entries), 20)).Draw(rt, "how many")
	at := rapid.IntRange(0, len(entries)-n).Draw(rt, "from")
	return entries[at : at+n]
}

func (r *modelRun) consumer(rt *rapid.T) *modelConsumer {
	if len(r.model.consumers) == 0 {
		return nil
	}
	return r.model.consumers[rapid.IntRange(0, len(r.model.consumers)-1).Draw(rt, "consumer")]
}

func (r *modelRun) stepTake(rt *rapid.T) {
	c := r.consumer(rt)
	if c == nil || r.session() && r.records[len(r.records)-1].lsn > r.store.flushLSN { // ADR 0002, R5
		return
	}
	got := r.m.Take(&c.real.Consumer, nil)
	want := r.model.take(c)
	r.after()
	equal(rt, "deliveries", len(got), len(want))
	for i, d := range got {
		w := want[i]
		ok := d.Seq == w.e.seq && d.Key == w.e.key && d.Priority == w.e.priority && d.Redelivered == w.redelivered &&
			d.Released == w.released && (d.Message == nil) == w.released && d.Deliveries == uint32(len(w.e.deliveries))
		if !ok {
			rt.Fatalf("delivery %d of %s: %+v, want %+v of %+v", i, show(got), d, w, *w.e)
		}
	}
}

// held lists what c may settle: what it took, and of a session what was sent earlier, unless its PUBREL is
// still to go out again.
func (r *modelRun) held(c *modelConsumer, earlier bool) []*modelEntry {
	var found []*modelEntry
	used := map[uint64]bool{}
	for _, e := range r.model.entries {
		mine := e.gone == 0 && e.consumer == c && e.taken
		before := earlier && r.session() && e.gone == 0 && e.sent && (e.consumer == c || e.consumer == nil && !e.released)
		if !used[e.key] && (mine || before && r.isRead(c, e)) {
			found = append(found, e)
		}
		used[e.key] = true
	}
	return found
}

// isRead tells whether an entry that was sent before a restart has been read from disk since. Until then the
// mailbox says that it is still resuming.
func (r *modelRun) isRead(c *modelConsumer, e *modelEntry) bool {
	got, ok := r.m.InFlight(&c.real.Consumer, e.key)
	if !ok && !r.m.Resuming() {
		r.rt.Fatalf("entry %d was sent and is not known", e.seq)
	}
	return ok && got.Seq == e.seq
}

func entryKeys(entries []*modelEntry) []uint64 {
	var ks []uint64
	for _, e := range entries {
		ks = append(ks, e.key)
	}
	return ks
}

func (r *modelRun) compare() {
	var ready, inFlight uint64
	var bytes int64
	var live []uint64
	for _, e := range r.model.entries {
		if e.gone != 0 {
			continue
		}
		if e.lender == nil {
			live = append(live, e.seq)
		}
		if e.inFlight() {
			inFlight++
			continue
		}
		ready++
		if !e.released {
			bytes += e.cost
		}
	}
	if got := r.store.live(r.id); !slices.Equal(got, live) {
		r.rt.Fatalf("on disk: %v, want %v", got, live)
	}
	s := r.m.Status()
	got := fmt.Sprint(s.Ready, s.InFlight, s.Bytes, s.NextSeq, s.Consumers)
	equal(r.rt, "status", got, fmt.Sprint(ready, inFlight, bytes, r.model.nextSeq, len(r.model.consumers)))
	r.compareMemory(s.Memory)
	r.compareLenders()
}

// compareMemory walks over what is in memory and counts it again.
func (r *modelRun) compareMemory(memory int64) {
	r.m.mu.Lock()
	defer r.m.mu.Unlock()
	var sum, keptBytes int64
	var kept uint64
	count := func(it *item, isKept bool) {
		sum += it.memory()
		if isKept {
			kept++
			keptBytes += store.Cost(it.Message)
		}
	}
	for _, f := range r.m.flights {
		if !f.settled {
			count(&f.item, false)
		}
	}
	for _, l := range r.m.lanes {
		for i := range l.returned {
			count(&l.returned[i], true)
		}
		for i, d := range []*deque{&l.due, &l.head, &l.tail} {
			d.each(func(it *item) { count(it, i == 0) })
		}
	}
	equal(r.rt, "memory", memory, sum)
	equal(r.rt, "kept", fmt.Sprint(r.m.kept, r.m.keptBytes), fmt.Sprint(kept, keptBytes))
}

func (d *deque) each(f func(*item)) {
	for i, c := range d.chunks {
		if i == 0 {
			c = c[d.off:]
		}
		for j := range c {
			f(&c[j])
		}
	}
}
