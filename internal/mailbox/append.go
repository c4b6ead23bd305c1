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
	defer m.mu.Unlock()
	if !m.overLocked(1, store.Cost(msg)) {
		return Admitted
	}
	if p.Overflow == RejectNew {
		m.host.Dropped(m, ReasonRejected, 1)
		return Rejected
	}
	return Wait
}

// overLocked tells whether n more ready entries of so many bytes would exceed a bound.
func (m *Mailbox) overLocked(n uint64, bytes int64) bool {
	p := &m.policy
	return p.MaxEntries > 0 && m.ready+n > p.MaxEntries || p.MaxBytes > 0 && m.bytes+bytes > p.MaxBytes
}

// Append puts a message into the mailbox at the next seq, which it returns. e says Message, MessageID,
// Attr, Tag and Priority; Seq and ExpiresAt are given here. A volatile entry (a transient message in a
// durable queue) is not written to the store.
//
// Consumers see a durable entry when its batch is flushed. For any other the caller calls Wake once the
// append lock is free.
func (m *Mailbox) Append(b *store.Batch, e store.Entry, volatile bool) uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return 0
	}
	e.Seq = m.nextSeq
	m.nextSeq++
	if m.policy.TTL > 0 {
		e.ExpiresAt = m.host.Now() + m.policy.TTL
	}
	it := item{Entry: e, durable: m.policy.Durable && !volatile}
	if it.durable {
		it.lsn = b.LSN()
		b.Entry(m.id, &e)
		if len(m.consumers) > 0 {
			m.store.Notify(&m.waiter)
		}
	}
	l := m.lane(e.Priority)
	wasEmpty := l.front() == nil
	l.push(it)
	m.count(&it, +1)
	if m.overLocked(0, 0) {
		m.trimLocked(b)
	}
	if wasEmpty {
		m.wishSweepLocked()
	}
	return e.Seq
}

// Wake hands what Append took without durability to the consumers. No locks may be held.
func (m *Mailbox) Wake() { m.wake(m.store.Flushed()) }

// trimLocked drops from the front until the bounds hold, lowest priority first. What is on disk is loaded
// before it can be dropped: until then the mailbox overshoots, and load trims it.
func (m *Mailbox) trimLocked(b *store.Batch) {
	if m.policy.Overflow != DropOldest && m.policy.Overflow != DeadLetterOldest {
		return
	}
	s := settler{m: m, b: b}
	for i := len(m.lanes) - 1; i >= 0 && m.overLocked(0, 0); i-- {
		l := m.lanes[i]
		for l.head.len() > 0 && m.overLocked(0, 0) {
			m.dropFrontLocked(l, &s, ReasonOverflow)
		}
		if l.gap.count > 0 && l.head.len() == 0 {
			m.loadLocked()
			break
		}
	}
	s.end()
}

// dropFrontLocked removes the front of head for a reason.
func (m *Mailbox) dropFrontLocked(l *lane, s *settler, r Reason) {
	it := l.head.popFront()
	m.count(&it, -1)
	if r == ReasonOverflow && m.policy.Overflow == DeadLetterOldest || r == ReasonExpired && m.policy.DeadLetterExpired {
		m.host.DeadLetter(s.b, m, &it.Entry, r)
	}
	s.add(&it)
	m.host.Dropped(m, r, 1)
}
