package mailbox

import (
	"slices"

	"pgregory.net/rapid"

	"emanet/internal/store"
)

// lenders of the model: mailboxes of memory that the session under test is a member of. What matters here is the
// borrower; that nothing is lost between the two is seen by counting.
type modelLender struct {
	m      *Mailbox
	member *Member
	ready  int
	seqs   []uint64 // appended and not settled
}

// RoomCame and Orphaned implement MemberOwner.
func (l *modelLender) RoomCame()              {}
func (l *modelLender) Orphaned([]store.Entry) {}

func (r *modelRun) newLender() *modelLender {
	l := &modelLender{m: New(r.store, r.host, 0, Policy{})}
	l.m.Lends(func() {})
	l.member = Join(l.m, r.m, l)
	r.lenders = append(r.lenders, l)
	return l
}

// room is what the model says a member may be lent.
func (r *modelRun) room() int {
	if len(r.model.consumers) == 0 {
		return 0
	}
	used := 0
	for _, e := range r.model.entries {
		if e.gone == 0 || e.consumer != nil { // what is settled and not on disk holds its credit
			used++
		}
	}
	return max(0, r.model.consumers[0].credit-used)
}

// stepLend has a lender lend as much as there is room for.
func (r *modelRun) stepLend(rt *rapid.T) {
	if !r.session() {
		return
	}
	if len(r.lenders) < 2 {
		r.newLender()
	}
	l := r.lenders[rapid.IntRange(0, len(r.lenders)-1).Draw(rt, "lender")]
	for range rapid.IntRange(0, 5).Draw(rt, "more") {
		msg := bodyOf(rapid.IntRange(1, 50).Draw(rt, "size"))
		if rapid.Bool().Draw(rt, "expires") {
			msg.ExpiresAt = r.host.Now() + 1_000_000 // in the lender it is not to
		}
		l.seqs = append(l.seqs, l.m.Append(nil, store.Entry{Message: msg, Attr: 1}, true))
		l.ready++
	}
	room := l.member.Room()
	equal(rt, "room", room, r.room())
	turns := []Turn{{Member: l.member, Room: rapid.IntRange(0, room).Draw(rt, "lent")}}
	want := min(turns[0].Room, l.ready)
	l.m.Lend(turns, nil, 1000)
	equal(rt, "lent", len(turns[0].Lent), want)
	if want == 0 {
		return
	}
	equal(rt, "borrowed", l.member.Borrow(turns[0].Lent), true)
	l.ready -= want
	for _, lent := range turns[0].Lent {
		e := &modelEntry{
			seq: r.model.nextSeq, key: r.model.nextSeq % r.policy.Identifiers, cost: store.Cost(lent.Message),
			appended: r.store.last, lender: l, again: lent.sent(),
		}
		r.model.nextSeq++
		r.model.entries = append(r.model.entries, e)
	}
	r.after()
}

// stepLeave ends a membership and begins it anew: what was not sent goes back.
func (r *modelRun) stepLeave(*rapid.T) {
	if len(r.lenders) == 0 {
		return
	}
	l := r.lenders[0]
	l.member.Leave()
	r.giveBack(func(e *modelEntry) bool { return e.lender == l && e.member == nil && !e.sent })
	for _, e := range r.model.entries {
		if e.lender == l && e.member == nil {
			e.member = l.member
		}
	}
	l.member = Join(l.m, r.m, l)
	r.after()
}

// giveBack takes out what the lender has again.
func (r *modelRun) giveBack(which func(*modelEntry) bool) {
	r.model.entries = slices.DeleteFunc(r.model.entries, func(e *modelEntry) bool {
		if e.lender == nil || !which(e) {
			return false
		}
		e.lender.ready++
		e.gone = 1 // for a queue that still lists it
		return true
	})
}

// compareLenders checks that each entry is in one place.
func (r *modelRun) compareLenders() {
	for _, l := range r.lenders {
		out := 0
		for _, e := range r.model.entries {
			if e.lender == l {
				out++
			}
		}
		s := l.m.Status()
		equal(r.rt, "ready in the lender", int(s.Ready), l.ready)
		equal(r.rt, "on loan", int(s.InFlight), out)
		equal(r.rt, "in all", l.ready+out, len(l.seqs))
	}
}

// settledLoan notes that a loan is settled, in the lender as well.
func (r *modelRun) settledLoan(e *modelEntry) {
	e.lender.seqs = e.lender.seqs[1:] // which one is of no importance
	e.gone = 1
	r.model.entries = slices.DeleteFunc(r.model.entries, func(o *modelEntry) bool { return o == e })
}
