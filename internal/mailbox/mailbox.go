// Package mailbox holds what waits for someone: an ordered list of entries (priority descending, then
// seq), each ready or in flight, with consumers that are handed entries up to their credit. MQTT sessions,
// AMQP queues and forward spools are all mailboxes; what differs is named in Policy.
//
// Locks. A method that takes a *store.Batch runs under the append lock, which the batch proves; the
// mailbox's own lock comes after it and covers memory only. Nothing here blocks but load, which reads
// pages on a goroutine of its own.
//
// Memory. A lane (one priority) is
//
//	returned | head | gap | tail
//
// in order of seq: what was in flight and came back; the next to go; what is only on disk; the newest.
// An entry enters at the tail (at the head while there is no gap), leaves memory into the gap when it is
// folded and memory is short (Evict), and is paged in at the head before it is due.
package mailbox

import (
	"fmt"
	"sync"

	"emanet/internal/store"
)

// Overflow says what happens when a bound is reached.
type Overflow uint8

const (
	// DropOldest drops ready entries from the front: the freshest matter (telemetry).
	DropOldest Overflow = iota
	// RejectNew refuses the new entry; the publisher is told.
	RejectNew
	// DeadLetterOldest is DropOldest, with the dropped entry moved to where the Host routes it.
	DeadLetterOldest
	// BackPressure refuses the new entry for now; the publisher is to wait.
	BackPressure
)

// Policy is what distinguishes one kind of mailbox from another. The zero Policy is a plain unbounded
// queue of this process's memory.
type Policy struct {
	// Durable mailboxes write their entries and settlements to the store.
	Durable bool
	// MaxEntries and MaxBytes bound what is ready (in flight comes on top: it is never dropped); 0 is no bound.
	MaxEntries uint64
	MaxBytes   int64
	Overflow   Overflow
	// Identifiers > 0: an entry's delivery key is seq mod Identifiers, and an entry whose key is still in
	// use waits. MQTT: 65,535, the packet identifier is key + 1. 0: the key is the seq.
	Identifiers uint64
	// CountDeliveries records each requeue, so that a delivery count survives a crash.
	CountDeliveries bool
	// SingleActive hands entries to the first consumer only.
	SingleActive bool
	// DeadLetterExpired moves what expired to where the Host routes it.
	DeadLetterExpired bool
	// TTL is given to each entry at Append, milliseconds; 0 is none. The message's own expiry counts as well.
	TTL int64
}

// Reason is why an entry left without having been settled by a consumer.
type Reason uint8

const (
	ReasonOverflow Reason = iota
	ReasonExpired
	ReasonPurged
	ReasonRejected
	Reasons // their number
)

func (r Reason) String() string {
	return [...]string{"overflow", "expired", "purged", "rejected"}[r]
}

// Host is what a mailbox needs from its owner. Its methods are called with the mailbox's lock held and
// must neither block nor call back into it.
type Host interface {
	// Now is the broker's clock, Unix ms.
	Now() int64
	// SweepAt asks that Sweep be called at about at (Unix ms); only the earliest wish counts.
	SweepAt(m *Mailbox, at int64)
	// Dropped tells of n entries that were removed for a reason, for counters and logs.
	Dropped(m *Mailbox, r Reason, n uint64)
	// DeadLetter moves an entry that is being dropped: the Host appends it elsewhere in the same batch.
	DeadLetter(b *store.Batch, m *Mailbox, e *store.Entry, r Reason)
	// LoadFailed tells that pages could not be read; the mailbox tries again at the next occasion.
	LoadFailed(m *Mailbox, err error)
}

// Mailbox is one ordered list of waiting entries. Create it with New or Restore.
type Mailbox struct {
	id     uint64
	policy Policy
	host   Host
	store  store.Store
	waiter store.Waiter // set once; told when a group with entries or settlements of ours is flushed

	mu        sync.Mutex
	nextSeq   uint64
	lanes     []*lane            // priority descending
	flights   map[uint64]*flight // by delivery key
	spare     []*flight          // freed, for reuse
	consumers []*Consumer        // consumer priority descending; rotation within one priority
	rotation  int
	settling  []settlement // in order of LSN
	ready     uint64       // entries of all lanes, gaps included
	bytes     int64        // their Cost
	memory    int64        // about the bytes that entries in memory occupy, in flight included
	sentHigh  uint64       // entries up to this seq were sent before a restart
	sentFirst int          // so many entries from the front were (attached at the crash)
	restored  uint64       // nextSeq at the restart: what came later was not sent before it
	sweepAt   int64        // when Sweep is due by what the host was told, 0 for never
	loading   bool
	purged    bool // Purge came while a load was under way: what it brings is void
	closed    bool
}

// flight is an entry that was handed to a consumer.
type flight struct {
	item
	consumer *Consumer
	settled  bool // its settlement waits for the flush; the key is not free before
}

