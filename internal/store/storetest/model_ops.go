package storetest

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"emanet/internal/message"
	"emanet/internal/store"
)

// batch is a store.Batch with the state it leads to.
type batch struct {
	*store.Batch
	m       *model
	state   *State
	publish bool // messages are allowed
	notes   []string
}

func (b *batch) note(format string, args ...any) {
	b.notes = append(b.notes, fmt.Sprintf(format, args...))
}

func (b *batch) operation() {
	rng := b.m.rng
	switch n := rng.IntN(100); {
	case n < 40 && b.publish:
		b.publishOne()
	case n < 43 && b.publish:
		b.burst()
	case n < 60:
		b.settle()
	case n < 65:
		b.release()
	case n < 69:
		b.deliveries()
	case n < 74:
		b.move()
	case n < 80:
		b.record()
	case n < 84:
		b.retain()
	case n < 89:
		b.received()
	case n < 92:
		b.purge()
	case n < 94:
		b.deleteMailbox()
	case len(b.state.Mailboxes) < 5:
		id := b.MailboxCreate()
		if id <= b.m.lastBox && b.state.Mailboxes[id] != nil {
			b.m.tb.Fatalf("mailbox id %d was given twice", id)
		}
		b.m.lastBox = id
		b.state.Mailboxes[id] = newMailbox()
		b.note("create mailbox %d", id)
	}
}

// bodyMax bounds a payload.
const bodyMax = 8000

func (b *batch) message() *message.Message {
	rng := b.m.rng
	m := &message.Message{
		Topic: fmt.Sprintf("t/%d", rng.IntN(5)), ReceivedAt: rng.Int64N(1e12), QoS: uint8(1 + rng.IntN(2)),
		Payload: bytes.Repeat([]byte{byte(rng.IntN(256))}, rng.IntN(100)),
	}
	switch rng.IntN(12) {
	case 0, 3, 4:
		m.Payload = bytes.Repeat([]byte{byte(rng.IntN(256))}, rng.IntN(bodyMax))
	case 1:
		m.ExpiresAt = m.ReceivedAt + rng.Int64N(1e6)
	case 2:
		m.Properties = &message.Properties{
			HasContentType: true, ContentType: "x", HasCorrelation: true, Correlation: []byte{1, 0xff},
			User: []message.Pair{{Key: "k", Value: "v"}, {Key: "k", Value: "\xff"}},
		}
	}
	return m
}

// publishOne puts one message into some mailboxes, and perhaps retains it.
func (b *batch) publishOne() {
	boxes := slices.Sorted(maps.Keys(b.state.Mailboxes))
	if len(boxes) == 0 {
		return
	}
	rng, m := b.m.rng, b.message()
	var id uint64
	b.Message(m, &id)
	if id <= b.m.lastID && b.holds(id) {
		b.m.tb.Fatalf("message id %d was given twice", id)
	}
	b.m.lastID = id
	for _, box := range boxes {
		if rng.IntN(2) == 0 {
			continue
		}
		e := store.Entry{Attr: uint8(rng.IntN(4)), MessageID: id, Message: m}
		if rng.IntN(5) == 0 {
			e.Priority = uint8(rng.IntN(3))
		}
		if rng.IntN(6) == 0 {
			e.Tag = fmt.Sprint("tag", rng.IntN(3))
		}
		if rng.IntN(8) == 0 {
			e.ExpiresAt = 1 + rng.Int64N(1e13)
		}
		b.entry(box, e)
	}
	b.note("publish %d", id)
	if rng.IntN(6) == 0 {
		m.ID = id
		b.Retain(m, true)
		b.state.Retained[m.Topic] = render(m)
		b.note("retain it")
	}
}

// burst puts a run of small messages into one mailbox.
func (b *batch) burst() {
	boxes := slices.Sorted(maps.Keys(b.state.Mailboxes))
	if len(boxes) == 0 {
		return
	}
	box := boxes[b.m.rng.IntN(len(boxes))]
	for i := range 1 + b.m.rng.IntN(40) {
		m := &message.Message{Topic: "burst", Payload: fmt.Append(nil, i), ReceivedAt: 1}
		var id uint64
		b.Message(m, &id)
		b.m.lastID = id
		b.entry(box, store.Entry{MessageID: id, Message: m})
	}
	b.note("burst")
}

func (b *batch) holds(id uint64) bool {
	for _, m := range b.state.Mailboxes {
		for _, l := range m.Lanes {
			for _, e := range l {
				if e.MessageID == id {
					return true
				}
			}
		}
	}
	return false
}

