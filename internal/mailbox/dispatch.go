package mailbox

import (
	"emanet/internal/store"
)

// flushed is called after a group with entries or settlements of ours is on disk.
func (m *Mailbox) flushed(lsn store.LSN) { m.wake(lsn) }

// wake frees what is settled, assigns what is ready, and wakes consumers that got something.
func (m *Mailbox) wake(flushed store.LSN) {
	m.mu.Lock()
	m.freeFlushedLocked(flushed)
	m.dispatchLocked(flushed)
	first, more := m.takeWokenLocked()
	m.mu.Unlock()
	wakeAll(first, more)
}

func wakeAll(first *Consumer, more []*Consumer) {
	if first != nil {
		first.Wake()
	}
	for _, c := range more {
		c.Wake()
	}
}

func (m *Mailbox) freeFlushedLocked(flushed store.LSN) {
	n := 0
	for n < len(m.settling) && m.settling[n].lsn <= flushed {
		m.freeLocked(m.settling[n].key)
		n++
	}
	if n > 0 {
		m.settling = append(m.settling[:0], m.settling[n:]...)
	}
}

// takeWokenLocked lists the consumers that were assigned something since the last time; one allocates
// nothing.
func (m *Mailbox) takeWokenLocked() (first *Consumer, more []*Consumer) {
	for _, c := range m.consumers {
		switch {
		case !c.woken:
			continue
		case first == nil:
			first = c
		default:
			more = append(more, c)
		}
		c.woken = false
	}
	return first, more
}

// dispatchLocked assigns ready entries to consumers until one of the two runs out.
func (m *Mailbox) dispatchLocked(flushed store.LSN) {
	if m.closed || len(m.consumers) == 0 {
		return
	}
	for {
		c := m.nextConsumerLocked()
		if c == nil {
			break
		}
		l := m.nextLaneLocked()
		if l == nil {
			break
		}
		if !m.assignableLocked(l, flushed) {
			break
		}
		m.assignLocked(c, l.popFront())
	}
	m.prefetchLocked()
	m.wishSweepLocked()
}

// nextConsumerLocked is whose turn it is: strict rotation among those with room, of the highest priority
// that has any.
func (m *Mailbox) nextConsumerLocked() *Consumer {
	n := len(m.consumers)
	if m.policy.SingleActive {
		n = min(n, 1)
	}
	var best *Consumer
	at := 0
	for i := range n {
		k := (m.rotation + i) % n
		c := m.consumers[k]
		if c.hasRoom() && (best == nil || c.Priority > best.Priority) {
			best, at = c, k
		}
	}
	if best != nil {
		m.rotation = at + 1
	}
	return best
}

func (c *Consumer) hasRoom() bool {
	if c.closed || c.Credit > 0 && c.inFlight >= c.Credit {
		return false
	}
	return len(c.queue) == 0 || c.unsent < c.UnsentMax
}

// nextLaneLocked is the highest priority with something ready in memory. A lane whose front is on disk
// hides those below it until it is loaded.
func (m *Mailbox) nextLaneLocked() *lane {
	for _, l := range m.lanes {
		if l.front() != nil {
			return l
		}
		if l.gap.count > 0 {
			m.loadLocked()
			return nil
		}
	}
	return nil
}

// assignableLocked tells whether the lane's front may go now: it is on disk, its key is free, it has not
// expired. A sent one does not expire: the receiver may have it.
func (m *Mailbox) assignableLocked(l *lane, flushed store.LSN) bool {
	it := l.front()
	if it.lsn > flushed || m.flights[m.key(it.Seq)] != nil {
		return false
	}
	if d := deadline(&it.Entry); !it.sent && d != 0 && m.host.Now() >= d {
		m.sweepAt = d
		m.host.SweepAt(m, d)
		return false
	}
	return true
}

func (m *Mailbox) assignLocked(c *Consumer, it item) {
	key := m.key(it.Seq)
	m.ready--
	m.bytes -= store.Cost(it.Message)
	c.queue = append(c.queue, Delivery{
		Key: key, Seq: it.Seq, Message: it.Message, Tag: it.Tag, Attr: it.Attr, Priority: it.Priority,
		Redelivered: it.sent, Released: it.Released, Deliveries: it.Deliveries, ExpiresAt: it.ExpiresAt,
	})
	c.unsent += it.memory()
	c.inFlight++
	c.woken = true
	m.flights[key] = m.newFlight(it, c)
}

// newFlight reuses the flights that were freed: the window of a busy consumer allocates nothing.
func (m *Mailbox) newFlight(it item, c *Consumer) *flight {
	if m.flights == nil {
		m.flights = make(map[uint64]*flight)
	}
	n := len(m.spare)
	if n == 0 {
		return &flight{item: it, consumer: c}
	}
	f := m.spare[n-1]
	m.spare = m.spare[:n-1]
	*f = flight{item: it, consumer: c}
	return f
}
