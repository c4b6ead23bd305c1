// Package journal keeps records on disk in the order they were appended and says when
// they are flushed. It is where every acknowledgement comes from.
//
// The append lock is the lock of the whole broker's append step: [Journal.Begin] takes it
// and hands out the group buffer, [Journal.Commit] seals one record and releases it. While
// one group is being written and flushed the next gathers, so a lone appender waits for
// nobody and a thousand share one flush. No timer delays a flush. docs/format/journal.md draws
// the files.
//
// Life: [Open] (reads, checks, finds the end), [Journal.NewReader] for the replay,
// [Journal.Start], then appends, readers and [Journal.Release], then [Journal.Close].
package journal

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"emanet/internal/disk"
)

// LSN numbers records. It rises strictly in append order and is never reused; it is not
// dense: a start leaves a gap. The first LSN is above 0, so 0 means "nothing".
type LSN uint64

// Class says what a record may use up.
type Class uint8

const (
	// Publish records are refused when only the reserve is left (ErrFull) or when too much
	// is unflushed (ErrBusy).
	Publish Class = iota
	// Control records are settlements, deletes and topology: they may use the reserve, the
	// last quarter, so that a full journal can drain, and twice the unflushed cap.
	Control

	classes = iota
)

// Journal is one open directory. Methods may be called by several goroutines.
type Journal struct {
	opt  Options
	dir  string
	lock io.Closer // the directory
	lost []Lost

	headMu sync.Mutex // serialises head writes; taken before mu, held over I/O
	head   *headFile

	flushed  atomic.Uint64
	appended atomic.Uint64

	mu     sync.Mutex // the append lock
	ring   ring
	state  state
	failed error // why state is stateFailed
	next   LSN   // of the next record
	time   int64 // unix ms of the newest group
	place
	undo   undo
	gather *group // takes appends
	spare  *group
	flight *group // being written, nil when the committer has nothing in hand
	number uint64 // of the group being gathered
	idle   bool   // the committer waits on wake
	lists  [][]*Waiter
	room   [classes]roomQueue
	turn   turn
	count  counters

	wake     chan struct{} // cap 1; sent to by whoever clears idle
	done     chan struct{} // closed by the committer when it ends
	notices  chan notice   // committer to notifier; closed by the committer
	pending  atomic.Int32  // notices not delivered yet
	notified chan struct{} // closed by the notifier when it ends
}

type state int

const (
	stateOpen state = iota // read only
	stateRunning
	stateFailed
	stateClosed
)

type counters struct {
	records, groups, groupBytes uint64
	sizes                       [GroupSizes]uint64
}

// Open reads the directory, creating it if there is none, checks every record that is not
// released and finds the end. Appends begin with Start. Of the path only the last element is
// created durably; that the folder above is there to stay is the caller's business. Errors: *CorruptError, ErrNewer,
// ErrSegmentSize, disk.ErrLocked, those of the file system.
func Open(dir string, o Options) (*Journal, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	if err := o.FS.MkdirAll(dir); err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	lock, err := o.FS.Lock(dir)
	if err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	j := &Journal{opt: o, dir: dir, lock: lock, ring: ring{fs: o.FS, dir: dir, bytes: o.SegmentBytes}}
	if err := j.open(); err != nil {
		return nil, errors.Join(fmt.Errorf("open journal: %w", err), j.closeFiles())
	}
	return j, nil
}

func (j *Journal) open() error {
	h, err := openHead(j.opt.FS, j.dir)
	if errors.Is(err, disk.ErrNotExist) {
		h, err = j.create()
	}
	if errors.Is(err, ErrCorrupt) && j.opt.Salvage {
		h, err = j.rebuildHead(err)
	}
	if err != nil {
		return err
	}
	j.head, j.ring.seal = h, newSeal(h.salt)
	if h.segmentBytes != j.opt.SegmentBytes {
		return fmt.Errorf("%w: %s has %d bytes, asked for %d", ErrSegmentSize, j.dir, h.segmentBytes, j.opt.SegmentBytes)
	}
	if err := j.openSlots(h.slots); err != nil {
		return err
	}
	found, err := j.ring.scan(&h.head)
	if errors.Is(err, ErrCorrupt) && j.opt.Salvage {
		found, err = j.salvage(err)
	}
	if err != nil {
		return err
	}
	j.ring.live, j.ring.free = found.live, found.free
	if err := j.ring.resize(h, j.opt.Segments); err != nil {
		return err
	}
	if n := len(j.ring.files); n != j.opt.Segments {
		j.opt.Logger.Warn("journal has another number of segments than configured",
			"dir", j.dir, "segments", n, "configured", j.opt.Segments, "reason", "disk full, or segments in use")
	}
	j.flushed.Store(uint64(found.last))
	j.appended.Store(uint64(found.last))
	j.time = max(found.time, h.time)
	j.place.set(&j.ring, found)
	return nil
}

// create makes the head of a new journal. Segments without a head are another matter: somebody lost it.
func (j *Journal) create() (*headFile, error) {
	entries, err := j.opt.FS.ReadDir(j.dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if e.Name == slotName(0) {
			return nil, &CorruptError{File: j.dir, Reason: "there are segments but no file " + headName}
		}
	}
	h := head{segmentBytes: j.opt.SegmentBytes}
	rand.Read(h.salt[:]) // never fails
	return createHead(j.opt.FS, j.dir, h)
}

// Flushed is the highest LSN that is on disk; after Open it is the last one found, which
// is certain to stay only when Start has returned.
func (j *Journal) Flushed() LSN { return LSN(j.flushed.Load()) }

// Appended is the highest LSN given out.
func (j *Journal) Appended() LSN { return LSN(j.appended.Load()) }

// LastTime is when the newest group was written, unix ms; 0 if there is none.
func (j *Journal) LastTime() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.time
}

// Lost says what Salvage could not keep.
func (j *Journal) Lost() []Lost { return j.lost }

// MaxRecord is the largest payload of a record, bytes.
func (j *Journal) MaxRecord() int {
	return int(j.ring.capacity()) - groupHeaderLen - recordHeaderLen
}

// Close flushes what was appended and ends. It answers what made the journal fail, if it has.
func (j *Journal) Close() error {
	j.mu.Lock()
	was := j.state
	if was == stateClosed {
		j.mu.Unlock()
		return nil
	}
	j.state = stateClosed
	wake := j.idle
	j.idle = false
	room := j.takeRoomLocked()
	j.mu.Unlock()
	if wake {
		j.wake <- struct{}{}
	}
	tell(room)
	if was != stateOpen {
		<-j.done
		<-j.notified
	}
	j.mu.Lock()
	failed := j.failed
	j.mu.Unlock()
	j.headMu.Lock()
	defer j.headMu.Unlock()
	if was == stateRunning && failed == nil {
		// From now on a damaged last group is told from a torn one.
		j.head.flushed, j.head.time = j.Flushed(), j.time
		failed = j.head.writeBoth()
	}
	return errors.Join(failed, j.closeFiles())
}

func (j *Journal) closeFiles() error {
	var errs []error
	if j.head != nil {
		errs = append(errs, j.head.file.Close())
	}
	return errors.Join(append(errs, j.ring.close(), j.lock.Close())...)
}