// entry gives e the mailbox's next seq.
func (b *batch) entry(box uint64, e store.Entry) {
	m := b.state.Mailboxes[box]
	e.Seq = m.NextSeq
	m.NextSeq++
	b.Entry(box, &e)
	model := Entry{
		Attr: e.Attr, Released: e.Released, Deliveries: e.Deliveries, ExpiresAt: e.ExpiresAt, Tag: e.Tag,
		MessageID: e.MessageID, Message: render(e.Message), cost: store.Cost(e.Message),
	}
	if e.Released {
		model.MessageID = 0
	}
	m.lane(e.Priority)[e.Seq] = model
	b.note("entry %d/%d/%d", box, e.Priority, e.Seq)
}

// pick is some lane that is not empty, with its seqs in order.
func (b *batch) pick() (box uint64, priority uint8, seqs []uint64) {
	type lane struct {
		box      uint64
		priority uint8
	}
	var lanes []lane
	for _, id := range slices.Sorted(maps.Keys(b.state.Mailboxes)) {
		for _, p := range slices.Sorted(maps.Keys(b.state.Mailboxes[id].Lanes)) {
			if len(b.state.Mailboxes[id].Lanes[p]) > 0 {
				lanes = append(lanes, lane{id, p})
			}
		}
	}
	if len(lanes) == 0 {
		return 0, 0, nil
	}
	l := lanes[b.m.rng.IntN(len(lanes))]
	return l.box, l.priority, slices.Sorted(maps.Keys(b.state.Mailboxes[l.box].Lanes[l.priority]))
}

// settleRange takes what lies within r out of a lane.
func (b *batch) settleRange(box uint64, priority uint8, r store.SeqRange) {
	lane := b.state.Mailboxes[box].Lanes[priority]
	var count uint64
	var cost int64
	for seq, e := range lane {
		if r.From <= seq && seq <= r.To {
			count++
			cost += e.cost
			delete(lane, seq)
		}
	}
	if len(lane) == 0 {
		delete(b.state.Mailboxes[box].Lanes, priority)
	}
	b.Settle(box, priority, r, count, cost)
	b.note("settle %d/%d/%d-%d", box, priority, r.From, r.To)
}

// settle acknowledges: mostly from the front, sometimes anywhere, one or a run.
func (b *batch) settle() {
	box, priority, seqs := b.pick()
	if seqs == nil {
		return
	}
	rng := b.m.rng
	from := 0
	if rng.IntN(3) == 0 {
		from = rng.IntN(len(seqs))
	}
	to := min(from+rng.IntN(6), len(seqs)-1)
	b.settleRange(box, priority, store.SeqRange{From: seqs[from], To: seqs[to]})
}

func (b *batch) purge() {
	box, priority, seqs := b.pick()
	if seqs == nil || b.m.rng.IntN(2) != 0 {
		return
	}
	b.settleRange(box, priority, store.SeqRange{From: 0, To: b.state.Mailboxes[box].NextSeq - 1})
}

func (b *batch) release() {
	box, priority, seqs := b.pick()
	if seqs == nil {
		return
	}
	seq := seqs[b.m.rng.IntN(min(len(seqs), 5))]
	lane := b.state.Mailboxes[box].Lanes[priority]
	e := lane[seq]
	if e.Released {
		return
	}
	b.Release(box, priority, seq, e.cost)
	e.Released, e.Message, e.cost, e.MessageID = true, "", 0, 0
	lane[seq] = e
	b.note("release %d/%d/%d", box, priority, seq)
}

func (b *batch) deliveries() {
	box, priority, seqs := b.pick()
	if seqs == nil {
		return
	}
	seq := seqs[b.m.rng.IntN(len(seqs))]
	lane := b.state.Mailboxes[box].Lanes[priority]
	e := lane[seq]
	e.Deliveries++
	b.Deliveries(box, priority, seq, e.Deliveries)
	lane[seq] = e
	b.note("deliver %d/%d/%d", box, priority, seq)
}

// move takes an entry to another mailbox, or to the end of its own.
func (b *batch) move() {
	box, priority, seqs := b.pick()
	if seqs == nil {
		return
	}
	seq := seqs[b.m.rng.IntN(len(seqs))]
	e := b.state.Mailboxes[box].Lanes[priority][seq]
	if e.Released {
		return
	}
	boxes := slices.Sorted(maps.Keys(b.state.Mailboxes))
	to := boxes[b.m.rng.IntN(len(boxes))]
	m := b.state.Mailboxes[to]
	moved := e
	moved.Deliveries = uint32(b.m.rng.IntN(3))
	b.Entry(to, &store.Entry{
		Seq: m.NextSeq, Priority: priority, Attr: e.Attr, Deliveries: moved.Deliveries, ExpiresAt: e.ExpiresAt,
		Tag: e.Tag, MessageID: e.MessageID,
	})
	m.lane(priority)[m.NextSeq] = moved
	b.note("move %d/%d/%d to %d/%d", box, priority, seq, to, m.NextSeq)
	m.NextSeq++
	b.settleRange(box, priority, store.SeqRange{From: seq, To: seq})
}