// settlement is a key to be freed once lsn is flushed.
type settlement struct {
	key uint64
	lsn store.LSN
}

// New makes an empty mailbox; id is the store's (Batch.MailboxCreate), or 0 for one that is not durable.
func New(st store.Store, host Host, id uint64, p Policy) *Mailbox {
	if p.Durable != (id != 0) {
		panic("mailbox: durable mailboxes have an id, others none")
	}
	m := &Mailbox{id: id, policy: p, host: host, store: st, nextSeq: 1}
	m.waiter.F = m.flushed
	return m
}

// Sent tells what a restored mailbox's consumer had been sent before the restart: everything up to High
// and, when it was attached at a crash and nobody knows, the First entries from the front with seqs below
// Before (0: below the next seq).
type Sent struct {
	High   uint64
	First  int
	Before uint64
}

// Restore makes a mailbox from what the store found at start.
func Restore(st store.Store, host Host, s store.MailboxState, sent Sent, p Policy) *Mailbox {
	p.Durable = true
	m := New(st, host, s.ID, p)
	m.nextSeq = max(s.NextSeq, 1)
	m.restored, m.sentHigh, m.sentFirst = m.nextSeq, sent.High, sent.First
	if sent.Before != 0 {
		m.restored = min(sent.Before, m.nextSeq)
	}
	for i := range s.Lanes {
		m.restoreLane(&s.Lanes[i])
	}
	return m
}

func (m *Mailbox) restoreLane(s *store.LaneState) {
	l := m.lane(s.Priority)
	l.gap = gap{count: s.Count, bytes: s.Bytes, after: 0, before: m.nextSeq, gone: s.Gone, changed: s.Changed}
	m.ready += s.Count
	m.bytes += s.Bytes
	if len(s.Tail) > 0 {
		l.gap.before = s.Tail[0].Seq
	}
	for i := range s.Tail {
		it := item{Entry: s.Tail[i].Entry, lsn: s.Tail[i].LSN, durable: true}
		m.count(&it, +1)
		m.restoreItem(l, it)
	}
	m.wishSweepLocked()
}

// restoreItem places an entry met in order from the front. What was sent before the restart goes to
// returned, where nothing drops or expires it.
func (m *Mailbox) restoreItem(l *lane, it item) {
	if l.gap.count == 0 {
		m.markSent(&it)
	}
	if it.sent {
		l.giveBack(it)
		return
	}
	l.push(it)
}

// markSent notes on an entry met in order from the front whether it was sent before a restart.
func (m *Mailbox) markSent(it *item) {
	if m.sentFirst > 0 && it.Seq < m.restored {
		m.sentFirst--
		it.sent = true
	}
	it.sent = it.sent || it.Seq <= m.sentHigh
}

// count adds (+1) or removes (-1) an item of memory to what is ready.
func (m *Mailbox) count(it *item, sign int64) {
	m.ready += uint64(sign)
	m.bytes += sign * store.Cost(it.Message)
	m.memory += sign * it.memory()
}

// lane finds or makes the lane of a priority; there is nearly always one.
func (m *Mailbox) lane(priority uint8) *lane {
	for i, l := range m.lanes {
		if l.priority == priority {
			return l
		}
		if l.priority < priority {
			m.lanes = append(m.lanes, nil)
			copy(m.lanes[i+1:], m.lanes[i:])
			m.lanes[i] = &lane{priority: priority}
			return m.lanes[i]
		}
	}
	l := &lane{priority: priority}
	m.lanes = append(m.lanes, l)
	return l
}

// key is the delivery key of a seq.
func (m *Mailbox) key(seq uint64) uint64 {
	if m.policy.Identifiers > 0 {
		return seq % m.policy.Identifiers
	}
	return seq
}

// ID is the store's id, 0 when the mailbox is not durable.
func (m *Mailbox) ID() uint64 { return m.id }

// Durable tells whether publishes to it wait for a flush.
func (m *Mailbox) Durable() bool { return m.policy.Durable }

// Status is a snapshot for logs and metrics.
type Status struct {
	Ready, InFlight, NextSeq uint64
	Bytes, Memory            int64
	Consumers                int
}

// Status returns the mailbox's counts. Ready and InFlight together are the pending messages.
func (m *Mailbox) Status() Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	inFlight := uint64(len(m.flights) - len(m.settling))
	return Status{m.ready, inFlight, m.nextSeq, m.bytes, m.memory, len(m.consumers)}
}

// Close lets go of everything in memory; consumers get nothing more. The caller has deleted the mailbox
// from the store (Batch.MailboxDelete) when it was durable.
func (m *Mailbox) Close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	for _, c := range m.consumers {
		c.closed = true
		c.queue = nil
	}
	m.lanes, m.flights, m.consumers, m.settling = nil, nil, nil, nil
	m.ready, m.bytes, m.memory = 0, 0, 0
}

func (m *Mailbox) String() string { return fmt.Sprintf("mailbox %d", m.id) }
