package mailbox

import (
	"cmp"
	"slices"

	"emanet/internal/store"
)

// movedEntry is an entry that moved to a member and was not sent yet: until then the lender may have it back.
type movedEntry struct {
	member *Member
	attr   uint8 // as it was in the lender
	memory int64
}

// Move gives entries that were lent to the member to its mailbox for good: settled in the lender and entries of
// the borrower, in one batch. Attr and Tag are the member's, was are the lender's Attr. What the lender has on
// disk is sent when the settlement is: also by a borrower that is not durable. In a durable borrower an entry
// that the lender does not have on disk must have got a body in this batch (MessageID). b may be nil if neither
// is durable.
//
// False: the member takes nothing, for now at least; nothing has happened. size of the batch: SizeEntry, the tag and
// SizeSettle each. Call Wake of the borrower once the append lock is free.
func (mb *Member) Move(b *store.Batch, entries []Lent, was []uint8) bool {
	m := mb.borrower
	m.mu.Lock()
	if !mb.takesLocked() {
		m.mu.Unlock()
		return false
	}
	if m.moved == nil {
		m.moved = make(map[uint64]movedEntry)
	}
	for i := range entries {
		e := &entries[i]
		it := item{Entry: e.Entry}
		it.Seq, it.Deliveries, it.ExpiresAt = m.nextSeq, 0, 0
		m.nextSeq++
		switch {
		case m.policy.Durable:
			it.mark = b.LSN() | durableMark
			b.Entry(m.id, &it.Entry)
		case e.durable():
			it.mark = b.LSN()
		}
		if e.sent() {
			it.mark |= againMark
		}
		m.moved[it.Seq] = movedEntry{mb, was[i], it.memory()}
		m.untaken++
		m.untakenBytes += it.memory()
		m.untakenHigh = it.Seq
		m.count(&it, +1)
		m.lane(0).push(it)
	}
	if b != nil {
		m.store.Notify(&m.waiter)
	}
	m.mu.Unlock()
	mb.Settled(b, entries) // behind the entries: the bodies are referred to at all times
	return true
}

// Moved is an entry that moves back.
type Moved struct {
	item
	member *Member
}

// Owner is the owner of the member that it had moved to.
func (e *Moved) Owner() MemberOwner { return e.member.owner }

// Reclaim takes up to most entries out of a durable member's mailbox that moved to it and were not sent. Under the
// append lock: the caller appends them to the lender in the same batch, and then calls SettleMoved. Attr is the
// lender's again.
func (mb *Member) Reclaim(b *store.Batch, most int) []Moved {
	return mb.borrower.reclaim(b, most, mb)
}

// ReclaimAll is Reclaim for all members of a durable mailbox that is about to be deleted, in the same batch: then there
// is no need to settle what it returns.
func (m *Mailbox) ReclaimAll(b *store.Batch, most int) []Moved { return m.reclaim(b, most, nil) }

// reclaim is Reclaim of one member, or with nil of all.
func (m *Mailbox) reclaim(b *store.Batch, most int, mb *Member) []Moved {
	m.mu.Lock()
	defer m.mu.Unlock()
	var back []Moved
	if m.closed || len(m.moved) == 0 {
		return nil
	}
	is := func(it *item) bool {
		mv, ok := m.moved[it.Seq]
		return ok && (mb == nil || mv.member == mb) && len(back) < most && !it.sent() && !it.loan()
	}
	part := func(l *lane, it *item) {
		mv := m.moved[it.Seq]
		delete(m.moved, it.Seq)
		m.takenLocked(mv.memory)
		l.assigned = max(l.assigned, it.Seq) // it is settled though others before it are not
		l.barrier = b.LSN()                  // as if it had been dropped
		e := Moved{*it, mv.member}
		e.Attr = mv.attr
		back = append(back, e)
	}
	for key, f := range m.flights {
		if !f.settled && is(&f.item) {
			part(m.lane(f.Priority), &f.item)
			m.settledLocked(b, key, f)
		}
	}
	slices.SortFunc(back, func(a, b Moved) int { return cmp.Compare(a.Seq, b.Seq) })
	for _, l := range m.lanes {
		take := func(it *item, kept bool) bool {
			if !is(it) {
				return false
			}
			m.count(it, -1)
			if kept {
				m.keep(it, -1)
			}
			part(l, it)
			return true
		}
		l.due.filter(func(it *item) bool { return !take(it, true) })
		l.head.filter(func(it *item) bool { return !take(it, false) })
	}
	return back
}

// Unsent tells whether something moved to the member's session and was not sent yet.
func (mb *Member) Unsent() bool { return mb.borrower.Unsent() > 0 }

// Unsent is how many entries moved to the mailbox and were not sent yet.
func (m *Mailbox) Unsent() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.moved)
}

// SettleMoved settles what Reclaim has taken out. size of the batch: SizeSettle each.
func (mb *Member) SettleMoved(b *store.Batch, entries []Moved) {
	m := mb.borrower
	if len(entries) > 0 {
		m.store.Notify(&m.waiter)
	}
	for i := range entries {
		if e := &entries[i]; e.durable() { // one by one: between them others may live
			b.Settle(m.id, e.Priority, store.SeqRange{From: e.Seq, To: e.Seq}, 1, store.Cost(e.Message))
		}
	}
}

// orphansLocked lists, by member, what moved here and was not sent, of a mailbox that closes.
func (m *Mailbox) orphansLocked() map[*Member][]store.Entry {
	if len(m.moved) == 0 {
		return nil
	}
	all := make(map[*Member][]store.Entry)
	add := func(it *item) bool {
		if mv, ok := m.moved[it.Seq]; ok && it.Message != nil {
			e := store.Entry{Message: it.Message, Attr: mv.attr}
			all[mv.member] = append(all[mv.member], e)
		}
		return true
	}
	for _, l := range m.lanes {
		l.due.prefix(add)
		l.head.prefix(add)
	}
	for _, f := range m.flights {
		if !f.settled {
			add(&f.item)
		}
	}
	m.moved = nil
	return all
}
