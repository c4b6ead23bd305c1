package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"path/filepath"

	"emanet/internal/disk"
)

const (
	headName    = "head"
	headMagic   = "EMANETJH"
	headLen     = 128
	headStride  = 4096 // one copy per block: a torn write spoils one copy only
	headCopies  = 2
	headFileLen = headCopies * headStride
)

// head is what the directory knows beside the records. It is kept twice and written
// in turn, so that one whole copy always stands.
type head struct {
	salt         [16]byte
	segmentBytes int64
	slots        int    // segment files created and flushed
	generation   uint64 // the copy with the higher one counts
	base         LSN    // LSNs of the running or latest run are above it
	floor        LSN    // last LSN of the newest recycled segment: what is not above it may be overwritten
	time         int64  // unix ms of the newest group then
	flushed      LSN    // some LSN known to be flushed: a journal that ends before it is damaged
}

func (h *head) encode() []byte {
	b := make([]byte, headLen)
	le := binary.LittleEndian
	copy(b, headMagic)
	le.PutUint32(b[8:], formatVersion)
	le.PutUint32(b[12:], uint32(h.slots))
	copy(b[16:32], h.salt[:])
	le.PutUint64(b[32:], uint64(h.segmentBytes))
	le.PutUint64(b[40:], h.generation)
	le.PutUint64(b[48:], uint64(h.base))
	le.PutUint64(b[56:], uint64(h.floor))
	le.PutUint64(b[64:], uint64(h.flushed))
	le.PutUint64(b[72:], uint64(h.time))
	le.PutUint32(b[124:], crc32.Checksum(b[:124], castagnoli))
	return b
}

// decodeHead answers ErrNewer for a later format: magic and version keep their place for ever.
func decodeHead(b []byte) (h head, whole bool, err error) {
	le := binary.LittleEndian
	if len(b) < headLen || string(b[:8]) != headMagic {
		return head{}, false, nil
	}
	if v := le.Uint32(b[8:]); v > formatVersion {
		return head{}, false, fmt.Errorf("%w: version %d, this program knows %d", ErrNewer, v, formatVersion)
	}
	if le.Uint32(b[124:]) != crc32.Checksum(b[:124], castagnoli) {
		return head{}, false, nil
	}
	return head{
		salt:         [16]byte(b[16:32]),
		segmentBytes: int64(le.Uint64(b[32:])),
		slots:        int(le.Uint32(b[12:])),
		generation:   le.Uint64(b[40:]),
		base:         LSN(le.Uint64(b[48:])),
		floor:        LSN(le.Uint64(b[56:])),
		flushed:      LSN(le.Uint64(b[64:])),
		time:         int64(le.Uint64(b[72:])),
	}, true, nil
}

// headFile reads and writes the head. Its writes are few: a start, a recycling, a close.
type headFile struct {
	head
	stored  head // as openHead found it
	file    disk.File
	name    string
	damaged bool // one copy could not be read: a torn write or worse
	settled bool // the newest copy is known to be flushed
}

// openHead answers disk.ErrNotExist for a directory that holds no journal yet.
func openHead(fsys disk.FS, dir string) (*headFile, error) {
	h := &headFile{name: filepath.Join(dir, headName)}
	f, err := fsys.OpenFile(h.name, 0)
	if err != nil {
		return nil, err
	}
	h.file = f
	if err := h.read(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return h, nil
}

func (h *headFile) read() error {
	size, err := h.file.Size()
	if err != nil {
		return err
	}
	b := make([]byte, min(size, headFileLen))
	if n, err := h.file.ReadAt(b, 0); n < len(b) {
		return fmt.Errorf("read %s: %w", h.name, err)
	}
	found := false
	for i := range headCopies {
		at := min(i*headStride, len(b))
		c, whole, err := decodeHead(b[at:])
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", h.name, err)
		case !whole:
			h.damaged = true
		case !found || c.generation > h.generation:
			h.head, found = c, true
		}
	}
	h.stored = h.head
	if !found {
		return &CorruptError{File: h.name, Reason: "neither copy of the head is whole"}
	}
	return nil
}

// settle flushes what openHead has found: a killed process may have left the newest copy in the
// page cache only. Nothing may rest on it before, and the next write goes over the older copy,
// perhaps the only one on the medium.
func (h *headFile) settle() error {
	if h.settled {
		return nil
	}
	if err := h.put(h.stored); err != nil {
		return err
	}
	h.settled = true
	return nil
}

// write makes the present values durable. Nothing that rests on them may be done before it returns.
func (h *headFile) write() error {
	if err := h.settle(); err != nil {
		return err
	}
	h.generation++
	return h.put(h.head)
}

// put writes one copy in its place and flushes it.
func (h *headFile) put(c head) error {
	at := int64(c.generation%headCopies) * headStride
	if _, err := h.file.WriteAt(c.encode(), at); err != nil {
		return fmt.Errorf("write %s: %w", h.name, err)
	}
	if err := h.file.Sync(); err != nil {
		return fmt.Errorf("flush %s: %w", h.name, err)
	}
	return nil
}

// writeBoth brings both copies up to date, one after the other.
func (h *headFile) writeBoth() error {
	for range headCopies {
		if err := h.write(); err != nil {
			return err
		}
	}
	h.damaged = false
	return nil
}

// createHead makes a new directory's head under another name first: a head is there whole or not at all.
func createHead(fsys disk.FS, dir string, first head) (*headFile, error) {
	h := &headFile{head: first, name: filepath.Join(dir, headName), settled: true}
	fresh := h.name + ".new"
	f, err := disk.Preallocate(fsys, fresh, headFileLen)
	if err != nil {
		return nil, err
	}
	h.file = f
	err = h.writeBoth()
	if err == nil {
		err = fsys.Rename(fresh, h.name)
	}
	if err == nil {
		err = fsys.SyncDir(dir)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("create journal: %w", err), f.Close())
	}
	return h, nil
}
