package journal

import (
	"errors"
	"fmt"
	"time"
)

// A RoomWaiter is told when a Begin that was refused would succeed. The fields are set
// before WaitRoom and left alone until F was called.
type RoomWaiter struct {
	Class Class
	Size  int    // one above MaxRecord waits for as much as MaxRecord
	F     func() // must neither block nor call Begin; the room may be gone when the caller comes for it

	next   *RoomWaiter
	queued bool
}

// roomQueue is refused appenders, first come, first told.
type roomQueue struct {
	front, back *RoomWaiter
}

func (q *roomQueue) push(w *RoomWaiter) {
	if q.front == nil {
		q.front = w
	} else {
		q.back.next = w
	}
	q.back = w
}

func (q *roomQueue) pop() *RoomWaiter {
	w := q.front
	q.front, w.next = w.next, nil
	return w
}

// A turn is kept for a large Publish record between telling its appender and its Commit: under steady publishes
// the room would be gone at once, every time.
type turn struct {
	size  int // 0: it is nobody's
	over  *time.Timer
	count uint64
}

// turnTime is for how long others give way to one that was told and does not come.
const turnTime = 50 * time.Millisecond

func (t *turn) end() {
	if t.size > 0 {
		t.size = 0
		t.over.Stop()
	}
}

func (j *Journal) giveTurnLocked(size int) {
	j.turn.count++
	n := j.turn.count
	j.turn.size = size
	j.turn.over = time.AfterFunc(turnTime, func() { j.turnOver(n) })
}

// turnOver goes on without the one whose turn it was.
func (j *Journal) turnOver(n uint64) {
	j.mu.Lock()
	var room *RoomWaiter
	if j.turn.size > 0 && j.turn.count == n && j.state == stateRunning {
		j.turn.end()
		room = j.roomFoundLocked()
	}
	j.mu.Unlock()
	tell(room)
}

// isLarge: such a record fits only when little else is unflushed, and would be overtaken for ever.
func (j *Journal) isLarge(size int) bool { return size > j.opt.UnflushedMax/2 }

// givesWayLocked tells whether a Publish record of size bytes must wait for others to go first. A record at least
// as large as the one whose turn it is passes for it.
func (j *Journal) givesWayLocked(size int) bool {
	if j.turn.size > 0 {
		return size < j.turn.size
	}
	first := j.room[Publish].front
	return j.room[Control].front != nil || first != nil && j.isLarge(first.Size)
}

// WaitRoom calls w.F once, as soon as Begin(w.Class, w.Size) would not answer ErrFull or
// ErrBusy: there is room, or the journal has failed or is closed. false: it is so now, and F
// is not called. One that is queued already stays queued, once. Those of a class are told in
// the order they came, and only as many as there is room for.
func (j *Journal) WaitRoom(w *RoomWaiter) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if w.queued {
		return true
	}
	err := j.admitLocked(w.Class, min(w.Size, j.MaxRecord()))
	if !errors.Is(err, ErrFull) && !errors.Is(err, ErrBusy) {
		return false
	}
	w.queued = true
	j.room[w.Class].push(w)
	return true
}

// roomFoundLocked takes those off the queues who have their room now: from the front, up to the first who
// has not. While anything is unflushed its flush looks again, and only those are told who have room beside
// each other. Else nobody may come to look again, and a waiter counted for may be gone: then all
// are told who would have room alone.
func (j *Journal) roomFoundLocked() *RoomWaiter {
	var found roomQueue
	again := j.unflushedLocked() > 0
	others := 0
	for _, c := range [...]Class{Control, Publish} {
		q := &j.room[c]
		for q.front != nil && (c == Control || j.turn.size == 0 && j.room[Control].front == nil) {
			size := min(q.front.Size, j.MaxRecord())
			if j.fitLocked(c, size, others) != nil {
				break
			}
			w := q.pop()
			w.queued = false
			found.push(w)
			if again {
				others += recordHeaderLen + size
			}
			if c == Publish && j.isLarge(size) {
				j.giveTurnLocked(size)
			}
		}
	}
	return found.front
}

func (j *Journal) takeRoomLocked() *RoomWaiter {
	j.turn.end()
	var all roomQueue
	for c := range j.room {
		for q := &j.room[c]; q.front != nil; {
			w := q.pop()
			w.queued = false
			all.push(w)
		}
	}
	return all.front
}

// tell calls a list of room waiters. The link is read first: F may lead to a new WaitRoom.
func tell(w *RoomWaiter) {
	for w != nil {
		next := w.next
		w.next = nil
		w.F()
		w = next
	}
}

// Release says that nothing up to upTo is needed any more: folded, and checkpointed. Segments
// wholly below it are recycled, the one that takes appends never. When there are any, one
// small write and flush come first: a segment half written over after a power cut must be known to be
// free, or it would pass for damage. An error is a failed journal.
func (j *Journal) Release(upTo LSN) error {
	j.headMu.Lock()
	defer j.headMu.Unlock()
	j.mu.Lock()
	if j.state != stateRunning {
		j.mu.Unlock()
		return j.refusal()
	}
	flushed := j.Flushed()
	upTo = min(upTo, flushed)
	n := 0
	for n < len(j.ring.live)-1 && j.ring.live[n].appended <= upTo {
		n++
	}
	if n == 0 {
		j.mu.Unlock()
		return nil
	}
	j.head.floor, j.head.time = j.ring.live[n-1].appended, j.time
	j.mu.Unlock()

	j.head.flushed = flushed
	if err := j.head.write(); err != nil {
		j.fail(err)
		return fmt.Errorf("release journal segments: %w", err)
	}

	j.mu.Lock()
	j.ring.freeSlots(j.ring.live[:n])
	j.ring.live = append(j.ring.live[:0], j.ring.live[n:]...)
	room := j.roomFoundLocked()
	j.mu.Unlock()
	tell(room)
	return nil
}

func (j *Journal) refusal() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.state == stateOpen {
		return nil // before Start nothing is recycled
	}
	return j.admitLocked(Control, 1)
}

// Stats is a snapshot.
type Stats struct {
	Segments, SegmentsFree      int
	Bytes, BytesUsed, Reserve   int64  // capacity, occupied by what is not released, kept for Control
	Unflushed                   int    // bytes
	Records, Groups, GroupBytes uint64 // flushed since Start
	// Sizes[i] of these groups had more than 2^(i-1) records, and at most 2^i; the last had more.
	Sizes [GroupSizes]uint64
}

// GroupSizes is the length of Stats.Sizes: up to 16,384 records each has its own, and the last has the rest.
const GroupSizes = 16

// Stats reads the counters.
func (j *Journal) Stats() Stats {
	j.mu.Lock()
	defer j.mu.Unlock()
	s := Stats{
		Segments:     len(j.ring.files),
		SegmentsFree: len(j.ring.free),
		Bytes:        int64(len(j.ring.files)) * j.ring.capacity(),
		Reserve:      j.reserveLocked(),
		Records:      j.count.records,
		Groups:       j.count.groups,
		GroupBytes:   j.count.groupBytes,
		Sizes:        j.count.sizes,
	}
	s.BytesUsed = s.Bytes - int64(len(j.ring.free))*j.ring.capacity()
	if j.gather != nil {
		s.Unflushed = j.unflushedLocked()
		s.BytesUsed -= max(j.roomLocked(), 0)
	}
	return s
}
