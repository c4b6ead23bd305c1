package mailbox

import "emanet/internal/store"

// deadline is when an entry may no longer be handed out, Unix ms; 0 is never.
func deadline(e *store.Entry) int64 {
	d := e.ExpiresAt
	if msg := e.Message; msg != nil && msg.ExpiresAt != 0 && (d == 0 || msg.ExpiresAt < d) {
		d = msg.ExpiresAt
	}
	return d
}

// sheds tells whether fronts must be known though nobody consumes, also those that are only on disk.
func (p *Policy) sheds() bool { return p.TTL > 0 || p.DeadLetterExpired }

// wishSweepLocked asks for a Sweep when the front of a lane expires. Only fronts count: an entry further
// back expires when it gets there. So a queue without consumers sheds its head in time (delay queues).
func (m *Mailbox) wishSweepLocked() {
	for _, l := range m.lanes {
		if it := l.unsent(); it != nil && !it.sent() && !it.loan() {
			if d := deadline(&it.Entry); d != 0 {
				m.sweepByLocked(d)
			}
		}
	}
}

// sweepByLocked asks for a Sweep at a time unless an earlier one is agreed.
func (m *Mailbox) sweepByLocked(at int64) {
	if m.sweepAt == 0 || at < m.sweepAt {
		m.sweepAt = at
		m.host.SweepAt(m, at)
	}
}

func (m *Mailbox) sweepNowLocked() { m.sweepByLocked(m.host.Now()) }

// SweepSize is an upper bound of the batch that Sweep needs. Dead-lettering brings its own on top, for at
// most SweepLen entries, which the host knows.
const SweepSize = SweepLen * store.SizeSettle

// SweepLen is how many entries one Sweep drops; the rest follows in the next, so that the append lock is
// never held for long.
const SweepLen = 256

// Sweep drops expired entries from the fronts, enforces the bounds where Append could not, and asks for
// the next Sweep. Call Wake once the append lock is free.
func (m *Mailbox) Sweep(b *store.Batch) {
	m.mu.Lock()
	m.sweepAt = 0
	s := settler{m: m, b: b}
	left := SweepLen - m.expireLocked(&s, SweepLen)
	s.end() // what is dropped next may lie behind others of its lane
	if m.dropsLocked() && m.overLocked(0, 0) {
		m.trimLocked(&s, left, false)
	}
	s.end()
	if s.runs > 0 && m.servesLocked() {
		m.store.Notify(&m.waiter) // what stands behind may go when this is on disk
	}
	m.shrunk = m.shrunk || s.dropped != [Reasons]uint64{}
	m.wishSweepLocked()
	m.mu.Unlock()
	s.finish()
}

// expireLocked drops up to limit expired fronts and returns how many there were.
func (m *Mailbox) expireLocked(s *settler, limit int) (n int) {
	now := m.host.Now()
	for _, l := range m.lanes {
		for n < limit {
			it := l.unsent()
			if it == nil || it.sent() || it.loan() {
				break
			}
			if d := deadline(&it.Entry); d == 0 || d > now {
				break
			}
			if l.due.len() > 0 {
				m.keep(it, -1)
			}
			gone := l.popUnsent()
			m.count(&gone, -1)
			if gone.durable() && m.policy.Identifiers > 0 {
				l.barrier = s.b.LSN()
			}
			s.drop(l, &gone, ReasonExpired)
			n++
		}
		if l.onlyOnDisk() {
			m.loadLocked(l)
		}
	}
	return n
}
