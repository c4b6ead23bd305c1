package mailbox

import (
	"fmt"
	"maps"
	"slices"
	"sort"

	"emanet/internal/message"
	"emanet/internal/store"
)

// contents is what a sequence of batches leaves.
type contents struct {
	boxes       map[uint64]*box
	bodies      map[uint64]*body
	nextMessage uint64
	nextMailbox uint64
}

type body struct {
	message *message.Message
	refs    int
}

// box is one mailbox. Entries are never changed, only replaced.
type box struct {
	next    uint64
	entries map[uint64]*store.Entry
	order   map[uint8][]uint64 // seqs per priority, settled ones too
}

func newContents() *contents {
	return &contents{boxes: map[uint64]*box{}, bodies: map[uint64]*body{}, nextMessage: 1, nextMailbox: 1}
}

func newBox() *box {
	return &box{next: 1, entries: map[uint64]*store.Entry{}, order: map[uint8][]uint64{}}
}

func (c *contents) clone() *contents {
	n := *c
	n.boxes, n.bodies = map[uint64]*box{}, map[uint64]*body{}
	for id, b := range c.boxes {
		nb := &box{next: b.next, entries: maps.Clone(b.entries), order: map[uint8][]uint64{}}
		for p, o := range b.order {
			nb.order[p] = slices.Clone(o)
		}
		n.boxes[id] = nb
	}
	for id, b := range c.bodies {
		nb := *b
		n.bodies[id] = &nb
	}
	return &n
}

// walk shows the live entries of a lane within from..to, ascending, until f says false.
func (b *box) walk(priority uint8, from, to uint64, f func(*store.Entry) bool) {
	order := b.order[priority]
	for _, seq := range order[sort.Search(len(order), func(i int) bool { return order[i] >= from }):] {
		if seq > to {
			return
		}
		if e := b.entries[seq]; e != nil && !f(e) {
			return
		}
	}
}

func require(ok bool, format string, args ...any) {
	if !ok {
		panic("fake store: " + fmt.Sprintf(format, args...))
	}
}

// apply checks and applies a batch.
func (c *contents) apply(ops []byte) {
	o := store.NewOps(ops)
	for o.Next() {
		c.applyOp(o.Op())
	}
	require(o.Err() == nil, "%v", o.Err())
}

// deref lets a body go with its last entry: whatever refers to it must come before in the batch.
func (c *contents) deref(id uint64) {
	b := c.bodies[id]
	if b.refs--; b.refs == 0 {
		delete(c.bodies, id)
	}
}

func (c *contents) applyOp(op *store.Op) {
	switch op.Kind {
	case store.OpMailboxCreate:
		c.boxes[op.Mailbox] = newBox()
		c.nextMailbox = op.Mailbox + 1
		return
	case store.OpMailboxDelete:
		delete(c.boxes, op.Mailbox)
		return
	case store.OpMessage:
		msg, err := message.Decode(op.Body)
		require(err == nil, "message: %v", err)
		msg.ID = op.MessageID
		c.bodies[op.MessageID] = &body{message: msg}
		c.nextMessage = op.MessageID + 1
		return
	case store.OpPut: // the broker's records; the model keeps its own
		return
	}
	b := c.boxes[op.Mailbox]
	require(b != nil, "operation %d on mailbox %d, which is not there", op.Kind, op.Mailbox)
	seq := op.Range.From
	e := b.entries[seq]
	if op.Kind != store.OpEntry && op.Kind != store.OpSettle {
		require(e != nil && e.Priority == op.Priority, "operation %d on entry %d, which is not live in lane %d", op.Kind, seq, op.Priority)
	}
	switch op.Kind {
	case store.OpEntry:
		c.addEntry(b, op)
	case store.OpSettle:
		c.settle(b, op)
	case store.OpRelease:
		require(!e.Released && op.Bytes == store.Cost(e.Message), "release of entry %d (released: %v) of %d bytes", seq, e.Released, op.Bytes)
		n := *e
		n.Released, n.Message = true, nil
		b.entries[seq] = &n
		c.deref(e.MessageID)
	case store.OpDeliveries:
		n := *e
		n.Deliveries = op.Deliveries
		b.entries[seq] = &n
	default:
		require(false, "operation %d", op.Kind)
	}
}

func (c *contents) addEntry(b *box, op *store.Op) {
	seq := op.Range.From
	require(seq >= b.next, "entry %d given again", seq)
	b.next = seq + 1
	msg := c.bodies[op.MessageID]
	require(msg != nil, "entry %d refers to message %d, which is gone", seq, op.MessageID)
	msg.refs++
	b.entries[seq] = &store.Entry{
		Seq: seq, Priority: op.Priority, Attr: op.Attr, Deliveries: op.Deliveries, ExpiresAt: op.ExpiresAt,
		Tag: string(op.Tag), MessageID: op.MessageID, Message: msg.message,
	}
	b.order[op.Priority] = append(b.order[op.Priority], seq)
}

// settle insists on an exact count: a fold and a restart believe it.
func (c *contents) settle(b *box, op *store.Op) {
	var gone []*store.Entry
	var bytes int64
	b.walk(op.Priority, op.Range.From, op.Range.To, func(e *store.Entry) bool {
		gone = append(gone, e)
		bytes += store.Cost(e.Message)
		return true
	})
	require(uint64(len(gone)) == op.Count, "settlement of %d entries in %v, there are %d", op.Count, op.Range, len(gone))
	require(bytes == op.Bytes, "settlement of %d bytes in %v, there are %d", op.Bytes, op.Range, bytes)
	require(b.entries[op.Range.From] != nil || op.Count > 0, "empty settlement %v", op.Range)
	for _, e := range gone {
		delete(b.entries, e.Seq)
		if e.Message != nil {
			c.deref(e.MessageID)
		}
	}
}

// addPage notes an entry of a page in the state found at start; now is what became of it since, nil if it
// was settled.
func addPage(ls *store.LaneState, now, then *store.Entry) {
	if ls.First == 0 {
		ls.First = then.Seq
	}
	ls.Last = then.Seq
	if now == nil {
		n := len(ls.Gone)
		if n > 0 && ls.Gone[n-1].To+1 == then.Seq {
			ls.Gone[n-1].To = then.Seq
		} else {
			ls.Gone = append(ls.Gone, store.SeqRange{From: then.Seq, To: then.Seq})
		}
		return
	}
	ls.Count++
	ls.Bytes += store.Cost(now.Message)
	if now.Released != then.Released || now.Deliveries != then.Deliveries {
		ls.Changed = append(ls.Changed, store.EntryChange{Seq: now.Seq, Released: now.Released, Deliveries: now.Deliveries})
	}
}
