package handshake

import "hash/maphash"

// visited holds the states seen, each once, in the order they were found, and an open-addressed table of their indexes
// by which they are found again and compared whole. They lie in chunks that never move: at three million states a
// growing slice and a map would hold four copies of them at times.
type visited struct {
	seed   maphash.Seed
	slots  []int32 // index+1; 0: free
	chunks [][]state
	n      int
}

const chunkStates = 1 << 12

func newVisited() visited { return visited{seed: maphash.MakeSeed(), slots: make([]int32, 1<<12)} }

func (v *visited) at(i int32) *state { return &v.chunks[i/chunkStates][i%chunkStates] }

// find returns the index of s, or -1.
func (v *visited) find(s *state) int32 {
	for slot := v.home(s); ; slot = (slot + 1) % len(v.slots) {
		i := v.slots[slot] - 1
		if i < 0 || *v.at(i) == *s {
			return i
		}
	}
}

// add enters a state that was not found.
func (v *visited) add(s *state) int32 {
	if v.n%chunkStates == 0 {
		v.chunks = append(v.chunks, make([]state, chunkStates))
	}
	i := int32(v.n)
	*v.at(i) = *s
	v.n++
	if 2*v.n > len(v.slots) {
		v.slots = make([]int32, 2*len(v.slots))
		for j := range i {
			v.put(j)
		}
	}
	v.put(i)
	return i
}

func (v *visited) put(i int32) {
	slot := v.home(v.at(i))
	for v.slots[slot] != 0 {
		slot = (slot + 1) % len(v.slots)
	}
	v.slots[slot] = i + 1
}

func (v *visited) home(s *state) int {
	return int(maphash.Comparable(v.seed, *s) % uint64(len(v.slots)))
}
