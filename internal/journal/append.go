package journal

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// A group is what one turn of the committer writes: usually one part, more when the
// records run over the end of a segment.
type group struct {
	buf     []byte
	parts   []part
	waiters []*Waiter
	number  uint64
	sparse  int // turns in a row that used little of buf
}

// A part is a group on disk: one write and one flush to one segment.
type part struct {
	seg   *segment
	off   int64 // in the segment
	at    int   // in group.buf
	end   int   // set when the part is closed
	count int
	first LSN
	prev  LSN
	fresh bool // begins its segment, whose header is written along
}

// place is where appends go. It is decided under the append lock, ahead of the committer,
// so that whatever Begin accepts has its room.
type place struct {
	seg *segment // nil before the very first record
	off int64    // where the next part begins
	seq uint64   // of the newest segment
	tip LSN      // last LSN appended
}

// set puts the place behind the last record found. There may be none: a cut can take the
// first group of a segment after everything before it was released.
func (p *place) set(r *ring, found *scan) {
	*p = place{off: r.bytes, seq: found.seq, tip: found.last}
	if n := len(found.live); n > 0 {
		p.seg, p.off = found.live[n-1], found.live[n-1].end
	}
}

// undo takes back one Begin.
type undo struct {
	place place
	buf   int // length of gather.buf
	parts int
	took  bool // a slot was taken from the ring
	turn  bool // this record is the one whose turn it was
	limit int  // length that gather.buf may grow to
}

// Begin takes the append lock and returns the group buffer, to which the caller appends one
// record's payload of at most size bytes; then it calls Commit or Abort. size is an upper
// bound: generous costs nothing but an earlier refusal.
//
// On an error nothing was taken: ErrFull, ErrBusy (both: see WaitRoom), ErrTooLarge,
// ErrFailed, ErrClosed.
func (j *Journal) Begin(c Class, size int) ([]byte, error) {
	if size <= 0 {
		panic("journal: Begin of an empty record")
	}
	if size > j.MaxRecord() {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, size, j.MaxRecord())
	}
	j.mu.Lock()
	if err := j.admitLocked(c, size); err != nil {
		j.mu.Unlock()
		return nil, err
	}
	g := j.gather
	j.undo = undo{place: j.place, buf: len(g.buf), parts: len(g.parts), turn: c == Publish && j.turn.size > 0}
	j.openPartLocked(recordHeaderLen + size)
	g.buf = slices.Grow(g.buf, recordHeaderLen+size)
	var header [recordHeaderLen]byte
	g.buf = append(g.buf, header[:]...)
	j.undo.limit = len(g.buf) + size
	return g.buf, nil
}

// Commit seals the record: buf is the slice that Begin returned, grown by the payload. It
// releases the lock and returns the record's LSN. An empty payload and one above the size
// given to Begin are the programmer's fault.
func (j *Journal) Commit(buf []byte) LSN {
	g := j.gather
	body := len(g.buf)
	if len(buf) <= body || len(buf) > j.undo.limit {
		panic(fmt.Sprintf("journal: Commit of a %d-byte record, size given to Begin was %d", len(buf)-body, j.undo.limit-body))
	}
	binary.LittleEndian.PutUint32(buf[body-recordHeaderLen+4:], uint32(len(buf)-body))
	g.buf = buf
	p := &g.parts[len(g.parts)-1]
	lsn := j.next
	if p.count == 0 {
		p.first, p.prev = lsn, j.tip
	}
	p.count++
	p.seg.appended = lsn
	j.tip = lsn
	j.next = lsn + 1
	j.appended.Store(uint64(lsn))
	if j.undo.turn {
		j.turn.end()
	}
	wake := j.idle
	j.idle = false
	j.mu.Unlock()
	if wake {
		j.wake <- struct{}{}
	}
	return lsn
}

