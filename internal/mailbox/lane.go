package mailbox

import (
	"container/heap"

	"emanet/internal/store"
)

// item is an entry in memory.
type item struct {
	store.Entry
	lsn     store.LSN // batch that made it what it is; 0 when it waits for no flush
	durable bool      // is in the store: its settlement must be as well
	sent    bool      // was handed to a consumer before: DUP, redelivered
}

// itemOverhead is what an item costs beside its message: its place in a chunk.
const itemOverhead = 96

func (it *item) memory() int64 {
	if it.Message == nil {
		return itemOverhead
	}
	return itemOverhead + it.Message.Cost()
}

// lane is the ready entries of one priority.
type lane struct {
	priority uint8
	returned returned // was in flight; neither dropped nor expired
	head     deque    // was never handed out
	gap      gap
	tail     deque // only used while there is a gap
}

// gap is what is ready but only on disk: seqs strictly between after and before.
type gap struct {
	count         uint64
	bytes         int64
	after, before uint64
	// gone and changed are newer than the pages may be: settled or altered in the journal's tail, at start.
	gone    []store.SeqRange
	changed []store.EntryChange
}

// push adds the newest entry.
func (l *lane) push(it item) {
	if l.gap.count == 0 {
		l.head.pushBack(it)
		return
	}
	l.tail.pushBack(it)
}

// front is the next to go in memory, or nil: then, if there is a gap, it is to be loaded first.
func (l *lane) front() *item {
	if len(l.returned) > 0 {
		return &l.returned[0]
	}
	return l.head.front()
}

// popFront removes what front showed.
func (l *lane) popFront() item {
	if len(l.returned) > 0 {
		return heap.Pop(&l.returned).(item)
	}
	return l.head.popFront()
}

// giveBack puts an entry that was in flight at its original position: before all of head, whose entries
// are later for having never been handed out.
func (l *lane) giveBack(it item) { heap.Push(&l.returned, it) }

// closeGap joins tail to head once nothing lies between.
func (l *lane) closeGap() {
	if l.gap.count == 0 {
		l.head.join(&l.tail)
		l.gap = gap{}
	}
}

// returned is a heap by seq.
type returned []item

func (r returned) Len() int           { return len(r) }
func (r returned) Less(i, j int) bool { return r[i].Seq < r[j].Seq }
func (r returned) Swap(i, j int)      { r[i], r[j] = r[j], r[i] }
func (r *returned) Push(x any)        { *r = append(*r, x.(item)) }
func (r *returned) Pop() any {
	old := *r
	it := old[len(old)-1]
	old[len(old)-1] = item{}
	*r = old[:len(old)-1]
	return it
}

// chunkLen is how many items one allocation of a deque holds: large enough that the cost per entry
// vanishes; the first chunk of a mailbox is small, for most mailboxes hold little.
const chunkLen = 128

// deque is a list of chunks. Its zero value is empty.
type deque struct {
	chunks [][]item // filled to len; the first from off on
	off    int
	n      int
}

func (d *deque) len() int { return d.n }

func (d *deque) pushBack(it item) {
	last := len(d.chunks) - 1
	switch {
	case last < 0:
		d.chunks = append(d.chunks, make([]item, 0, 4))
		last = 0
	case len(d.chunks[last]) >= chunkLen:
		d.chunks = append(d.chunks, make([]item, 0, chunkLen))
		last++
	}
	d.chunks[last] = append(d.chunks[last], it)
	d.n++
}

func (d *deque) front() *item {
	if d.n == 0 {
		return nil
	}
	return &d.chunks[0][d.off]
}

func (d *deque) popFront() item {
	it := d.chunks[0][d.off]
	d.chunks[0][d.off] = item{} // the message may go
	d.off++
	d.n--
	if d.off == len(d.chunks[0]) {
		d.dropChunk()
	}
	return it
}

func (d *deque) dropChunk() {
	d.off = 0
	if len(d.chunks) == 1 {
		d.chunks[0] = d.chunks[0][:0] // kept: a mailbox that runs empty all the time allocates nothing
		return
	}
	d.chunks[0] = nil
	d.chunks = d.chunks[1:]
}

// join appends all of other, which is empty afterwards.
func (d *deque) join(other *deque) {
	if other.n == 0 {
		return
	}
	if d.n == 0 {
		*d, *other = *other, deque{}
		return
	}
	if other.off > 0 {
		other.chunks[0] = other.chunks[0][other.off:]
	}
	d.chunks = append(d.chunks, other.chunks...)
	d.n += other.n
	*other = deque{}
}

// split keeps the first keep items and returns the rest.
func (d *deque) split(keep int) deque {
	var rest deque
	if d.n <= keep {
		return rest
	}
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
		if keep == 0 {
			d.off = 0
		}
		d.n = keep
		return rest
	}
	panic("mailbox: deque holds less than its count")
}
