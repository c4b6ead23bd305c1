package store

import (
	"encoding/binary"

	"emanet/internal/message"
)

// Sealer is the engine's end of a batch.
type Sealer interface {
	// Commit appends the record buf ends with (from its old length on) and releases the append lock.
	Commit(buf []byte) LSN
	// Abort forgets it and releases the append lock.
	Abort()
}

// Batch collects the operations of one durable change. An engine owns one and hands it out under the
// append lock: its methods cost an append of a few bytes each and never fail. Sizes are in SizeXxx.
type Batch struct {
	buf         []byte
	base        int // length of buf before this batch
	lsn         LSN
	sealer      Sealer
	nextMessage uint64 // id the next Message gets
	nextMailbox uint64 // id the next MailboxCreate gets
	lastMessage uint64 // id of the last Message in this batch, the base of entries' references
}

// NewBatch is for engines: one batch reused for all, its id counters going on from what Load found.
func NewBatch(s Sealer, nextMessage, nextMailbox uint64) *Batch {
	return &Batch{sealer: s, nextMessage: max(nextMessage, 1), nextMailbox: max(nextMailbox, 1)}
}

// Reset is for engines: the batch now appends to buf and will be committed as lsn.
func (b *Batch) Reset(buf []byte, lsn LSN) {
	b.buf, b.base, b.lsn, b.lastMessage = buf, len(buf), lsn, 0
}

// LSN is the number that Commit will return.
func (b *Batch) LSN() LSN { return b.lsn }

// Commit ends the batch: it returns its LSN, or 0 when it holds nothing and there is nothing to wait for.
// The append lock is released.
func (b *Batch) Commit() LSN {
	buf := b.buf
	b.buf = nil
	if len(buf) == b.base {
		b.sealer.Abort()
		return 0
	}
	return b.sealer.Commit(buf)
}

// Abort ends the batch without a trace. Ids given by it may be given again.
func (b *Batch) Abort() { b.buf = nil; b.sealer.Abort() }

// Upper bounds of what operations take; strings and bodies come on top.
const (
	SizeMessage = 24 // + message.EncodedMax
	SizeEntry   = 64 // + len(tag)
	SizeSettle  = 64
	SizeRecord  = 32 // + kind, key, value
	SizeSmall   = 40 // any other operation
)

// Message adds a body and gives it its ID. Entries of the same batch refer to it cheaply.
func (b *Batch) Message(m *message.Message, id *uint64) {
	*id = b.nextMessage
	b.lastMessage = b.nextMessage
	b.nextMessage++
	b.buf = append(b.buf, byte(OpMessage))
	b.buf = binary.AppendUvarint(b.buf, *id)
	b.buf = appendMessage(b.buf, m)
}

// appendMessage writes the length in four bytes first, for the body's size is only known afterwards.
func appendMessage(buf []byte, m *message.Message) []byte {
	at := len(buf)
	buf = append(buf, 0, 0, 0, 0)
	buf = m.Append(buf)
	binary.LittleEndian.PutUint32(buf[at:], uint32(len(buf)-at-4))
	return buf
}

const (
	entryHasPriority = 1 << iota
	entryHasExpiry
	entryHasTag
	entryOldMessage // refers to a message of an earlier batch: a move
	entryReleased
	entryHasDeliveries
)

// Entry puts e into a mailbox: its Seq is the mailbox's next. e.MessageID must be of this batch's last
// Message or of a message that an entry still holds (a move settles that one in the same batch).
func (b *Batch) Entry(mailbox uint64, e *Entry) {
	var has byte
	if e.Priority != 0 {
		has |= entryHasPriority
	}
	if e.ExpiresAt != 0 {
		has |= entryHasExpiry
	}
	if e.Tag != "" {
		has |= entryHasTag
	}
	if e.MessageID != b.lastMessage {
		has |= entryOldMessage
	}
	if e.Released {
		has |= entryReleased
	}
	if e.Deliveries != 0 {
		has |= entryHasDeliveries
	}
	b.buf = append(b.buf, byte(OpEntry), has, e.Attr)
	b.buf = binary.AppendUvarint(b.buf, mailbox)
	b.buf = binary.AppendUvarint(b.buf, e.Seq)
	if has&entryHasPriority != 0 {
		b.buf = append(b.buf, e.Priority)
	}
	if has&entryHasExpiry != 0 {
		b.buf = binary.AppendUvarint(b.buf, uint64(e.ExpiresAt))
	}
	if has&entryHasTag != 0 {
		b.buf = appendString(b.buf, e.Tag)
	}
	if has&entryOldMessage != 0 {
		b.buf = binary.AppendUvarint(b.buf, e.MessageID)
	}
	if has&entryHasDeliveries != 0 {
		b.buf = binary.AppendUvarint(b.buf, uint64(e.Deliveries))
	}
}