// Abort drops what was appended since Begin and releases the lock. A Notify made in
// between stands: it is called with the next flush.
func (j *Journal) Abort() {
	g := j.gather
	clear(g.parts[j.undo.parts:])
	g.parts = g.parts[:j.undo.parts]
	g.buf = g.buf[:j.undo.buf]
	if n := len(g.parts); n > 0 {
		g.parts[n-1].end = 0 // open again, if this Begin closed it
	}
	if j.undo.took {
		n := len(j.ring.live) - 1
		j.ring.freeSlots(j.ring.live[n:])
		j.ring.live = j.ring.live[:n]
	}
	j.place = j.undo.place
	j.mu.Unlock()
}

// NextLocked is the LSN that Commit will return. Between Begin and Commit only.
func (j *Journal) NextLocked() LSN { return j.next }

// roomLocked is how many bytes of record a segment still takes behind what is appended.
func (j *Journal) roomLocked() int64 {
	if n := len(j.gather.parts); n > 0 {
		p := &j.gather.parts[n-1]
		return j.ring.bytes - p.off - int64(len(j.gather.buf)-p.at)
	}
	return j.ring.bytes - j.off - groupHeaderLen
}

// unflushedLocked is what was appended and is not on disk, bytes.
func (j *Journal) unflushedLocked() int {
	n := len(j.gather.buf)
	if j.flight != nil {
		n += len(j.flight.buf)
	}
	return n
}

// reserveLocked is what only Control may use, bytes.
func (j *Journal) reserveLocked() int64 { return int64(len(j.ring.files)) * j.ring.capacity() / 4 }

// admitLocked says whether a record of size bytes may be appended now.
func (j *Journal) admitLocked(c Class, size int) error {
	switch j.state {
	case stateRunning:
	case stateFailed:
		return fmt.Errorf("%w: %w", ErrFailed, j.failed)
	case stateClosed:
		return ErrClosed
	default:
		panic("journal: Begin before Start")
	}
	if c == Publish && j.givesWayLocked(size) {
		return ErrBusy
	}
	return j.fitLocked(c, size, 0)
}

// fitLocked says whether a record has its room behind what is appended and others bytes more.
func (j *Journal) fitLocked(c Class, size, others int) error {
	need := int64(recordHeaderLen + size)
	left := int64(len(j.ring.free))*j.ring.capacity() - int64(others)
	if room := j.roomLocked(); room >= alignUp(need) {
		left += room - need
	} else {
		left -= groupHeaderLen + need
	}
	if left < 0 || c == Publish && left < j.reserveLocked() {
		return ErrFull
	}
	unflushed, limit := j.unflushedLocked()+others, j.opt.UnflushedMax
	if c == Control {
		limit *= 2
	}
	// With next to nothing unflushed any record may go: one larger than the cap must not wait for ever, nor for
	// a moment without a single settlement.
	if unflushed > j.opt.UnflushedMax/8 && unflushed+int(need) > limit {
		return ErrBusy
	}
	return nil
}

// openPartLocked sees to it that the last part takes need more bytes.
func (j *Journal) openPartLocked(need int) {
	g := j.gather
	if j.roomLocked() >= int64(alignUp(need)) {
		if len(g.parts) > 0 {
			return
		}
		g.parts = append(g.parts, part{seg: j.seg, off: j.off})
		g.buf = append(g.buf, zeros[:groupHeaderLen]...)
		return
	}
	g.closePart()
	seg := &segment{slot: j.ring.free[0], seq: j.seq + 1, prev: j.tip, appended: j.tip, last: j.tip, end: segmentHeaderLen}
	j.ring.free = slices.Delete(j.ring.free, 0, 1)
	j.ring.live = append(j.ring.live, seg)
	j.undo.took = true
	j.seg, j.seq, j.off = seg, seg.seq, 0
	g.parts = append(g.parts, part{seg: seg, at: len(g.buf), fresh: true})
	g.buf = append(g.buf, zeros[:segmentHeaderLen+groupHeaderLen]...)
}

var zeros [segmentHeaderLen + groupHeaderLen]byte

// closePart pads the last part, if there is one.
func (g *group) closePart() {
	if n := len(g.parts); n > 0 {
		p := &g.parts[n-1]
		p.end = len(g.buf)
		// The padding may reach into the next part's place in buf, never into its bytes on disk.
		g.buf = append(g.buf, zeros[:alignUp(p.end-p.at)-(p.end-p.at)]...)
	}
}
