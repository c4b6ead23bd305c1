package mailbox

import "sync"

// chunkLen is how many items one allocation of a deque holds: large enough that the cost per entry
// vanishes, and one short of 8 KiB, for the allocator adds a header. The first chunk of a mailbox is small,
// for most mailboxes hold little.
const chunkLen = 127

// keptChunk is the capacity up to which an empty deque keeps its last chunk: a mailbox that runs empty all
// the time allocates nothing, and a hundred thousand idle ones hold little.
const keptChunk = 16

// chunks are pooled: a mailbox at its bound, or with a steady backlog, allocates nothing.
var chunks = sync.Pool{New: func() any { return new([chunkLen]item) }}

func newChunk() []item { return chunks.Get().(*[chunkLen]item)[:0] }

// freeChunk takes a chunk whose items were all popped, and so cleared.
func freeChunk(c []item) {
	if cap(c) == chunkLen {
		chunks.Put((*[chunkLen]item)(c[:chunkLen]))
	}
}

// deque is a list of chunks. Its zero value is empty.
type deque struct {
	chunks [][]item // filled to len; the first from off on
	off    int
	n      int
	bytes  int64 // what the items occupy
}

func (d *deque) len() int { return d.n }

func (d *deque) pushBack(it item) {
	last := len(d.chunks) - 1
	switch {
	case last < 0:
		d.chunks = append(d.chunks, make([]item, 0, 4))
		last = 0
	case len(d.chunks[last]) == cap(d.chunks[last]) && len(d.chunks[last]) >= keptChunk:
		d.chunks = append(d.chunks, newChunk())
		last++
	}
	d.chunks[last] = append(d.chunks[last], it)
	d.n++
	d.bytes += it.memory()
}

// pushFront takes back what was popped.
func (d *deque) pushFront(it item) {
	if d.n == 0 {
		d.chunks, d.off = nil, 0
		d.pushBack(it)
		return
	}
	if d.off == 0 {
		d.chunks = append(d.chunks, nil)
		copy(d.chunks[1:], d.chunks)
		d.chunks[0] = make([]item, chunkLen)
		d.off = chunkLen
	}
	d.off--
	d.chunks[0][d.off] = it
	d.n++
	d.bytes += it.memory()
}

func (d *deque) front() *item {
	if d.n == 0 {
		return nil
	}
	return &d.chunks[0][d.off]
}

func (d *deque) back() *item {
	if d.n == 0 {
		return nil
	}
	last := d.chunks[len(d.chunks)-1]
	return &last[len(last)-1]
}

// prefix counts the first items for which stay holds.
func (d *deque) prefix(stay func(*item) bool) (n int) {
	at := d.off
	for _, c := range d.chunks {
		for ; at < len(c); at++ {
			if !stay(&c[at]) {
				return n
			}
			n++
		}
		at = 0
	}
	return n
}

func (d *deque) popFront() item {
	it := d.chunks[0][d.off]
	d.chunks[0][d.off] = item{} // the message may go
	d.off++
	d.n--
	d.bytes -= it.memory()
	if d.off == len(d.chunks[0]) {
		d.dropChunk()
	}
	return it
}

func (d *deque) popBack() item {
	last := len(d.chunks) - 1
	c := d.chunks[last]
	it := c[len(c)-1]
	c[len(c)-1] = item{}
	d.chunks[last] = c[:len(c)-1]
	d.n--
	d.bytes -= it.memory()
	switch {
	case d.n == 0:
		*d = deque{}
	case len(d.chunks[last]) == 0:
		d.chunks = d.chunks[:last]
	}
	return it
}

// filter keeps the items for which keep holds.
func (d *deque) filter(keep func(*item) bool) {
	for range d.n {
		if it := d.popFront(); keep(&it) {
			d.pushBack(it)
		}
	}
}

func (d *deque) dropChunk() {
	d.off = 0
	if len(d.chunks) == 1 {
		if cap(d.chunks[0]) > 2*keptChunk { // the small ones grow to a little over keptChunk
			freeChunk(d.chunks[0])
			d.chunks = nil
			return
		}
		d.chunks[0] = d.chunks[0][:0]
		return
	}
	freeChunk(d.chunks[0])
	d.chunks[0] = nil
	d.chunks = d.chunks[1:]
}

// join appends all of other, which is empty afterwards.
func (d *deque) join(other *deque) {
	switch {
	case other.n == 0:
		return
	case d.n == 0:
		*d = *other
	default:
		other.chunks[0] = other.chunks[0][other.off:]
		d.chunks = append(d.chunks, other.chunks...)
		d.n += other.n
		d.bytes += other.bytes
	}
	*other = deque{}
}

// split keeps the first keep items, at least one, which occupy so many bytes, and returns the rest.
func (d *deque) split(keep int, bytes int64) deque {
	var rest deque
	if d.n <= keep {
		return rest
	}
	rest.bytes = d.bytes - bytes
	d.bytes = bytes
	at := d.off + keep
	for i, c := range d.chunks {
		if at >= len(c) {
			at -= len(c)
			continue
		}
		rest.chunks = append(rest.chunks, append([]item(nil), c[at:]...))
		rest.chunks = append(rest.chunks, d.chunks[i+1:]...)
		rest.n = d.n - keep
		clear(c[at:])
		d.chunks = append([][]item(nil), d.chunks[:i]...)
		if at > 0 {
			d.chunks = append(d.chunks, c[:at])
		}
		d.n = keep
		return rest
	}
	panic("mailbox: deque holds less than its count")
}
