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
//	returned | due | head | gap | tail
//
// in order of seq, but that returned may reach behind the front of head: what was sent and came back; what
// is within a session's window; the next to go; what is only on disk; the newest.
// An entry enters at the tail (at the head while there is no gap), leaves memory into the gap when it is
// folded and memory is short (Evict), and is paged in at the head before it is due.
package mailbox

import (
	"fmt"
	"sync"
	"sync/atomic"

	"emanet/internal/message"
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
	// MaxEntries and MaxBytes bound what is ready and was never sent; 0 is no bound. What was sent comes on
	// top, for it is never dropped, and so do the first Credit entries of an attached session: if it is not
	// durable no more than some 256 KiB of them.
	MaxEntries uint64
	// MaxBytes counts topics and payloads; if the mailbox is not durable all that messages occupy in memory.
	MaxBytes int64
	Overflow Overflow
	// Identifiers > 0: an entry's delivery key is seq mod Identifiers, and an entry whose key is still in
	// use waits. MQTT: 65,535, the packet identifier is key + 1. Such a mailbox is a session: it has one
	// consumer at a time and one lane. 0: the key is the seq.
	Identifiers uint64
	// CountDeliveries records each requeue, so that a delivery count survives a crash.
	CountDeliveries bool
	// SingleActive hands entries to one consumer only, the first that came; when it leaves, to the next.
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

// Host is what a mailbox needs from its owner. Its methods may be called with the mailbox's lock held and,
// but for DeadLetter, must not call back into it; none may block.
type Host interface {
	// Now is the broker's clock, Unix ms.
	Now() int64
	// SweepAt asks that Sweep be called at about at (Unix ms); only the earliest wish counts.
	SweepAt(m *Mailbox, at int64)
	// Dropped tells of n entries that were removed for a reason, for counters and logs.
	Dropped(m *Mailbox, r Reason, n uint64)
	// DeadLetter moves an entry that is being dropped: the Host appends it elsewhere in the same batch. It
	// may be to this mailbox again; cycles are the Host's to break.
	DeadLetter(b *store.Batch, m *Mailbox, e *store.Entry, r Reason)
	// LoadFailed tells that pages could not be read; the mailbox tries again at the next occasion, for which
	// it asks by SweepAt.
	LoadFailed(m *Mailbox, err error)
}

// Mailbox is one ordered list of waiting entries. Create it with New or Restore.
type Mailbox struct {
	id     uint64
	policy Policy
	host   Host
	store  store.Store
	paging *paging
	waiter store.Waiter // set once; told when a group with entries or settlements of ours is flushed
	lend   func()       // set once, of a mailbox that has members in place of consumers: see Member
	// borrows and owes are set when this mailbox becomes a member, and when it borrows what is on disk.
	borrows, owes atomic.Bool

	mu        sync.Mutex
	nextSeq   uint64
	lanes     []*lane            // priority descending
	flights   map[uint64]*flight // by delivery key
	spare     []*flight          // freed, for reuse
	consumers []*Consumer        // in the order they came, with SingleActive the active one first
	turn      uint64             // counts assignments, for the rotation
	settling  []settlement       // in order of LSN
	ready     uint64             // entries of all lanes, gaps included
	bytes     int64              // their cost
	kept      uint64             // those of returned and due, which no bound counts
	keptBytes int64
	memory    int64  // about the bytes that entries in memory occupy, in flight included
	high      uint64 // highest seq known to have been sent, ever
	sentHigh  uint64 // entries up to this seq were sent before a restart
	sentFirst int    // so many entries more, from the front, may have been (attached at the crash)
	restored  uint64 // nextSeq at the restart: what came later was not sent before it
	sweepAt   int64  // when Sweep is due by what the host was told, 0 for never
	loading   *lane  // whose gap is being read, nil for none
	purged    bool   // Purge came while a load was under way: what it brings is void
	shrunk    bool   // Sweep removed entries, and the consumers were not told yet
	closed    bool

	// As a member of others.
	members      []*Member             // by slot
	waiters      int                   // of them, to be told of room
	untaken      int                   // lent or moved to us and not sent yet
	untakenBytes int64                 // what these occupy
	untakenHigh  uint64                // the newest there was; up to it they stay in memory
	moved        map[uint64]movedEntry // by seq
}

// flight is an entry that was handed to a consumer.
type flight struct {
	item
	consumer *Consumer
	taken    bool // by this consumer
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
	m := &Mailbox{id: id, policy: p, host: host, store: st, paging: &pagingDefaults, nextSeq: 1}
	m.waiter.F = m.flushed
	return m
}

// count adds (+1) or removes (-1) an item of memory to what is ready.
func (m *Mailbox) count(it *item, sign int64) {
	m.ready += uint64(sign)
	m.bytes += sign * m.cost(it.Message)
	m.memory += sign * it.memory()
}

// keep adds (+1) or removes (-1) an item of returned or due.
func (m *Mailbox) keep(it *item, sign int64) {
	m.kept += uint64(sign)
	m.keptBytes += sign * m.cost(it.Message)
}

// cost is what MaxBytes counts: on disk topic and payload, in memory all that the message occupies there.
func (m *Mailbox) cost(msg *message.Message) int64 {
	if m.policy.Durable || msg == nil {
		return store.Cost(msg)
	}
	return msg.Cost()
}

// giveBack puts an entry that was sent at its original position.
func (m *Mailbox) giveBack(l *lane, it item) {
	m.keep(&it, +1)
	l.returned.push(it)
	l.assigned = max(l.assigned, it.Seq)
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
// from the store (Batch.MailboxDelete) when it was durable. What was lent to it is its lender's again.
func (m *Mailbox) Close() {
	m.mu.Lock()
	back, orphans := m.owedLocked(), m.orphansLocked()
	m.closeLocked()
	m.mu.Unlock()
	giveBack(back)
	for mb, entries := range orphans {
		mb.owner.Orphaned(entries)
	}
}

func (m *Mailbox) closeLocked() {
	m.closed = true
	for _, c := range m.consumers {
		c.closed = true
		c.queue, c.unsent = nil, 0
	}
	m.lanes, m.flights, m.consumers, m.settling, m.spare = nil, nil, nil, nil, nil
	m.waiters, m.untaken, m.untakenBytes, m.moved = 0, 0, 0, nil
	m.ready, m.bytes, m.memory, m.kept, m.keptBytes = 0, 0, 0, 0, 0
}

func (m *Mailbox) String() string { return fmt.Sprintf("mailbox %d", m.id) }
