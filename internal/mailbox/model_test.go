package mailbox

import (
	"cmp"
	"slices"

	"emanet/internal/store"
)

// model is the trivial mailbox: a list, walked from the front for everything.
type model struct {
	policy    Policy
	entries   []*modelEntry // all that are live on disk or in memory, by seq
	consumers []*modelConsumer
	nextSeq   uint64
	turn      uint64
}

type modelEntry struct {
	seq, key   uint64
	priority   uint8
	cost       int64
	expiresAt  int64
	lsn        store.LSN // must be flushed before it is sent
	consumer   *modelConsumer
	taken      bool // by that consumer
	sent       bool // ever, as far as anybody can know
	surely     bool // ever, in truth
	released   bool
	deliveries []store.LSN // batches that counted one
	gone       store.LSN   // the batch that settled it; 0 while it is live
	dropped    bool        // by the mailbox, not by its consumer
	front      bool        // nothing ready was before it when it was dropped
	appended   store.LSN
	releasedAt store.LSN
	lender     *modelLender // of a loan
	member     *Member      // that it was lent to and has left
	again      bool         // another member was sent it
}

type modelConsumer struct {
	real     *consumer
	credit   int
	single   bool // UnsentMax lets one through at a time
	priority int
	turn     uint64
	queue    []modelDelivery
}

type modelDelivery struct {
	e           *modelEntry
	redelivered bool
	released    bool
}

func (e *modelEntry) ready() bool    { return e.gone == 0 && e.consumer == nil }
func (e *modelEntry) inFlight() bool { return e.gone == 0 && e.consumer != nil }

// forget removes what is gone from the disk.
func (m *model) forget(flushed store.LSN) {
	m.entries = slices.DeleteFunc(m.entries, func(e *modelEntry) bool { return e.gone != 0 && e.gone <= flushed })
}

// byTurn lists what is ready in the order in which it is to go.
func (m *model) byTurn() []*modelEntry {
	var ready []*modelEntry
	for _, e := range m.entries {
		if e.ready() {
			ready = append(ready, e)
		}
	}
	slices.SortFunc(ready, func(a, b *modelEntry) int {
		return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.seq, b.seq))
	})
	return ready
}

// dispatch assigns what may be assigned.
func (m *model) dispatch(flushed store.LSN, now int64) {
	for _, e := range m.byTurn() {
		c := m.nextConsumer(e.released)
		if c == nil || !m.assignable(e, flushed, now) {
			return
		}
		e.consumer, e.taken = c, false
		c.queue = append(c.queue, modelDelivery{e, e.sent || e.again, e.released})
		m.turn++
		c.turn = m.turn
	}
}

func (m *model) assignable(e *modelEntry, flushed store.LSN, now int64) bool {
	if e.lsn > flushed || !e.sent && e.expiresAt != 0 && now >= e.expiresAt {
		return false
	}
	for _, o := range m.entries {
		holdsKey := o != e && o.key == e.key && o.consumer != nil
		// R1. What comes back before a dropped front waits as well, though it need not.
		passedOver := m.policy.Identifiers > 0 && !e.sent && o.dropped && (o.seq < e.seq || o.front)
		if holdsKey || passedOver {
			return false
		}
	}
	return true
}

func (m *model) nextConsumer(released bool) *modelConsumer {
	var best *modelConsumer
	for _, c := range m.consumers {
		used := 0
		for _, e := range m.entries { // what is gone counts until it is forgotten
			if e.consumer == c || m.policy.Identifiers > 0 && e.consumer != nil {
				used++
			}
		}
		room := (released || c.credit == 0 || used < c.credit) && (!c.single || len(c.queue) == 0)
		if room && (best == nil || cmp.Or(cmp.Compare(c.priority, best.priority), cmp.Compare(best.turn, c.turn)) > 0) {
			best = c
		}
		if m.policy.SingleActive {
			break
		}
	}
	return best
}

// take is what the consumer gets now.
func (m *model) take(c *modelConsumer) []modelDelivery {
	var ds []modelDelivery
	for _, d := range c.queue {
		if d.e.gone != 0 || d.e.consumer != c || d.e.taken {
			continue
		}
		d.e.taken, d.e.sent, d.e.surely = true, true, true
		d.released = d.e.released
		ds = append(ds, d)
	}
	c.queue = nil
	return ds
}

// detach gives back what c holds.
func (m *model) detach(c *modelConsumer) {
	for _, e := range m.entries {
		if e.consumer == c && e.gone == 0 {
			e.consumer, e.taken = nil, false
		}
		e.front = true // no window covers it any more
	}
	m.consumers = slices.DeleteFunc(m.consumers, func(o *modelConsumer) bool { return o == c })
}

// mayDrop tells whether the bound may drop e: it was never sent and is behind a session's window.
func (m *model) mayDrop(e *modelEntry) bool {
	if !e.ready() || e.sent || e.lender != nil {
		return false
	}
	if m.policy.Identifiers == 0 || len(m.consumers) == 0 {
		return true
	}
	rank := 0
	for _, o := range m.entries {
		if o.gone == 0 && o.seq < e.seq {
			rank++
		}
	}
	return rank >= m.consumers[0].credit
}

// inFront tells whether nothing that was never sent is ready before e.
func (m *model) inFront(e *modelEntry) bool {
	return !slices.ContainsFunc(m.entries, func(o *modelEntry) bool { return o.ready() && !o.sent && o.seq < e.seq })
}

// countable is what the bound counts.
func (m *model) countable() (n uint64) {
	for _, e := range m.entries {
		if m.mayDrop(e) {
			n++
		}
	}
	return n
}

// crash takes the model back to the batches up to kept and applies what a start knows of what was sent.
func (m *model) crash(kept store.LSN, sent Sent) {
	m.consumers = nil
	m.entries = slices.DeleteFunc(m.entries, func(e *modelEntry) bool {
		return e.lender != nil || e.appended > kept || e.gone != 0 && e.gone <= kept
	})
	n := 0
	for _, e := range m.entries {
		e.consumer, e.taken, e.gone, e.dropped, e.front, e.lsn = nil, false, 0, false, false, 0
		e.released = e.released && e.releasedAt <= kept
		e.deliveries = slices.DeleteFunc(e.deliveries, func(l store.LSN) bool { return l > kept })
		guess := n < sent.First && (sent.Before == 0 || e.seq < sent.Before)
		if guess {
			n++
		}
		e.sent = guess || e.seq <= sent.High || e.released || len(e.deliveries) > 0
	}
}
