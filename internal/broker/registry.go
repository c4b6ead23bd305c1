package broker

import (
	"sync"
	"sync/atomic"
)

// registry is all sessions, by client id and in a list. Both change under the append lock. The list has a
// lock of its own besides, so that a walk over a hundred thousand sessions holds up no publish.
type registry struct {
	byID map[string]*Session // append lock

	durable atomic.Int64 // how many are on disk; written under the append lock

	mu   sync.Mutex
	list []*Session // in no order; each knows its place
}

func (r *registry) add(s *Session) {
	r.byID[s.clientID] = s
	if s.durable {
		r.durable.Add(1)
	}
	r.mu.Lock()
	s.place = len(r.list)
	r.list = append(r.list, s)
	r.mu.Unlock()
}

func (r *registry) remove(s *Session) {
	delete(r.byID, s.clientID)
	if s.durable {
		r.durable.Add(-1)
	}
	r.mu.Lock()
	last := r.list[len(r.list)-1]
	r.list[s.place], last.place = last, s.place
	r.list[len(r.list)-1] = nil
	r.list = r.list[:len(r.list)-1]
	r.mu.Unlock()
}

// each visits the sessions, a few at a time, until visit says false. One that comes or goes meanwhile may
// be missed, and so may one that takes the place of one that goes: it is for sums and sweeps, not for facts.
func (r *registry) each(visit func(*Session) bool) {
	var some [256]*Session
	for from := 0; ; from += len(some) {
		r.mu.Lock()
		n := 0
		if from < len(r.list) {
			n = copy(some[:], r.list[from:])
		}
		r.mu.Unlock()
		for _, s := range some[:n] {
			if !visit(s) {
				return
			}
		}
		if n < len(some) {
			return
		}
	}
}
