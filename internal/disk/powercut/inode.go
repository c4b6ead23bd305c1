package powercut

import (
	"math/rand/v2"
	"slices"
)

// An inode is a file's content twice: as programs see it, and as the medium has it.
type inode struct {
	name    string // latest, for messages and hooks
	cache   []byte
	durable []byte
	log     []change // since the last Sync, in order
}

// A change is one write or one change of size.
type change struct {
	off  int64
	data []byte
	size int64 // of the file afterwards
}

// write puts p into the cache and notes it as not flushed.
func (n *inode) write(p []byte, off int64) {
	end := off + int64(len(p))
	if end > int64(len(n.cache)) {
		n.cache = resize(n.cache, end)
	}
	copy(n.cache[off:], p)
	n.log = append(n.log, change{off: off, data: slices.Clone(p), size: int64(len(n.cache))})
}

func (n *inode) truncate(size int64) {
	c := change{size: size}
	if have := int64(len(n.cache)); size < have {
		// What was cut off reads as zero if the file grows again.
		c.off, c.data = size, make([]byte, have-size)
	}
	n.cache = resize(n.cache, size)
	n.log = append(n.log, c)
}

// resize answers b with the given length; bytes it gains are zero.
func resize(b []byte, size int64) []byte {
	if size <= int64(len(b)) {
		return b[:size]
	}
	have := len(b)
	b = slices.Grow(b, int(size)-have)[:size]
	clear(b[have:])
	return b
}

// apply makes one change, or the part of it that keep lets through, to the medium.
func (n *inode) apply(c change, from, to int64) {
	if need := c.off + to; need > int64(len(n.durable)) {
		n.durable = resize(n.durable, need)
	}
	copy(n.durable[c.off+from:], c.data[from:to])
}

// sync moves everything to the medium.
func (n *inode) sync() {
	for _, c := range n.log {
		n.apply(c, 0, int64(len(c.data)))
		n.durable = resize(n.durable, c.size)
	}
	n.log = nil
}

// dropDirty is a failed flush: the kernel takes the pages for clean. Some reached the medium,
// those that did not may be read for a while longer, or not.
func (n *inode) dropDirty(rng *rand.Rand) {
	n.lose(rng)
	if rng.IntN(2) == 0 {
		n.cache = slices.Clone(n.durable)
	}
}

// lose ends the log as a power cut does: of each sector the medium has what it was at some moment
// since the last Sync; the last write is torn somewhere in addition; the size is one the file had.
func (n *inode) lose(rng *rand.Rand) {
	if len(n.log) == 0 {
		return
	}
	sector := int64(512)
	if rng.IntN(4) == 0 {
		sector = 4096
	}
	bias := rng.IntN(4) // some cuts keep nearly everything, some nearly nothing
	size := int64(len(n.durable))
	if i := rng.IntN(len(n.log) + 1); i > 0 {
		size = n.log[i-1].size
	}
	moments := map[int64]int{} // by sector: this many changes reached it
	for i, c := range n.log {
		end := int64(len(c.data))
		if i == len(n.log)-1 && rng.IntN(2) == 0 {
			end = rng.Int64N(end + 1)
		}
		for at := int64(0); at < end; {
			k := (c.off + at) / sector
			next := min(end, (k+1)*sector-c.off)
			moment, drawn := moments[k]
			if !drawn {
				moment = drawMoment(rng, bias, len(n.log))
				moments[k] = moment
			}
			if i < moment {
				n.apply(c, at, next)
			}
			at = next
		}
	}
	n.durable = resize(n.durable, size)
	n.log = nil
}

func drawMoment(rng *rand.Rand, bias, changes int) int {
	switch r := rng.IntN(8); {
	case bias == 0 && r < 7, bias == 1 && r < 4:
		return changes
	case bias == 2 && r < 7, bias == 1:
		return 0
	}
	return rng.IntN(changes + 1)
}
