// Package store is the contract between the broker and whatever keeps its state.
//
// Principles, in the order in which they win:
//
//  1. State changes only by batches. A batch is a list of operations (Op) that becomes durable whole or
//     not at all, at one LSN. Whoever answers a client for it waits until Flushed reaches that LSN.
//  2. Begin takes the append lock: what the caller changes in memory between Begin and Commit is seen by
//     others in the same order in which it will stand on disk. Nothing in between may block.
//  3. The engine gives back, at Load, exactly the state after some prefix of the committed batches that
//     holds every flushed one.
//  4. Callers are right: an engine checks sizes and its own files, not the sense of an operation (a
//     settlement names entries that exist, ids and seqs are given once).
//  5. The store knows entries, messages and records by key; what a session or a queue means is the
//     broker's. Record values are JSON, so that the files explain themselves to any SQLite tool.
//
// An engine passes storetest.Run.
package store

import (
	"errors"

	"emanet/internal/journal"
	"emanet/internal/message"
)

// LSN numbers batches, strictly rising over the life of a data directory. 0 is before all of them.
type LSN = journal.LSN

// Waiter is told when a group is flushed; see Store.Notify.
type Waiter = journal.Waiter

// RoomWaiter is told when a refused Begin would succeed; see Store.NotifyRoom.
type RoomWaiter = journal.RoomWaiter

// Class says what a batch may do when room is short.
type Class = journal.Class

const (
	// Publish batches are refused while only the reserve is left or too much waits for its flush.
	Publish = journal.Publish
	// Control batches (settlements, deletes, topology) may use the reserve, so that a full store can drain.
	Control = journal.Control
)

var (
	// ErrFull: only the reserve is left; ask NotifyRoom. It is the journal's state, not the batch's fault.
	ErrFull = journal.ErrFull
	// ErrBusy: more unflushed bytes than the cap; ask NotifyRoom.
	ErrBusy = journal.ErrBusy
	// ErrTooLarge: this batch can never be stored.
	ErrTooLarge = journal.ErrTooLarge
	// ErrFailed: a write or flush failed; no batch will ever be durable again in this process.
	ErrFailed = journal.ErrFailed
	// ErrClosed: after Close.
	ErrClosed = journal.ErrClosed
	// ErrCorrupt is wrapped by errors about damaged files; they name the file and the offset or row.
	ErrCorrupt = errors.New("stored data is damaged")
	// ErrFormat: the directory was written by a newer emanet.
	ErrFormat = errors.New("data directory has a newer format")
	// ErrLocked: another process uses the directory.
	ErrLocked = errors.New("data directory is in use by another process")
)

// Store is what the broker sees. All methods are safe for concurrent use but Load and Start, which come
// once and first, in this order.
type Store interface {
	// Load hands out the state as of the last batch found on disk.
	Load(Loader) error
	// Start makes what Load read durable (a killed process may have left pages that only the page cache
	// has) and opens the store for batches. Nobody may be answered before.
	Start() error

	// LastTime is the newest wall time found on disk by Load, Unix ms, 0 for none: the broker's clock never
	// starts before it.
	LastTime() int64

	// Begin takes the append lock and returns the batch to fill; the caller ends it by Commit or Abort.
	// size is an upper bound of the bytes it will take (Batch methods say theirs). On error no lock is held.
	Begin(c Class, size int) (*Batch, error)
	// Notify, called between Begin and Commit, has w.F called once after this batch's group is flushed.
	// The same Waiter given several times in one group is called once. F must not block.
	Notify(w *Waiter)
	// NotifyTail has w.F called once when everything appended so far is flushed; false: it is already, and
	// w is not called. Not between Begin and Commit.
	NotifyTail(w *Waiter) bool
	// NotifyRoom has w.F called once when Begin(w.Class, w.Size) has a chance again after ErrFull or ErrBusy,
	// at once if it has already.
	NotifyRoom(w *RoomWaiter)
	// Flushed is the highest durable LSN; Appended the highest given.
	Flushed() LSN
	Appended() LSN

	// ReadEntries returns up to limit live entries of a lane with after < seq < before, ascending, with
	// their messages, and ends after the first with which the messages' Cost comes to bytes: one at least,
	// whatever its size. It sees what is folded; entries not yet folded are in their mailbox's memory.
	ReadEntries(mailbox uint64, priority uint8, after, before uint64, limit int, bytes int64) ([]Entry, error)
	// OnFold sets the function told the LSN up to which everything is folded: from then on, entries of
	// batches up to it may leave memory, for ReadEntries finds them.
	OnFold(func(LSN))
	// Sync folds everything appended so far and returns when it is done. For tests, backups and Close.
	Sync() error

	// Alarms lists, in words, what is wrong but not fatal (folding fails, disk low); empty is healthy.
	Alarms() []string
	// Failed is closed when the store can acknowledge nothing any more; Err then says why.
	Failed() <-chan struct{}
	Err() error
	Stats() Stats
	// Close folds what can be folded and releases the directory. Without it nothing acknowledged is lost.
	Close() error
}

