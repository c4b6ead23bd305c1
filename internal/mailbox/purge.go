package mailbox

import "emanet/internal/store"

// purgeRuns is how many settlements one Purge writes for what came back and lies scattered between entries
// in flight.
const purgeRuns = 1024

// PurgeSize is an upper bound of the batch that Purge needs: its own runs, and two for each of 256 lanes.
const PurgeSize = (purgeRuns + 2*256) * store.SizeSettle

// Purge removes all that is ready, on disk or in memory, and returns how much that was. What is in flight
// stays. What was assigned and came back may be too scattered for one batch: call it until it returns 0.
func (m *Mailbox) Purge(b *store.Batch) uint64 {
	if m.Borrows() {
		panic("mailbox: what a session has borrowed is not its own to purge")
	}
	m.mu.Lock()
	m.purged = m.loading != nil
	s := settler{m: m, b: b}
	for _, l := range m.lanes {
		m.purgeReturnedLocked(&s, l)
	}
	m.emptyDueLocked()
	for _, l := range m.lanes {
		for l.head.len() > 0 && s.hasRoom(l, l.head.front()) {
			m.purgeItemLocked(&s, l, l.head.popFront())
		}
		if l.head.len() > 0 {
			continue
		}
		if g := &l.gap; g.count > 0 {
			s.addGap(l, g)
			s.dropped[ReasonPurged] += g.count
			m.ready -= g.count
			m.bytes -= g.bytes
		}
		l.gap = gap{}
		for l.tail.len() > 0 {
			m.purgeItemLocked(&s, l, l.tail.popFront())
		}
	}
	s.end()
	m.mu.Unlock()
	s.finish()
	return s.dropped[ReasonPurged]
}

func (m *Mailbox) purgeItemLocked(s *settler, l *lane, it item) {
	m.count(&it, -1)
	s.drop(l, &it, ReasonPurged)
}

// purgeReturnedLocked removes what was sent and came back, as far as purgeRuns reach.
func (m *Mailbox) purgeReturnedLocked(s *settler, l *lane) {
	for len(l.returned) > 0 && s.hasRoom(l, &l.returned[0]) {
		it := l.returned.pop()
		m.keep(&it, -1)
		m.purgeItemLocked(s, l, it)
	}
}

// hasRoom tells whether one more entry fits: above what was ever assigned a lane is one run.
func (s *settler) hasRoom(l *lane, it *item) bool {
	return s.runs < purgeRuns || it.Seq > l.assigned || s.extends(l, it)
}
