package broker

import (
	"sync"

	"emanet/internal/mailbox"
)

// dropper is who messages were dropped from: a client, or a shared subscription.
type dropper struct{ kind, name string }

// droppersMax is how many have a line of their own in a second; of the rest the number is told.
const droppersMax = 1000

// drops gathers what the log is to tell of dropped messages: a line a second for each one they were dropped from.
type drops struct {
	log deadline // when it is told

	mu   sync.Mutex
	from map[dropper]*[mailbox.Reasons]uint64 // since the last time; nil: nothing
	more uint64                               // dropped from others
}

// noteDrop counts dropped messages, and has the log tell of them before long. It may be called under any lock.
func (b *Broker) noteDrop(from dropper, r mailbox.Reason, n uint64) {
	b.counters.Dropped[r].Add(n)
	d := &b.drops
	d.mu.Lock()
	first := d.from == nil
	if first {
		d.from = make(map[dropper]*[mailbox.Reasons]uint64)
	}
	counts := d.from[from]
	if counts == nil && len(d.from) < droppersMax {
		counts = new([mailbox.Reasons]uint64)
		d.from[from] = counts
	}
	if counts != nil {
		counts[r] += n
	} else {
		d.more += n
	}
	d.mu.Unlock()
	if first {
		b.due.set(&d.log, b.Now()+1000)
	}
}

func (b *Broker) logDrops() {
	d := &b.drops
	d.mu.Lock()
	from, more := d.from, d.more
	d.from, d.more = nil, 0
	d.mu.Unlock()
	for who, counts := range from {
		attrs := []any{who.kind, who.name}
		for r, n := range counts {
			if n > 0 {
				attrs = append(attrs, mailbox.Reason(r).String(), n)
			}
		}
		b.log.Warn("messages dropped", attrs...)
	}
	if more > 0 {
		b.log.Warn("messages dropped, from others", "count", more)
	}
}
