package journal

import (
	"errors"
	"fmt"
	"path/filepath"

	"emanet/internal/disk"
)

const salvageDir = "salvage"

// openSlots opens the segment files. Salvage puts zeros in the place of missing ones; the scan
// then finds out whether they held records.
func (j *Journal) openSlots(n int) error {
	for slot := range n {
		err := j.ring.openSlot(slot)
		if errors.Is(err, ErrCorrupt) && j.opt.Salvage {
			j.opt.Logger.Warn("journal salvage", "damage", err)
			err = j.replaceSlot(slot)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// replaceSlot brings a file of the wrong size to its size, or makes a missing one.
func (j *Journal) replaceSlot(slot int) error {
	name := j.ring.name(slot)
	if _, err := j.opt.FS.Stat(name); errors.Is(err, disk.ErrNotExist) {
		if err := j.ring.addSlot(); err != nil {
			return err
		}
		return j.opt.FS.SyncDir(j.dir)
	}
	f, err := disk.Preallocate(j.opt.FS, name, j.ring.bytes)
	if err != nil {
		return err
	}
	j.ring.files = append(j.ring.files, f)
	return nil
}

// rebuildHead makes a head from the segments' own headers when neither copy is whole. Segments
// that were released count as live again: the caller knows what it has folded.
func (j *Journal) rebuildHead(cause error) (*headFile, error) {
	j.opt.Logger.Warn("journal salvage", "damage", cause)
	h := head{segmentBytes: j.opt.SegmentBytes}
	var b [segmentHeaderLen]byte
	used := false
	for ; ; h.slots++ {
		f, err := j.opt.FS.OpenFile(j.ring.name(h.slots), disk.ReadOnly)
		if errors.Is(err, disk.ErrNotExist) {
			break
		}
		if err != nil {
			return nil, err
		}
		clear(b[:])
		_, _ = f.ReadAt(b[:], 0) // a short file is a header that is not whole
		if err := f.Close(); err != nil {
			return nil, err
		}
		var s seal
		copy(s.salt[:], b[16:32])
		sh, ok := s.parseSegmentHeader(b[:])
		if !ok {
			continue
		}
		h.salt, h.segmentBytes = s.salt, sh.bytes
		if sh.seq > 0 && (!used || sh.prev < h.floor) {
			h.floor, used = sh.prev, true
		}
	}
	if h.salt == [16]byte{} {
		return nil, fmt.Errorf("no segment tells the directory's salt either: %w", cause)
	}
	made, err := createHead(j.opt.FS, j.dir, h)
	if err != nil {
		return nil, err
	}
	made.damaged = true
	return made, nil
}

// setAside copies a segment before it is changed. Without the space for it salvage goes on: a unit in the
// field that does not start again loses more.
func (s *salvager) setAside(image []byte) string {
	dir := filepath.Join(s.j.dir, salvageDir)
	name := filepath.Join(dir, fmt.Sprintf("%s-%d", slotName(s.slot), s.j.opt.Now().UnixMilli()))
	fsys := s.j.opt.FS
	err := fsys.MkdirAll(dir)
	if err == nil {
		err = writeAside(fsys, name, image)
	}
	if err == nil {
		err = errors.Join(fsys.SyncDir(dir), fsys.SyncDir(s.j.dir))
	}
	if err != nil {
		s.j.opt.Logger.Error("damaged journal segment could not be set aside", "segment", s.j.ring.name(s.slot), "error", err)
		return ""
	}
	return name
}

func writeAside(fsys disk.FS, name string, image []byte) error {
	f, err := fsys.OpenFile(name, disk.Create)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(image, 0)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, fsys.Remove(name))
	}
	return nil
}
