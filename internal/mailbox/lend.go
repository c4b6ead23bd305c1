package mailbox

import (
	"emanet/internal/store"
)

// Lent is an entry that a lender has handed out: Borrow, Move, Settled or GiveBack says what becomes of it.
// Seq is the lender's.
type Lent struct{ item }

// Durable tells whether it is on disk in the lender: then what becomes of it is written.
func (e *Lent) Durable() bool { return e.durable() }

// Turn is a member's turn in Lend.
type Turn struct {
	Member *Member
	Room   int
	// May tells whether the member may have the entry; nil: all.
	May func(*store.Entry) bool
	// Lent is what it was handed.
	Lent []Lent
}

func (t *Turn) takes(it *item) bool { return t.Room > 0 && (t.May == nil || t.May(&it.Entry)) }

// lendMax is how many entries one Lend hands out at most, so that the lender's lock is never held for long.
const lendMax = 1024

// Lends makes an empty mailbox a lender. wake is called, with no mailbox's lock held, when there may be something
// to lend; it must not block.
func (m *Mailbox) Lends(wake func()) { m.lend = wake }

// Lend hands up to most ready entries to the members whose turn it is, one each and round again, as far as they
// have room. What no one takes holds up what is behind it, unless last takes it. It returns which turn was the last
// to get something, -1 for none.
func (m *Mailbox) Lend(turns []Turn, last *Turn, most uint64) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return -1
	}
	if m.flights == nil {
		m.flights = make(map[uint64]*flight)
	}
	flushed := m.store.Flushed()
	m.freeFlushedLocked(flushed)
	at := -1
	for range min(most, lendMax) {
		l := m.nextLaneLocked()
		if l == nil {
			break
		}
		it := l.front()
		if !m.assignableLocked(l, it, flushed) {
			break
		}
		next := nextTurn(turns, at, it)
		switch {
		case next >= 0:
			at = next
			m.lendLocked(&turns[at], l)
			continue
		case last != nil && last.takes(it):
			m.lendLocked(last, l)
			continue
		}
		break
	}
	m.prefetchLocked()
	m.wishSweepLocked()
	return at
}

// nextTurn finds who comes behind at and takes the entry, -1 for nobody.
func nextTurn(turns []Turn, at int, it *item) int {
	for range turns {
		at++
		if at >= len(turns) {
			at = 0
		}
		if turns[at].takes(it) {
			return at
		}
	}
	return -1
}

func (m *Mailbox) lendLocked(t *Turn, l *lane) {
	it := m.popLocked(l)
	m.ready--
	m.bytes -= m.cost(it.Message)
	l.assigned = max(l.assigned, it.Seq)
	t.Room--
	t.Lent = append(t.Lent, Lent{it})
	c := &t.Member.consumer
	c.inFlight++
	m.flights[it.Seq] = m.newFlight(it, c)
}

// GiveBack makes entries that the member was lent, and that went nowhere, ready again. Leave it to the next
// occasion to lend them: wake is not called.
func (mb *Member) GiveBack(entries []Lent) {
	m := mb.lender
	m.mu.Lock()
	defer m.mu.Unlock()
	var unsent []item
	for i := range entries {
		unsent = m.landLoanLocked(mb, owed{seq: entries[i].Seq}, unsent)
	}
	m.unassignLocked(unsent)
	m.wishSweepLocked()
}

// takeBack is GiveBack for what was in the borrower.
func (m *Mailbox) takeBack(mb *Member, loans []owed) {
	m.mu.Lock()
	var unsent []item
	for _, o := range loans {
		unsent = m.landLoanLocked(mb, o, unsent)
	}
	m.unassignLocked(unsent)
	m.wishSweepLocked()
	closed := m.closed
	m.mu.Unlock()
	if !closed {
		m.lend()
	}
}

// landLoanLocked ends a loan whose entry is ready again: what was sent goes to where nothing drops or expires it.
func (m *Mailbox) landLoanLocked(mb *Member, o owed, unsent []item) []item {
	f := m.loanOf(mb, o.seq)
	if f == nil {
		return unsent
	}
	if o.sent {
		f.setSent()
	}
	it := m.landLocked(o.seq, f)
	if !it.sent() {
		return append(unsent, it)
	}
	m.giveBack(m.lane(it.Priority), it)
	return unsent
}

// Return gives loans in flight at c back to their lenders, for c may not have them though others may: as if sent,
// for they may have been. It returns the keys of what is the mailbox's own. Call Wake then.
func (m *Mailbox) Return(c *Consumer, keys []uint64) (own []uint64) {
	var back []owed
	m.mu.Lock()
	for _, key := range keys {
		f := m.flightOf(c, key)
		switch {
		case f == nil:
		case f.loan():
			back = append(back, m.parted(&f.item))
			m.memory -= f.memory()
			m.freeLocked(key)
		default:
			own = append(own, key)
		}
	}
	m.mu.Unlock()
	giveBack(back)
	return own
}

// loanOf finds what the member was lent and has not given back or settled.
func (m *Mailbox) loanOf(mb *Member, seq uint64) *flight {
	if f := m.flights[seq]; f != nil && !f.settled && f.consumer == &mb.consumer {
		return f
	}
	return nil
}

// Settled ends entries that the member was lent: it has them, at QoS 0. b may be nil if none is durable.
// size of the batch: SizeSettle each.
func (mb *Member) Settled(b *store.Batch, entries []Lent) {
	m := mb.lender
	m.mu.Lock()
	defer m.mu.Unlock()
	s := settler{m: m, b: b}
	for i := range entries {
		m.settleLoanLocked(&s, mb, entries[i].Seq)
	}
	m.endLoansLocked(&s)
}

// settleLoans is Settled for what was in the borrower.
func (m *Mailbox) settleLoans(b *store.Batch, mb *Member, loans []owed) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := settler{m: m, b: b}
	for i := range loans {
		m.settleLoanLocked(&s, mb, loans[i].seq)
	}
	m.endLoansLocked(&s)
}

func (m *Mailbox) settleLoanLocked(s *settler, mb *Member, seq uint64) {
	if f := m.loanOf(mb, seq); f != nil {
		s.add(m.lane(f.Priority), &f.item)
		m.settledLocked(s.b, seq, f)
	}
}

func (m *Mailbox) endLoansLocked(s *settler) {
	s.end()
	if s.runs > 0 {
		m.store.Notify(&m.waiter)
	}
}

// Promote makes a mailbox of this process's memory durable: what is appended from now on is written. What is
// there stays as volatile as it was promised.
func (m *Mailbox) Promote(b *store.Batch) {
	id := b.MailboxCreate()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.id, m.policy.Durable, m.policy.MaxBytes = id, true, 0
	m.bytes, m.keptBytes = 0, 0 // they are counted as on disk now
	for _, l := range m.lanes {
		for i := range l.returned {
			m.bytes += m.cost(l.returned[i].Message)
			m.keptBytes += m.cost(l.returned[i].Message)
		}
		l.head.prefix(func(it *item) bool {
			m.bytes += m.cost(it.Message)
			return true
		})
	}
}

// Ready is how many entries wait.
func (m *Mailbox) Ready() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ready
}
