package topic

import (
	"slices"
	"sync"
)

const (
	// runMax is the most values in one run. Larger runs save a little memory and
	// make each insertion move more.
	runMax = 128

	// runMerge is the size up to which two neighbouring runs become one; well below
	// runMax, so that a name that comes and goes does not split and merge each time.
	runMerge = runMax / 2
)

// Value is one entry of a [Values].
type Value[V any] struct {
	Name  string
	Value V
}

// Values holds one value per name, in the order of names level by level, such as
// the retained messages of a broker. The zero value is empty and ready. All
// methods may be called from many goroutines.
//
// It is a sorted sequence cut into runs of at most runMax, under a sorted list of
// the runs: two binary searches reach any name. A tree of levels would answer Get a
// little faster, but needs an ordered set of children in each vertex to be
// resumable, and several times the memory.
type Values[V any] struct {
	mu    sync.RWMutex
	runs  []runRef[V]
	count int
}

// runRef repeats the first name of its run, so that the search over runs does not
// touch them.
type runRef[V any] struct {
	first string
	run   *run[V]
}

// run is never empty. Names lie apart from values, because searches read only them.
type run[V any] struct {
	names  []string
	values []V
}

// Set puts v at name in place of an earlier value, which it returns. name must have
// passed [CheckName]. The string is kept as it is: hand over one that pins no
// larger buffer.
func (s *Values[V]) Set(name string, v V) (old V, replaced bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, j, found := s.searchLocked(name)
	if found {
		r := s.runs[i].run
		old, r.values[j] = r.values[j], v
		return old, true
	}
	s.count++
	if len(s.runs) == 0 {
		s.runs = append(s.runs, newRun(name, v))
		return old, false
	}
	if len(s.runs[i].run.names) == runMax {
		i, j = s.splitLocked(i, j)
		if i == len(s.runs) {
			s.runs = append(s.runs, newRun(name, v))
			return old, false
		}
	}
	r := s.runs[i].run
	r.names = slices.Insert(r.names, j, name)
	r.values = slices.Insert(r.values, j, v)
	s.runs[i].first = r.names[0]
	return old, false
}

// Delete removes the value at name and returns it.
func (s *Values[V]) Delete(name string) (old V, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, j, found := s.searchLocked(name)
	if !found {
		return old, false
	}
	s.count--
	r := s.runs[i].run
	old = r.values[j]
	r.names = slices.Delete(r.names, j, j+1)
	r.values = slices.Delete(r.values, j, j+1)
	if len(r.names) == 0 {
		s.runs = slices.Delete(s.runs, i, i+1)
		s.shrinkLocked()
		return old, true
	}
	s.runs[i].first = r.names[0]
	if i+1 < len(s.runs) && s.mergeLocked(i) {
		return old, true
	}
	if i > 0 {
		s.mergeLocked(i - 1)
	}
	return old, true
}

// Get returns the value at name.
func (s *Values[V]) Get(name string) (v V, ok bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	i, j, found := s.searchLocked(name)
	if !found {
		return v, false
	}
	return s.runs[i].run.values[j], true
}

// Len returns the number of values.
func (s *Values[V]) Len() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.count
}

// searchLocked returns the run and the offset in it where name is or belongs.
func (s *Values[V]) searchLocked(name string) (i, j int, found bool) {
	i = lastRun(s.runs, name)
	if len(s.runs) == 0 {
		return i, 0, false
	}
	names := s.runs[i].run.names
	j = lowerBound(names, name)
	return i, j, j < len(names) && names[j] == name
}

// splitLocked makes room at (i, j) in the full run i and returns where that place
// is now. Names that arrive in order, as after a restart, leave full runs behind:
// past the end of the last run nothing moves and the answer is a run not there yet.
func (s *Values[V]) splitLocked(i, j int) (int, int) {
	if i == len(s.runs)-1 && j == runMax {
		return len(s.runs), 0
	}
	const half = runMax / 2
	left := s.runs[i].run
	right := &run[V]{names: slices.Clone(left.names[half:]), values: slices.Clone(left.values[half:])}
	left.names, left.values = slices.Clone(left.names[:half]), slices.Clone(left.values[:half])
	s.runs = slices.Insert(s.runs, i+1, runRef[V]{right.names[0], right})
	if j > half {
		return i + 1, j - half
	}
	return i, j
}

// mergeLocked makes run i and the next one run if both together are small.
func (s *Values[V]) mergeLocked(i int) bool {
	left, right := s.runs[i].run, s.runs[i+1].run
	if len(left.names)+len(right.names) > runMerge {
		return false
	}
	left.names = append(left.names, right.names...)
	left.values = append(left.values, right.values...)
	s.runs = slices.Delete(s.runs, i+1, i+2)
	s.shrinkLocked()
	return true
}

// shrinkLocked gives the list of runs back after most of them went.
func (s *Values[V]) shrinkLocked() {
	if cap(s.runs) > runMax && len(s.runs)*shrinkRatio < cap(s.runs) {
		s.runs = append(make([]runRef[V], 0, 2*len(s.runs)), s.runs...)
	}
}

func newRun[V any](name string, v V) runRef[V] {
	return runRef[V]{name, &run[V]{names: []string{name}, values: []V{v}}}
}

// lastRun returns the last of runs that begins at or before target, 0 if none does.
func lastRun[V any, T string | []byte](runs []runRef[V], target T) int {
	low, high := 0, len(runs) // runs[:low] begin at or before target, runs[high:] after
	for low < high {
		mid := int(uint(low+high) / 2)
		if compare(runs[mid].first, target) <= 0 {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return max(low-1, 0)
}

// lowerBound returns the offset of the first of names that is not below target.
func lowerBound[T string | []byte](names []string, target T) int {
	low, high := 0, len(names)
	for low < high {
		mid := int(uint(low+high) / 2)
		if compare(names[mid], target) < 0 {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low
}
