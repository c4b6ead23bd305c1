package topic

// cursorSteps bounds the names one Next looks at, and with it the time the lock is
// held: under a millisecond, whatever the filter and the names.
const cursorSteps = 1024

// Cursor walks over the values whose names match a filter, in the order of names,
// in chunks. Between chunks it holds neither lock nor memory of the set, and the
// set may change: a value that is there during the whole walk is seen exactly once,
// one that comes or goes meanwhile at most once.
//
// The cost is proportional to what matches: names that cannot match are stepped
// over a subtree at a time. A Cursor is for one goroutine.
type Cursor[V any] struct {
	values *Values[V]
	filter string
	all    bool   // whatever the filter
	last   string // last name looked at, "" before the first
	target []byte // where to look next, see probe; kept to reuse its memory
}

// Walk returns a cursor before the first value that filter matches. filter must
// have passed [CheckFilter].
func (s *Values[V]) Walk(filter string) Cursor[V] { return s.WalkAfter(filter, "") }

// All returns a cursor before the first of all values, those that no wildcard matches included.
func (s *Values[V]) All() Cursor[V] { return Cursor[V]{values: s, all: true} }

// WalkAfter returns a cursor that goes on behind position, which is what
// [Cursor.Position] returned or the name of the last value taken; that name need
// not exist any more.
func (s *Values[V]) WalkAfter(filter, position string) Cursor[V] {
	return Cursor[V]{values: s, filter: filter, last: position}
}

// Position is where the cursor stands: give it to [Values.WalkAfter] to go on from
// here, also after a restart. It is a name, or "" before the first; it may be a
// name that does not match.
func (c *Cursor[V]) Position() string { return c.last }

// Next appends up to limit values to dst. more is false at the end of the walk.
// While more is true a call may append fewer than limit values, even none: names
// looked at are bounded too, so that no writer waits long for the lock.
func (c *Cursor[V]) Next(dst []Value[V], limit int) (_ []Value[V], more bool) {
	s := c.values
	s.mu.RLock()
	defer s.mu.RUnlock()
	p := s.afterLocked(c.last)
	for steps := 0; steps < cursorSteps; steps++ {
		if p.run == len(s.runs) {
			return dst, false
		}
		if limit <= 0 {
			return dst, true
		}
		r := s.runs[p.run].run
		name := r.names[p.offset]
		verdict := probeMatch
		if !c.all {
			verdict = c.probe(name)
		}
		if verdict == probeEnd {
			return dst, false
		}
		c.last = name
		if verdict == probeMatch {
			dst = append(dst, Value[V]{name, r.values[p.offset]})
			limit--
		}
		p = s.nextLocked(p)
		if verdict == probeSeek {
			p = s.seekLocked(p, c.target)
		}
	}
	return dst, true
}

// place is where a name is in a Values; run is len(runs) at the end.
type place struct{ run, offset int }

// afterLocked returns the place of the first name above name.
func (s *Values[V]) afterLocked(name string) place {
	i, j, found := s.searchLocked(name)
	p := place{i, j}
	switch {
	case i == len(s.runs):
		return p
	case found:
		return s.nextLocked(p)
	case j == len(s.runs[i].run.names):
		return place{i + 1, 0}
	}
	return p
}

func (s *Values[V]) nextLocked(p place) place {
	if p.offset+1 < len(s.runs[p.run].run.names) {
		return place{p.run, p.offset + 1}
	}
	return place{p.run + 1, 0}
}

// seekLocked returns the place of the first name at or above target, from p on:
// never before p, so that a walk always gets on.
func (s *Values[V]) seekLocked(p place, target []byte) place {
	if p.run == len(s.runs) {
		return p
	}
	// Most targets lie in the same run: then the search over runs is spared.
	names := s.runs[p.run].run.names
	if compare(names[len(names)-1], target) >= 0 {
		return place{p.run, p.offset + lowerBound(names[p.offset:], target)}
	}
	later := s.runs[p.run+1:]
	if len(later) == 0 {
		return place{len(s.runs), 0}
	}
	i := p.run + 1 + lastRun(later, target)
	names = s.runs[i].run.names
	j := lowerBound(names, target)
	if j == len(names) {
		return place{i + 1, 0}
	}
	return place{i, j}
}
