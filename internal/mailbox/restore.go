package mailbox

import "emanet/internal/store"

// Sent tells what a mailbox's consumer had been sent before a restart: everything up to High and, when it
// was attached at a crash and nobody knows, the First entries from the front with seqs below Before (0:
// below the next seq). All of that is never dropped or expired.
type Sent struct {
	High   uint64
	First  int
	Before uint64
}

// Sent is what the record must hold from which a restart restores, as of now. First is 0 unless the
// mailbox itself was restored with it and has not read that far yet.
func (m *Mailbox) Sent() Sent {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := Sent{High: max(m.high, m.sentHigh)}
	if m.sentFirst == 0 {
		return s
	}
	// A later restart counts from the front again: what is known to have been sent stands before the rest.
	s.First, s.Before = m.sentFirst, m.restored
	for _, f := range m.flights {
		if !f.settled && !f.loan() {
			s.First++
		}
	}
	for _, l := range m.lanes {
		for i := range l.returned {
			if !l.returned[i].loan() {
				s.First++
			}
		}
	}
	return s
}

// Restore makes a mailbox from what the store found at start. Nothing is read before the first consumer or
// Sweep comes.
func Restore(st store.Store, host Host, s store.MailboxState, sent Sent, p Policy) *Mailbox {
	p.Durable = true
	m := New(st, host, s.ID, p)
	// What was sent last may have been a loan, which is nowhere on disk: its seq is not given again.
	m.nextSeq = max(s.NextSeq, sent.High+1)
	m.restored, m.sentHigh, m.sentFirst = m.nextSeq, sent.High, sent.First
	if sent.Before != 0 {
		m.restored = min(sent.Before, m.nextSeq)
	}
	for i := range s.Lanes {
		m.restoreLane(&s.Lanes[i])
	}
	if m.ready == 0 {
		m.sentFirst = 0
	}
	return m
}

func (m *Mailbox) restoreLane(s *store.LaneState) {
	l := m.lane(s.Priority)
	if n := len(s.Gone); n > 0 {
		l.asOf = s.Gone[n-1].To
	}
	if n := len(s.Changed); n > 0 {
		l.asOf = max(l.asOf, s.Changed[n-1].Seq)
	}
	if s.Count > 0 {
		l.gap = gap{count: s.Count, bytes: s.Bytes, before: m.nextSeq, gone: s.Gone, changed: s.Changed}
	}
	m.ready += s.Count
	m.bytes += s.Bytes
	if len(s.Tail) > 0 {
		l.gap.before = s.Tail[0].Seq
	}
	for i := range s.Tail {
		it := durableItem(s.Tail[i].Entry, s.Tail[i].LSN)
		m.count(&it, +1)
		m.restoreItem(l, it)
	}
	if l.onlyOnDisk() && m.policy.sheds() {
		m.sweepNowLocked() // which reads the front: it may be due though nobody consumes
	}
	m.wishSweepLocked()
}

// restoreItem places an entry met in order from the front. What was sent before the restart goes to
// returned, where nothing drops or expires it.
func (m *Mailbox) restoreItem(l *lane, it item) {
	if l.gap.count > 0 { // counted from the front when the gap is closed
		if it.Released || it.Deliveries > 0 {
			it.setSent()
		}
		l.push(it)
		return
	}
	m.markSent(&it)
	if it.sent() {
		m.giveBack(l, it)
		return
	}
	l.push(it)
}

// markSent notes on an entry met in order from the front whether it was sent before a restart.
func (m *Mailbox) markSent(it *item) {
	if m.sentFirst > 0 && it.Seq < m.restored {
		m.sentFirst--
		it.setSent()
	}
	if it.Seq <= m.sentHigh || it.Released || it.Deliveries > 0 {
		it.setSent()
	}
	if it.sent() {
		m.high = max(m.high, it.Seq)
	}
}

// closeGapLocked joins the tail to the head; at a restart its first entries may have been sent before.
func (m *Mailbox) closeGapLocked(l *lane) {
	for l.tail.len() > 0 {
		if seq := l.tail.front().Seq; seq > m.sentHigh && (m.sentFirst == 0 || seq >= m.restored) {
			break
		}
		it := l.tail.popFront()
		m.markSent(&it)
		m.giveBack(l, it)
	}
	l.closeGap()
}
