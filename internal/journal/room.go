package journal

import (
	"fmt"
)

// A RoomWaiter is told when a Begin that was refused would succeed. The fields are set
// before WaitRoom and left alone until F was called.
type RoomWaiter struct {
	Class Class
	Size  int
	F     func() // must neither block nor call Begin; the room may be gone when the caller comes for it

	next   *RoomWaiter
	queued bool
}

// WaitRoom calls w.F once, as soon as Begin(w.Class, w.Size) would not answer ErrFull or
// ErrBusy: there is room, or the journal has failed or is closed. false: it is so now, and F
// is not called. One that is queued already stays queued, once.
func (j *Journal) WaitRoom(w *RoomWaiter) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if w.queued {
		return true
	}
	if !j.refusedLocked(w) {
		return false
	}
	w.queued = true
	p := &j.room
	for *p != nil {
		p = &(*p).next
	}
	*p = w
	return true
}

func (j *Journal) refusedLocked(w *RoomWaiter) bool {
	switch j.admitLocked(w.Class, w.Size) {
	case ErrFull, ErrBusy:
		return true
	}
	return false
}

// roomFoundLocked takes those off the queue who would not be refused any more. All of them,
// though not all may fit: one passed over here might never be told.
func (j *Journal) roomFoundLocked() *RoomWaiter {
	var found *RoomWaiter
	into := &found
	for p := &j.room; *p != nil; {
		w := *p
		if j.refusedLocked(w) {
			p = &w.next
			continue
		}
		*p, w.next, w.queued = w.next, nil, false
		*into, into = w, &w.next
	}
	return found
}

func (j *Journal) takeRoomLocked() *RoomWaiter {
	all := j.room
	j.room = nil
	for w := all; w != nil; w = w.next {
		w.queued = false
	}
	return all
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
}

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
	}
	s.BytesUsed = s.Bytes - int64(len(j.ring.free))*j.ring.capacity()
	if j.gather != nil {
		s.Unflushed = j.unflushedLocked()
		s.BytesUsed -= max(j.roomLocked(), 0)
	}
	return s
}