// Settle removes the live entries of a lane within r: count of them, bytes of Cost in all.
func (b *Batch) Settle(mailbox uint64, priority uint8, r SeqRange, count uint64, bytes int64) {
	b.small(OpSettle, mailbox, priority, r.From)
	b.buf = binary.AppendUvarint(b.buf, r.To-r.From)
	b.buf = binary.AppendUvarint(b.buf, count)
	b.buf = binary.AppendUvarint(b.buf, uint64(bytes))
}

// Release lets the body of an entry go; the entry stays, Released, until it is settled. bytes is its Cost.
func (b *Batch) Release(mailbox uint64, priority uint8, seq uint64, bytes int64) {
	b.small(OpRelease, mailbox, priority, seq)
	b.buf = binary.AppendUvarint(b.buf, uint64(bytes))
}

// Deliveries records how often an entry was delivered.
func (b *Batch) Deliveries(mailbox uint64, priority uint8, seq uint64, n uint32) {
	b.small(OpDeliveries, mailbox, priority, seq)
	b.buf = binary.AppendUvarint(b.buf, uint64(n))
}

func (b *Batch) small(op OpKind, mailbox uint64, priority uint8, seq uint64) {
	b.buf = append(b.buf, byte(op), priority)
	b.buf = binary.AppendUvarint(b.buf, mailbox)
	b.buf = binary.AppendUvarint(b.buf, seq)
}

// Put sets a topology record. value is JSON.
func (b *Batch) Put(kind, key string, value []byte) {
	b.buf = append(b.buf, byte(OpPut))
	b.buf = appendString(b.buf, kind)
	b.buf = appendString(b.buf, key)
	b.buf = binary.AppendUvarint(b.buf, uint64(len(value)))
	b.buf = append(b.buf, value...)
}

// Delete removes a topology record; one that is not there is no error.
func (b *Batch) Delete(kind, key string) {
	b.buf = append(b.buf, byte(OpDelete))
	b.buf = appendString(b.buf, kind)
	b.buf = appendString(b.buf, key)
}

// DeletePrefix removes all topology records of a kind whose keys begin with prefix.
func (b *Batch) DeletePrefix(kind, prefix string) {
	b.buf = append(b.buf, byte(OpDeletePrefix))
	b.buf = appendString(b.buf, kind)
	b.buf = appendString(b.buf, prefix)
}

// Retain makes m its topic's retained message. When m is this batch's last Message the body is not
// written again.
func (b *Batch) Retain(m *message.Message, sameAsLast bool) {
	if sameAsLast {
		b.buf = append(b.buf, byte(OpRetainLast))
		return
	}
	b.buf = append(b.buf, byte(OpRetain))
	b.buf = appendMessage(b.buf, m)
}

// Unretain removes a topic's retained message.
func (b *Batch) Unretain(topic string) {
	b.buf = append(b.buf, byte(OpUnretain))
	b.buf = appendString(b.buf, topic)
}

// Received remembers an inbound QoS 2 packet id of the session that owns the mailbox; Unreceived forgets it.
func (b *Batch) Received(mailbox uint64, packetID uint16) { b.packetID(OpReceived, mailbox, packetID) }
func (b *Batch) Unreceived(mailbox uint64, packetID uint16) {
	b.packetID(OpUnreceived, mailbox, packetID)
}

func (b *Batch) packetID(op OpKind, mailbox uint64, id uint16) {
	b.buf = append(b.buf, byte(op))
	b.buf = binary.AppendUvarint(b.buf, mailbox)
	b.buf = binary.AppendUvarint(b.buf, uint64(id))
}

// MailboxCreate makes an empty mailbox and returns its id, which is never given again.
func (b *Batch) MailboxCreate() uint64 {
	id := b.nextMailbox
	b.nextMailbox++
	b.buf = append(b.buf, byte(OpMailboxCreate))
	b.buf = binary.AppendUvarint(b.buf, id)
	return id
}

// MailboxDelete removes a mailbox with all its entries and received ids.
func (b *Batch) MailboxDelete(id uint64) {
	b.buf = append(b.buf, byte(OpMailboxDelete))
	b.buf = binary.AppendUvarint(b.buf, id)
}

func appendString(dst []byte, s string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(s)))
	return append(dst, s...)
}
