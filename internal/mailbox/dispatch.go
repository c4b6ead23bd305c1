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
	if m.shrunk {
		m.shrunk = false
		for _, c := range m.consumers {
			c.woken = true
		}
	}
	first, more := m.takeWokenLocked()
	told := m.takeWaitersLocked()
	lends := m.lend != nil && m.ready > 0
	m.mu.Unlock()
	wakeAll(first, more)
	tellRoom(told)
	if lends {
		m.lend()
	}
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
	if m.flights == nil {
		m.flights = make(map[uint64]*flight)
	}
	for {
		l := m.nextLaneLocked()
		if l == nil {
			break
		}
		it := l.front()
		c := m.nextConsumerLocked(it.Released)
		if c == nil || !m.assignableLocked(l, it, flushed) {
			break
		}
		m.assignLocked(c, l, m.popLocked(l))
	}
	m.prefetchLocked()
	m.wishSweepLocked()
}

// popLocked takes out what front showed.
func (m *Mailbox) popLocked(l *lane) item {
	it := l.unsent()
	if len(l.returned) > 0 && (it == nil || l.returned[0].Seq < it.Seq) {
		back := l.returned.pop()
		m.keep(&back, -1)
		return back
	}
	if l.due.len() > 0 {
		m.keep(it, -1)
	}
	return l.popUnsent()
}

// nextConsumerLocked is whose turn it is: of those with room the one that waited longest, among those of
// the highest priority that has any. One that is Released has no need of credit.
func (m *Mailbox) nextConsumerLocked(released bool) *Consumer {
	var best *Consumer
	for _, c := range m.consumers {
		if m.hasRoomLocked(c, released) && (best == nil || c.Priority > best.Priority ||
			c.Priority == best.Priority && c.turn < best.turn) {
			best = c
		}
		if m.policy.SingleActive {
			break
		}
	}
	return best
}

// hasRoomLocked: a session counts also what its last consumer settled and the disk does not know yet,
// for that is how the start counts after a crash (ADR 0002, Credit).
func (m *Mailbox) hasRoomLocked(c *Consumer, released bool) bool {
	used := c.inFlight
	if m.policy.Identifiers > 0 {
		used = len(m.flights)
	}
	if !released && c.Credit > 0 && used >= c.Credit {
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
			m.loadLocked(l)
			return nil
		}
	}
	return nil
}

// assignableLocked tells whether the lane's front may go now: it is on disk, its key is free, what stood
// before it is gone from the disk as well, and it has not expired. A sent one does not expire: the receiver
// may have it.
func (m *Mailbox) assignableLocked(l *lane, it *item, flushed store.LSN) bool {
	if it.lsn() > flushed || m.flights[m.key(it.Seq)] != nil {
		return false
	}
	if it.sent() {
		return true
	}
	if it.loan() { // in flight, as its lender sees it
		return l.barrier <= flushed
	}
	if d := deadline(&it.Entry); d != 0 && m.host.Now() >= d {
		m.sweepByLocked(d)
		return false
	}
	return l.barrier <= flushed
}

func (m *Mailbox) assignLocked(c *Consumer, l *lane, it item) {
	key := m.key(it.Seq)
	m.ready--
	m.bytes -= m.cost(it.Message)
	l.assigned = max(l.assigned, it.Seq)
	c.queue = append(c.queue, Delivery{
		Key: key, Seq: it.Seq, Message: it.Message, Tag: it.Tag, Attr: it.Attr, Priority: it.Priority,
		Redelivered: it.sent() || it.again(), Released: it.Released, Deliveries: it.Deliveries, ExpiresAt: it.ExpiresAt,
	})
	if it.loan() {
		c.queue[len(c.queue)-1].Deliveries = 0
	}
	c.unsent += it.memory()
	c.inFlight++
	m.turn++
	c.turn = m.turn
	c.woken = true
	m.flights[key] = m.newFlight(it, c)
}

// newFlight reuses the flights that were freed: the window of a busy consumer allocates nothing.
func (m *Mailbox) newFlight(it item, c *Consumer) *flight {
	n := len(m.spare)
	if n == 0 {
		return &flight{item: it, consumer: c}
	}
	f := m.spare[n-1]
	m.spare = m.spare[:n-1]
	*f = flight{item: it, consumer: c}
	return f
}