// Stats are counters and gauges for the metrics page.
type Stats struct {
	Appended, Flushed, Folded LSN
	Groups                    uint64    // flushes of the journal
	GroupBytes                uint64    // bytes written by them
	FlushSeconds              Histogram // duration of a flush
	GroupBatches              Histogram // batches that shared one
	JournalUsed               int64     // bytes not yet recyclable
	JournalTotal              int64
	Folds                     uint64
	FoldSeconds               float64 // total
	FoldedOps                 uint64
	WALBytes                  int64
	DatabaseBytes             int64
}

// Histogram is cumulative: Counts[i] observations were <= Bounds[i]; Count includes the rest.
type Histogram struct {
	Bounds []float64
	Counts []uint64
	Count  uint64
	Sum    float64
}

// Entry is one message waiting in one mailbox.
type Entry struct {
	Seq      uint64
	Priority uint8
	// Attr holds bits of the protocol that owns the mailbox; the store keeps them.
	Attr uint8
	// Released: the body was let go (QoS 2 after PUBREC), the entry stays until it is settled.
	Released bool
	// Deliveries counts deliveries that were recorded by Batch.Deliveries.
	Deliveries uint32
	// ExpiresAt is this mailbox's own deadline for the entry, Unix ms, 0 for none (queue TTL).
	ExpiresAt int64
	// Tag is an opaque note of the protocol (MQTT: the matching subscription identifiers).
	Tag string
	// MessageID names the body; Message is nil when Released.
	MessageID uint64
	Message   *message.Message
}

// Cost is what bounds by bytes count for an entry: its topic and payload.
func Cost(m *message.Message) int64 {
	if m == nil {
		return 0
	}
	return int64(len(m.Topic) + len(m.Payload))
}

// Loader takes the state at start. Values must not be kept unless said; entries and messages may.
type Loader interface {
	// Record is a topology record, its newest value.
	Record(kind, key string, value []byte) error
	// Retained is the retained message of a topic.
	Retained(*message.Message) error
	// Mailbox is a mailbox with all its lanes, also when it is empty.
	Mailbox(MailboxState) error
}

// MailboxState is a mailbox as found at start.
type MailboxState struct {
	ID      uint64
	NextSeq uint64
	// Received are the inbound QoS 2 packet ids not yet released by the publisher.
	Received []uint16
	Lanes    []LaneState
}

// LaneState is one priority of a mailbox. Live entries are those of the pages (Count of them, first to
// last seq within [First, Last]) that are not in Gone, and Tail, whose seqs are all above Last.
type LaneState struct {
	Priority    uint8
	Count       uint64 // live entries in pages, those in Gone not counted
	Bytes       int64  // their Cost
	First, Last uint64 // 0, 0 when there are none
	// Gone are seqs settled after the last fold; pages may still show them. Ascending, disjoint.
	Gone []SeqRange
	// Changed are entries of pages whose Released or Deliveries are newer than the page. Ascending.
	Changed []EntryChange
	// Tail are entries newer than the last fold, whole, ascending.
	Tail []TailEntry
}

// SeqRange is From..To, both included.
type SeqRange struct{ From, To uint64 }

// EntryChange is a change of an entry that is on a page.
type EntryChange struct {
	Seq        uint64
	Released   bool
	Deliveries uint32
}

// TailEntry is an entry that is only in the journal as yet, with its batch's LSN.
type TailEntry struct {
	Entry
	LSN LSN
}
