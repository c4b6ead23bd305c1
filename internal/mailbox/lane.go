package mailbox

import (
	"emanet/internal/store"
)

// item is an entry in memory. It is 64 bytes, for millions of them may wait.
type item struct {
	store.Entry
	mark store.LSN // the LSN and some flags, which would cost 8 bytes on their own
}

const (
	durableMark store.LSN = 1 << 63
	sentMark    store.LSN = 1 << 62
	loanMark    store.LSN = 1 << 61
	againMark   store.LSN = 1 << 60
	marks                 = durableMark | sentMark | loanMark | againMark
)

func durableItem(e store.Entry, lsn store.LSN) item { return item{e, lsn | durableMark} }

// lsn is the batch that made it what it is; 0 when it waits for no flush.
func (it *item) lsn() store.LSN { return it.mark &^ marks }

func (it *item) setLSN(lsn store.LSN) { it.mark = it.mark&marks | lsn }

// durable: it is in the store, its settlement must be as well.
func (it *item) durable() bool { return it.mark&durableMark != 0 }

// sent: it was handed to a consumer before: DUP, redelivered.
func (it *item) sent() bool { return it.mark&sentMark != 0 }

func (it *item) setSent() { it.mark |= sentMark }

// loan: it is another mailbox's, which has it in flight, and in no store under its seq here. MessageID is then
// its seq there, and Deliveries the slot of the Member, so that other items are none the larger. It is neither
// dropped nor expired.
func (it *item) loan() bool { return it.mark&loanMark != 0 }

// again: it was sent by another member.
func (it *item) again() bool { return it.mark&againMark != 0 }

// itemOverhead is what an item costs beside its message: its place in a chunk.
const itemOverhead = 72

func (it *item) memory() int64 {
	if it.Message == nil {
		return itemOverhead
	}
	return itemOverhead + it.Message.Cost()
}

// lane is the ready entries of one priority.
type lane struct {
	priority uint8
	returned returned // was sent; neither dropped nor expired, and not counted by the bounds
	due      deque    // of a session: never sent, but within its consumer's window, so not dropped either
	head     deque    // never sent
	gap      gap
	tail     deque // only used while there is a gap
	// assigned is the highest seq ever handed out. Above it nothing lies outside due, head, gap and tail.
	assigned uint64
	// barrier is the batch that removed the front last. What stood behind it is sent after its flush only:
	// else a crash could bring the removed entry back behind what was sent (ADR 0002, R1).
	barrier store.LSN
	// asOf is the highest seq that was settled or altered behind what the pages showed at the last start. What
	// lies up to there does not leave memory: the pages may not know of it yet.
	asOf uint64
	// lastDrop is the batch that dropped from head last. Behind due that is no barrier yet: what frees the
	// credit to get there stands behind it in the journal (R2).
	lastDrop store.LSN
	// dropped is the highest seq dropped. What was due and is head's again lies below it, with a hole between.
	dropped uint64
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

// unsent is the first in memory of those never sent, or nil. (After a restart a redelivered one may stand
// among them, and says so itself.)
func (l *lane) unsent() *item {
	if it := l.due.front(); it != nil {
		return it
	}
	return l.head.front()
}

func (l *lane) popUnsent() item {
	if l.due.len() > 0 {
		return l.due.popFront()
	}
	return l.head.popFront()
}

// front is the next to go in memory, or nil: then, if there is a gap, it is to be loaded first.
func (l *lane) front() *item {
	it := l.unsent()
	if len(l.returned) > 0 && (it == nil || l.returned[0].Seq < it.Seq) {
		return &l.returned[0]
	}
	return it
}

// onlyOnDisk: the first that was never sent is to be loaded.
func (l *lane) onlyOnDisk() bool { return l.gap.count > 0 && l.unsent() == nil }

// closeGap joins tail to head once nothing lies between.
func (l *lane) closeGap() {
	if l.gap.count == 0 {
		l.head.join(&l.tail)
		l.gap = gap{}
	}
}

// returned is a binary heap by seq.
type returned []item

func (r *returned) push(it item) {
	*r = append(*r, it)
	r.up(len(*r) - 1)
}

func (r *returned) pop() item { return r.remove(0) }

// remove takes the i-th out.
func (r *returned) remove(i int) item {
	h := *r
	last := len(h) - 1
	it := h[i]
	h[i] = h[last]
	h[last] = item{} // the message may go
	*r = h[:last]
	switch {
	case last == 0 && cap(h) > keptChunk:
		*r = nil
	case i < last:
		r.down(i)
		r.up(i)
	}
	return it
}

func (r *returned) up(i int) {
	h := *r
	for i > 0 {
		parent := (i - 1) / 2
		if h[parent].Seq < h[i].Seq {
			return
		}
		h[parent], h[i] = h[i], h[parent]
		i = parent
	}
}

func (r *returned) down(i int) {
	h := *r
	for {
		child := 2*i + 1
		if child >= len(h) {
			return
		}
		if child+1 < len(h) && h[child+1].Seq < h[child].Seq {
			child++
		}
		if h[i].Seq < h[child].Seq {
			return
		}
		h[i], h[child] = h[child], h[i]
		i = child
	}
}
