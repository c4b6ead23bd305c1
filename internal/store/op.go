package store

import (
	"encoding/binary"
	"fmt"
	"math"
)

// OpKind is the first byte of an operation in a record. Values are on disk: never renumber.
type OpKind uint8

// The operations, each written by the Batch method of its name.
const (
	OpMessage       OpKind = 1
	OpEntry         OpKind = 2
	OpSettle        OpKind = 3
	OpRelease       OpKind = 4
	OpDeliveries    OpKind = 5
	OpPut           OpKind = 6
	OpDelete        OpKind = 7
	OpRetain        OpKind = 8
	OpRetainLast    OpKind = 9
	OpUnretain      OpKind = 10
	OpReceived      OpKind = 11
	OpUnreceived    OpKind = 12
	OpMailboxCreate OpKind = 13
	OpMailboxDelete OpKind = 14
	OpDeletePrefix  OpKind = 15
)

// Op is one decoded operation; which fields count depends on Kind. Slices alias the record.
type Op struct {
	Kind    OpKind
	Mailbox uint64
	// Priority and Seq (Range.From) are those of an entry; Range that of a settlement.
	Priority uint8
	Range    SeqRange
	Count    uint64
	Bytes    int64
	// Entry's own
	Attr       uint8
	Released   bool
	Deliveries uint32
	ExpiresAt  int64
	Tag        []byte
	MessageID  uint64 // Message, Entry, RetainLast
	PacketID   uint16
	// Body is the stored form of a message: Message, Retain, RetainLast.
	Body []byte
	// Record's own; Key is also the topic of Unretain.
	RecordKind, Key, Value []byte
}

// Ops walks the operations of one record.
type Ops struct {
	rest     []byte
	lastID   uint64
	lastBody []byte
	op       Op
	err      error
}

// NewOps starts at the record's first operation.
func NewOps(record []byte) Ops { return Ops{rest: record} }

// Next decodes the next operation into Op and tells whether there was one.
func (o *Ops) Next() bool {
	if o.err != nil || len(o.rest) == 0 {
		return false
	}
	kind := OpKind(o.rest[0])
	o.rest = o.rest[1:]
	o.op = Op{Kind: kind}
	o.decode(kind)
	if o.err != nil {
		o.err = fmt.Errorf("%w: operation %d: %w", ErrCorrupt, kind, o.err)
		return false
	}
	return true
}

// Op is what Next decoded, valid until the next call.
func (o *Ops) Op() *Op { return &o.op }

// Err is set when the record was not well-formed; it wraps ErrCorrupt.
func (o *Ops) Err() error { return o.err }

var errShort = fmt.Errorf("it ends within a field")

func (o *Ops) decode(kind OpKind) {
	op := &o.op
	switch kind {
	case OpMessage:
		op.MessageID = o.uvarint()
		op.Body = o.body()
		o.lastID, o.lastBody = op.MessageID, op.Body
	case OpEntry:
		o.entry()
	case OpSettle:
		o.small()
		op.Range.To = op.Range.From + o.uvarint()
		op.Count = o.uvarint()
		op.Bytes = o.int63()
	case OpRelease:
		o.small()
		op.Bytes = o.int63()
	case OpDeliveries:
		o.small()
		op.Deliveries = uint32(o.uvarint())
	case OpPut:
		op.RecordKind, op.Key, op.Value = o.bytes(), o.bytes(), o.bytes()
	case OpDelete, OpDeletePrefix: // Key is then the prefix
		op.RecordKind, op.Key = o.bytes(), o.bytes()
	case OpRetain:
		op.Body = o.body()
	case OpRetainLast:
		op.MessageID, op.Body = o.lastID, o.lastBody
	case OpUnretain:
		op.Key = o.bytes()
	case OpReceived, OpUnreceived:
		op.Mailbox = o.uvarint()
		id := o.uvarint()
		if id > math.MaxUint16 {
			o.err = errShort
		}
		op.PacketID = uint16(id)
	case OpMailboxCreate, OpMailboxDelete:
		op.Mailbox = o.uvarint()
	default:
		o.err = fmt.Errorf("unknown kind")
	}
}

func (o *Ops) entry() {
	op := &o.op
	has := o.byte()
	op.Attr = o.byte()
	op.Mailbox = o.uvarint()
	op.Range.From = o.uvarint()
	op.Range.To = op.Range.From
	op.MessageID = o.lastID
	if has&entryHasPriority != 0 {
		op.Priority = o.byte()
	}
	if has&entryHasExpiry != 0 {
		op.ExpiresAt = o.int63()
	}
	if has&entryHasTag != 0 {
		op.Tag = o.bytes()
	}
	if has&entryOldMessage != 0 {
		op.MessageID = o.uvarint()
	}
	op.Released = has&entryReleased != 0
	if has&entryHasDeliveries != 0 {
		op.Deliveries = uint32(o.uvarint())
	}
}

func (o *Ops) small() {
	o.op.Priority = o.byte()
	o.op.Mailbox = o.uvarint()
	o.op.Range.From = o.uvarint()
	o.op.Range.To = o.op.Range.From
}

func (o *Ops) byte() byte {
	if len(o.rest) == 0 {
		o.err = errShort
		return 0
	}
	c := o.rest[0]
	o.rest = o.rest[1:]
	return c
}

func (o *Ops) uvarint() uint64 {
	v, n := binary.Uvarint(o.rest)
	if n <= 0 {
		o.err, o.rest = errShort, nil
		return 0
	}
	o.rest = o.rest[n:]
	return v
}

func (o *Ops) int63() int64 {
	v := o.uvarint()
	if v > math.MaxInt64 {
		o.err = errShort
		return 0
	}
	return int64(v)
}

func (o *Ops) bytes() []byte { return o.take(o.uvarint()) }

func (o *Ops) body() []byte {
	if len(o.rest) < 4 {
		o.err, o.rest = errShort, nil
		return nil
	}
	n := binary.LittleEndian.Uint32(o.rest)
	o.rest = o.rest[4:]
	return o.take(uint64(n))
}

func (o *Ops) take(n uint64) []byte {
	if n > uint64(len(o.rest)) {
		o.err, o.rest = errShort, nil
		return nil
	}
	b := o.rest[:n]
	o.rest = o.rest[n:]
	return b
}
