package mailbox

import (
	"slices"

	"emanet/internal/store"
)

// Loans. A mailbox may have members in place of consumers (Lends): other mailboxes, of sessions, that it hands
// entries to. An entry handed over under an acknowledgement of its own is a loan: it stays in flight in the
// lender, which has it on disk, and takes the next seq, and so a key, of the borrower, which has it in memory
// only. Whoever settles it there settles it in the lender; when the borrower closes, or has not sent it yet and
// its consumer leaves, it is ready in the lender again. An entry may also move for good (Move).
//
// Every entry in flight in a lender is in one of two places: with whoever called Lend and has not handed it on
// yet, or in a borrower. No two mailboxes are ever locked at once.

// Member is a session's mailbox in its part as a member of a lender.
type Member struct {
	lender   *Mailbox
	borrower *Mailbox
	owner    MemberOwner
	consumer Consumer // stands for the member in the lender's flights

	// Under the borrower's lock.
	slot    uint32 // in borrower.members
	out     int    // loans it holds
	left    bool   // gets no more
	waiting bool   // is to be told of room
}

// MemberOwner is told what concerns a member, from any goroutine, with no mailbox's lock held but perhaps the
// append lock. It must not block.
type MemberOwner interface {
	// RoomCame: Room has said that there is none, and there may be now.
	RoomCame()
	// Orphaned gives back what moved to the member and was not sent before its mailbox closed. The lender does
	// not have it any more.
	Orphaned([]store.Entry)
}

// Join makes borrower, a session's mailbox, a member of lender. Under the append lock.
func Join(lender, borrower *Mailbox, owner MemberOwner) *Member {
	if lender.lend == nil || borrower.policy.Identifiers == 0 {
		panic("mailbox: only sessions are members, and only of a mailbox that lends")
	}
	mb := &Member{lender: lender, borrower: borrower, owner: owner}
	m := borrower
	m.mu.Lock()
	defer m.mu.Unlock()
	m.borrows.Store(true)
	for i, other := range m.members {
		if other.left && other.out == 0 { // nothing refers to its slot
			mb.slot = uint32(i)
			m.members[i] = mb
			return mb
		}
	}
	mb.slot = uint32(len(m.members))
	m.members = append(m.members, mb)
	return mb
}

// Borrows tells whether the mailbox is, or was, anybody's member: what it settles may be on loan.
func (m *Mailbox) Borrows() bool { return m.borrows.Load() }

// Owes tells whether a settlement may have to be written although the mailbox is not durable: it has borrowed
// what is on disk.
func (m *Mailbox) Owes() bool { return m.owes.Load() }

// takesLocked: entries may be put into the borrower. Things may have changed since Room was asked.
func (mb *Member) takesLocked() bool {
	m := mb.borrower
	return !m.closed && !mb.left && len(m.consumers) > 0 && !m.pagedLocked()
}

// Borrow puts entries that were lent to the member into its mailbox, as loans, and hands on what may go at once.
// Attr and Tag of the entries are the member's. False: the member takes nothing, for now at least; nothing has happened.
func (mb *Member) Borrow(entries []Lent) bool {
	m := mb.borrower
	m.mu.Lock()
	if !mb.takesLocked() {
		m.mu.Unlock()
		return false
	}
	for i := range entries {
		e := &entries[i]
		if e.durable() {
			m.owes.Store(true)
		}
		it := item{Entry: e.Entry, mark: loanMark}
		if e.sent() {
			it.mark |= againMark
		}
		it.MessageID, it.Deliveries = e.Seq, mb.slot // see item.loan
		it.Seq = m.nextSeq
		m.nextSeq++
		mb.out++
		m.untakenBytes += it.memory()
		m.untaken++
		m.untakenHigh = it.Seq
		m.count(&it, +1)
		m.lane(0).push(it)
	}
	m.dispatchLocked(m.store.Flushed())
	first, more := m.takeWokenLocked()
	m.mu.Unlock()
	wakeAll(first, more)
	return true
}

