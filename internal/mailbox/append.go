package mailbox

import (
	"emanet/internal/message"
	"emanet/internal/store"
)

// Verdict is what a bound says of a new entry.
type Verdict uint8

const (
	Admitted Verdict = iota
	Rejected         // RejectNew: tell the publisher
	Wait             // BackPressure: hold the publisher
)

// Admit tells whether an entry of msg may be appended now. It changes nothing: a publish that reaches
// several mailboxes asks all of them first, under one append lock, and is all or nothing.
func (m *Mailbox) Admit(_ *store.Batch, msg *message.Message) Verdict {
	p := &m.policy
	if p.Overflow != RejectNew && p.Overflow != BackPressure {
		return Admitted
	}
	m.mu.Lock()
	over := m.overLocked(1, m.cost(msg))
	m.mu.Unlock()
	switch {
	case !over:
		return Admitted
	case p.Overflow == RejectNew:
		m.host.Dropped(m, ReasonRejected, 1)
		return Rejected
	}
	return Wait
}

// overLocked tells whether n more ready entries of so many bytes would exceed a bound. What was sent and
// what is within the window of a session does not count: it may not be dropped either.
func (m *Mailbox) overLocked(n uint64, bytes int64) bool {
	if !m.overCountLocked(n, bytes) {
		return false
	}
	m.fillDueLocked()
	return m.overCountLocked(n, bytes)
}

func (m *Mailbox) overCountLocked(n uint64, bytes int64) bool {
	p := &m.policy
	return p.MaxEntries > 0 && m.ready-m.kept+n > p.MaxEntries ||
		p.MaxBytes > 0 && m.bytes-m.keptBytes+bytes > p.MaxBytes
}

// fillDueLocked moves what is within the window of an attached session from head to due. The first window
// entries count as in flight, sent or not: after a crash nobody could tell (ADR 0002, R2). One that is not
// durable survives no crash. Its window is for bursts, and for a message larger than the bound, and is not
// to hold Credit messages of any size.
func (m *Mailbox) fillDueLocked() {
	if m.policy.Identifiers == 0 || len(m.consumers) == 0 {
		return
	}
	left := m.consumers[0].Credit - (len(m.flights) - len(m.settling))
	for _, l := range m.lanes {
		left -= len(l.returned) + l.due.len()
	}
	for _, l := range m.lanes {
		for ; left > 0 && l.head.len() > 0; left-- {
			if !m.policy.Durable && l.due.bytes >= m.paging.lowBytes {
				return
			}
			it := l.head.popFront()
			m.keep(&it, +1)
			l.due.pushBack(it)
		}
		if l.gap.count > 0 {
			return // what is on disk comes before the next lane
		}
	}
}

// emptyDueLocked is the end of the window. It covered what was dropped behind it.
func (m *Mailbox) emptyDueLocked() {
	for _, l := range m.lanes {
		l.barrier = max(l.barrier, l.lastDrop)
		for l.due.len() > 0 {
			it := l.due.popBack()
			m.keep(&it, -1)
			l.head.pushFront(it)
		}
	}
}

// Append puts a message into the mailbox at the next seq, which it returns; 0 after Close. e says Message,
// MessageID, Attr, Tag and Priority; Seq and ExpiresAt are given here. A volatile entry (a transient
// message in a durable queue) is not written to the store.
//
// In the batch it takes SizeEntry and the tag, with a bound that drops SizeSettle more, and with one that
// dead-letters the moves of at most TrimLen entries.
//
// Consumers see a durable entry when its batch is flushed. For any other the caller calls Wake once the
// append lock is free.
func (m *Mailbox) Append(b *store.Batch, e store.Entry, volatile bool) uint64 {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return 0
	}
	e.Seq = m.nextSeq
	m.nextSeq++
	if m.policy.TTL > 0 {
		e.ExpiresAt = m.host.Now() + m.policy.TTL
	}
	it := item{Entry: e}
	if m.policy.Durable && !volatile {
		it = durableItem(e, b.LSN())
		b.Entry(m.id, &it.Entry)
		if m.servesLocked() {
			m.store.Notify(&m.waiter)
		}
	}
	l := m.lane(e.Priority)
	wasEmpty := l.unsent() == nil
	m.count(&it, +1)
	l.push(it)
	if wasEmpty {
		m.wishSweepLocked()
	}
	if !m.dropsLocked() || !m.overLocked(0, 0) {
		m.mu.Unlock()
		return e.Seq
	}
	if b == nil && m.policy.Durable { // a volatile entry that came as the mailbox was promoted
		m.sweepNowLocked()
		m.mu.Unlock()
		return e.Seq
	}
	s := settler{m: m, b: b}
	m.trimLocked(&s, TrimLen, true)
	s.end()
	m.wishSweepLocked()
	m.mu.Unlock()
	s.finish()
	return e.Seq
}

// servesLocked: somebody waits for what is flushed.
func (m *Mailbox) servesLocked() bool { return len(m.consumers) > 0 || m.lend != nil }

// Wake hands what Append took without durability to the consumers. No locks may be held.
func (m *Mailbox) Wake() { m.wake(m.store.Flushed()) }

// TrimLen is how many entries one Append drops at most when one large message takes the place of many
// small ones; the rest is left to Sweep, so that a publish stays cheap and its batch small.
const TrimLen = 64

func (m *Mailbox) dropsLocked() bool {
	return m.policy.Overflow == DropOldest || m.policy.Overflow == DeadLetterOldest
}

// trimLocked drops up to left entries from the front until the bounds hold, lowest priority first; with
// oneRun only as far as one settlement reaches. What is on disk is loaded before it can be dropped. Until
// then the mailbox overshoots, and Sweep, which is asked for, trims it.
func (m *Mailbox) trimLocked(s *settler, left int, oneRun bool) {
	for i := len(m.lanes) - 1; i >= 0 && m.overLocked(0, 0); i-- {
		l := m.lanes[i]
		for l.head.len() > 0 && m.overLocked(0, 0) {
			it := l.head.front()
			if it.sent() || it.loan() { // sent: met at a restart behind others that were not
				m.giveBack(l, l.head.popFront())
				continue
			}
			if left == 0 || oneRun && it.durable() && s.n > 0 && !s.extends(l, it) {
				m.sweepNowLocked()
				return
			}
			left--
			m.dropLocked(s, l, l.head.popFront(), ReasonOverflow)
		}
		if l.gap.count > 0 {
			m.loadLocked(l)
			return
		}
	}
}

// dropLocked sees off an entry that was taken out of the lane.
func (m *Mailbox) dropLocked(s *settler, l *lane, it item, r Reason) {
	m.count(&it, -1)
	if it.durable() && m.policy.Identifiers > 0 {
		l.lastDrop, l.dropped = s.b.LSN(), max(l.dropped, it.Seq)
		if l.due.len() == 0 {
			l.barrier = l.lastDrop
		}
	}
	s.drop(l, &it, r)
}
