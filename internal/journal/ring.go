package journal

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"emanet/internal/disk"
)

// A segment is a slot of the ring that holds records. Fields are guarded by the append
// lock once the journal runs.
type segment struct {
	slot     int
	seq      uint64
	prev     LSN   // last LSN before this segment
	appended LSN   // last LSN appended, prev if none
	last     LSN   // last LSN flushed, prev if none
	end      int64 // offset behind the last flushed group
}

// ring is the fixed set of preallocated segment files. Names never change: recycling
// a segment is writing over it, which leaves the directory alone.
type ring struct {
	fs    disk.FS
	dir   string
	seal  seal
	bytes int64       // size of a segment
	files []disk.File // by slot
	live  []*segment  // holding records not released, oldest first; the last one takes the appends
	free  []int       // slots, ascending
}

func slotName(slot int) string { return fmt.Sprintf("%04d.seg", slot) }

func (r *ring) name(slot int) string { return filepath.Join(r.dir, slotName(slot)) }

// capacity is what a segment takes: groups with their headers.
func (r *ring) capacity() int64 { return r.bytes - segmentHeaderLen }

// openSlot opens a file the head speaks of and checks its size.
func (r *ring) openSlot(slot int) error {
	name := r.name(slot)
	f, err := r.fs.OpenFile(name, 0)
	if errors.Is(err, disk.ErrNotExist) {
		return &CorruptError{File: name, Reason: "segment file is missing"}
	}
	if err != nil {
		return err
	}
	size, err := f.Size()
	if err == nil && size != r.bytes {
		err = &CorruptError{File: name, Offset: min(size, r.bytes),
			Reason: fmt.Sprintf("segment file has %d bytes, not %d", size, r.bytes)}
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	r.files = append(r.files, f)
	return nil
}

// addSlot makes one more segment file: zeros, flushed, with the header of a segment never
// used, so that a header wiped later is told from one never written. SyncDir and the head are the caller's.
func (r *ring) addSlot() error {
	slot := len(r.files)
	name := r.name(slot)
	// An earlier attempt or a shrink may have left a file behind.
	if err := r.fs.Remove(name); err != nil && !errors.Is(err, disk.ErrNotExist) {
		return err
	}
	f, err := r.fs.OpenFile(name, disk.Create|disk.Exclusive)
	if err != nil {
		return err
	}
	var b [segmentHeaderLen]byte
	r.seal.putSegmentHeader(b[:], segmentHeader{slot: uint32(slot), bytes: r.bytes})
	err = disk.Zero(f, 0, r.bytes)
	if err == nil {
		_, err = f.WriteAt(b[:], 0)
	}
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		return errors.Join(fmt.Errorf("create %s: %w", name, err), f.Close(), ignoreNotExist(r.fs.Remove(name)))
	}
	r.files = append(r.files, f)
	return nil
}

func ignoreNotExist(err error) error {
	if errors.Is(err, disk.ErrNotExist) {
		return nil
	}
	return err
}

// resize brings the number of segments towards want. Growing stops without an error when
// the disk is full: a start must work with no free byte. Shrinking takes free slots off the top only.
func (r *ring) resize(h *headFile, want int) error {
	have := len(r.files)
	if have < want {
		// The head and its name before any segment's: a process killed in between may have left them
		// unflushed, and the head on the medium may still count files that are made anew here.
		if err := errors.Join(r.fs.SyncDir(r.dir), h.settle()); err != nil {
			return err
		}
	}
	for len(r.files) < want {
		err := r.addSlot()
		if errors.Is(err, disk.ErrNoSpace) && len(r.files) >= segmentsMin {
			break
		}
		if err != nil {
			return err
		}
		r.free = append(r.free, len(r.files)-1)
	}
	if len(r.files) > have {
		if err := r.fs.SyncDir(r.dir); err != nil {
			return err
		}
	}
	top := len(r.files)
	for top > want && slices.Contains(r.free, top-1) {
		top--
	}
	if top == h.slots {
		return nil
	}
	h.slots = top
	if err := h.writeBoth(); err != nil {
		return err
	}
	// Only now that the head no longer asks for them.
	for slot := len(r.files) - 1; slot >= top; slot-- {
		if err := errors.Join(r.files[slot].Close(), r.fs.Remove(r.name(slot))); err != nil {
			return err
		}
	}
	r.files = r.files[:top]
	r.free = slices.DeleteFunc(r.free, func(slot int) bool { return slot >= top })
	return nil
}

// freeSlots puts slots back, lowest first in use: then a later shrink finds the top ones free.
func (r *ring) freeSlots(segs []*segment) {
	for _, s := range segs {
		r.free = append(r.free, s.slot)
	}
	slices.Sort(r.free)
}

func (r *ring) close() error {
	var errs []error
	for _, f := range r.files {
		errs = append(errs, f.Close())
	}
	r.files = nil
	return errors.Join(errs...)
}

// image reads a whole segment.
func (r *ring) image(slot int, buf []byte) ([]byte, error) {
	buf = slices.Grow(buf[:0], int(r.bytes))[:r.bytes]
	if n, err := r.files[slot].ReadAt(buf, 0); n < len(buf) {
		return nil, fmt.Errorf("read %s at %d: %w", r.name(slot), n, err)
	}
	return buf, nil
}
