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

// wishSweepLocked asks for a Sweep when the front of a lane expires. Only fronts count: an entry further
// back expires when it gets there. So a queue without consumers sheds its head in time (delay queues).
func (m *Mailbox) wishSweepLocked() {
	for _, l := range m.lanes {
		it := l.head.front()
		if it == nil {
			continue
		}
		if d := deadline(&it.Entry); d != 0 && (m.sweepAt == 0 || d < m.sweepAt) {
			m.sweepAt = d
			m.host.SweepAt(m, d)
		}
	}
}

// SweepSize is an upper bound of the batch that Sweep needs. Dead-lettering brings its own on top, which
// the host knows.
const SweepSize = sweepLen * store.SizeSettle

// sweepLen is how many entries one Sweep drops; the rest follows in the next, so that the append lock is
// never held for long.
const sweepLen = 1024

// Sweep drops expired entries from the fronts and asks for the next Sweep. Call Wake once the append lock
// is free.
func (m *Mailbox) Sweep(b *store.Batch) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sweepAt = 0
	now := m.host.Now()
	s := settler{m: m, b: b}
	left := sweepLen
	for _, l := range m.lanes {
		for ; left > 0; left-- {
			it := l.head.front()
			if it == nil {
				break
			}
			if d := deadline(&it.Entry); d == 0 || d > now {
				break
			}
			m.dropFrontLocked(l, &s, ReasonExpired)
		}
		if l.head.len() == 0 && l.gap.count > 0 {
			m.loadLocked()
		}
	}
	s.end()
	m.wishSweepLocked()
}
