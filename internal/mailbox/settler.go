package mailbox

import (
	"emanet/internal/store"
)

// settler writes settlements as few ranges, and sees dropped entries to where they belong. It is used
// under the mailbox's lock but for finish.
type settler struct {
	m    *Mailbox
	b    *store.Batch
	lane *lane
	run  store.SeqRange
	n    uint64 // live entries in run
	cost int64
	runs int // written so far
	// dead waits for the dead-letter routing, which may append to this very mailbox: finish calls it
	// without the lock. Settlements stand behind the moves, so that a body is referred to at all times.
	dead    []dead
	held    []heldRun
	dropped [Reasons]uint64
}

type dead struct {
	entry  store.Entry
	reason Reason
}

type heldRun struct {
	priority uint8
	run      store.SeqRange
	n        uint64
	cost     int64
}

// extends tells whether it goes into the current run: of its lane, nothing lives in between in the store.
// Above lane.assigned entries leave in order and without holes, so that only what is not in the store, or
// is in another lane, can lie there.
func (s *settler) extends(l *lane, it *item) bool {
	return s.n > 0 && s.lane == l && it.Seq > s.run.To && (it.Seq == s.run.To+1 || s.run.To >= l.assigned)
}

// add settles an entry.
func (s *settler) add(l *lane, it *item) {
	if !it.durable() {
		return
	}
	if !s.extends(l, it) {
		s.end()
		s.lane, s.run.From = l, it.Seq
	}
	s.run.To = it.Seq
	s.n++
	s.cost += store.Cost(it.Message)
}

// addGap settles what is only on disk.
func (s *settler) addGap(l *lane, g *gap) {
	if s.n == 0 || s.lane != l || s.run.To < l.assigned {
		s.end()
		s.lane, s.run.From = l, g.after+1
	}
	s.run.To = g.before - 1
	s.n += g.count
	s.cost += g.bytes
}

// end writes the current run.
func (s *settler) end() {
	if s.n > 0 {
		s.runs++
		r := heldRun{s.lane.priority, s.run, s.n, s.cost}
		if len(s.dead) > 0 {
			s.held = append(s.held, r)
		} else {
			s.write(&r)
		}
	}
	s.run, s.n, s.cost = store.SeqRange{}, 0, 0
}

func (s *settler) write(r *heldRun) { s.b.Settle(s.m.id, r.priority, r.run, r.n, r.cost) }

// drop settles an entry that no consumer did.
func (s *settler) drop(l *lane, it *item, r Reason) {
	s.dropped[r]++
	if len(s.m.moved) > 0 {
		s.m.noteSentLocked(it) // or not: it holds up nobody any more
	}
	p := &s.m.policy
	if r == ReasonOverflow && p.Overflow == DeadLetterOldest || r == ReasonExpired && p.DeadLetterExpired {
		s.dead = append(s.dead, dead{it.Entry, r})
	}
	s.add(l, it)
}

// finish tells the host. Only the append lock may be held.
func (s *settler) finish() {
	for r, n := range s.dropped {
		if n > 0 {
			s.m.host.Dropped(s.m, Reason(r), n)
		}
	}
	for i := range s.dead {
		s.m.host.DeadLetter(s.b, s.m, &s.dead[i].entry, s.dead[i].reason)
	}
	for i := range s.held {
		s.write(&s.held[i])
	}
}