// Leave ends the membership: what it was lent and has not sent is the lender's again, what it has sent it is to
// settle yet. Leaving twice is fine.
func (mb *Member) Leave() {
	m := mb.borrower
	m.mu.Lock()
	if mb.waiting {
		mb.waiting = false
		m.waiters--
	}
	mb.left = true
	back := m.extractLocked(nil, func(it *item) bool { return m.members[it.Deliveries] == mb })
	m.mu.Unlock()
	giveBack(back)
}

// extractLocked takes loans out that were not sent, if which says so.
func (m *Mailbox) extractLocked(back []owed, which func(*item) bool) []owed {
	if m.untaken == 0 {
		return back
	}
	unsent := func(it *item) bool { return it.loan() && !it.sent() && which(it) }
	for key, f := range m.flights {
		if !f.settled && unsent(&f.item) {
			back = append(back, m.parted(&f.item))
			m.memory -= f.memory()
			m.freeLocked(key)
		}
	}
	for _, l := range m.lanes {
		back = m.extractLane(back, l, unsent)
	}
	return back
}

func (m *Mailbox) extractLane(back []owed, l *lane, which func(*item) bool) []owed {
	take := func(it *item, kept bool) bool {
		if !which(it) {
			return false
		}
		back = append(back, m.parted(it))
		m.count(it, -1)
		if kept {
			m.keep(it, -1)
		}
		return true
	}
	for i := 0; i < len(l.returned); {
		if it := l.returned[i]; take(&it, true) {
			l.returned.remove(i)
			i = 0 // the heap has moved
			continue
		}
		i++
	}
	l.due.filter(func(it *item) bool { return !take(it, true) })
	l.head.filter(func(it *item) bool { return !take(it, false) })
	return back
}

// owed is a loan that has come to its end in the borrower.
type owed struct {
	member *Member
	seq    uint64 // of the lender
	sent   bool
}

// parted is what a loan owes that leaves the borrower.
func (m *Mailbox) parted(it *item) owed {
	mb := m.members[it.Deliveries]
	mb.out--
	if !it.sent() {
		m.takenLocked(it.memory())
	}
	return owed{mb, it.MessageID, it.sent()}
}

// takenLocked: an entry that was lent or moved was sent, or has left, so that it does not hold up others.
func (m *Mailbox) takenLocked(memory int64) {
	m.untaken--
	m.untakenBytes -= memory
}

// noteSentLocked is for an entry of a member that is sent for the first time.
func (m *Mailbox) noteSentLocked(it *item) {
	if it.loan() {
		m.takenLocked(it.memory())
		return
	}
	if mv, ok := m.moved[it.Seq]; ok {
		delete(m.moved, it.Seq)
		m.takenLocked(mv.memory)
	}
}

// owedLocked lists all loans, of a mailbox that closes.
func (m *Mailbox) owedLocked() (all []owed) {
	for _, f := range m.flights {
		if f.loan() && !f.settled {
			all = append(all, m.parted(&f.item))
		}
	}
	for _, l := range m.lanes {
		all = m.extractLane(all, l, (*item).loan)
	}
	return all
}

// byMember calls f with the part of list that is each member's. No lock may be held.
func byMember(list []owed, f func(*Member, []owed)) {
	ordered := true
	for i := 1; i < len(list); i++ {
		ordered = ordered && list[i].member.slot >= list[i-1].member.slot
	}
	if !ordered {
		slices.SortStableFunc(list, func(a, b owed) int { return int(a.member.slot) - int(b.member.slot) })
	}
	for len(list) > 0 {
		n := 1
		for n < len(list) && list[n].member == list[0].member {
			n++
		}
		f(list[0].member, list[:n])
		list = list[n:]
	}
}

// giveBack makes loans ready in their lenders again.
func giveBack(list []owed) {
	byMember(list, func(mb *Member, part []owed) { mb.lender.takeBack(mb, part) })
}

// settleOwed settles loans in their lenders, in the batch.
func settleOwed(b *store.Batch, list []owed) {
	byMember(list, func(mb *Member, part []owed) { mb.lender.settleLoans(b, mb, part) })
}
