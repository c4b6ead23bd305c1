// Package journal keeps records on disk in the order they were appended and says when
// they are flushed. It is where every acknowledgement comes from.
//
// The append lock is the lock of the whole broker's append step: [Journal.Begin] takes it
// and hands out the group buffer, [Journal.Commit] seals one record and releases it. While
// one group is being written and flushed the next gathers, so a lone appender waits for
// nobody and a thousand share one flush. There are no timers. docs/format/journal.md draws
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
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

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
)

const (
	segmentsMin     = 4 // one of them is the reserve
	segmentsMax     = 1 << 14
	segmentBytesMin = 4096
	segmentBytesMax = 1 << 30 // record lengths have 31 bits, and Open reads a segment at once
)

// Options of Open. The zero value of a field means its default.
type Options struct {
	FS           disk.FS          // default disk.OS()
	SegmentBytes int64            // size of a segment file, default 16 MiB, a multiple of 4096; fixed when the directory is created
	Segments     int              // number of segment files, default 16, at least 4; may change from start to start
	UnflushedMax int              // bytes appended and not flushed at which Publish gets ErrBusy, default half a segment
	Salvage      bool             // keep what is whole of a damaged journal instead of refusing to open it
	Logger       *slog.Logger     // default: discard
	Now          func() time.Time // stamps groups, default time.Now
	OnFail       func(error)      // called once, when a write or a flush has failed; must not block
}

func (o *Options) complete() error {
	if o.FS == nil {
		o.FS = disk.OS()
	}
	if o.SegmentBytes == 0 {
		o.SegmentBytes = 16 << 20
	}
	if o.Segments == 0 {
		o.Segments = 16
	}
	if o.UnflushedMax == 0 {
		o.UnflushedMax = int(o.SegmentBytes / 2)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.OnFail == nil {
		o.OnFail = func(error) {}
	}
	switch {
	case o.SegmentBytes < segmentBytesMin || o.SegmentBytes > segmentBytesMax || o.SegmentBytes%4096 != 0:
		return fmt.Errorf("journal segment size %d: not a multiple of 4096 from %d to %d", o.SegmentBytes, segmentBytesMin, segmentBytesMax)
	case o.Segments < segmentsMin || o.Segments > segmentsMax:
		return fmt.Errorf("journal with %d segments: from %d to %d are possible", o.Segments, segmentsMin, segmentsMax)
	case o.UnflushedMax < 0:
		return fmt.Errorf("journal with an unflushed cap of %d bytes: must be above 0", o.UnflushedMax)
	}
	return nil
}

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
	room   *RoomWaiter // queue of refused appenders
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

// Start makes what Open found durable again, because a killed process leaves pages that
// only the page cache has, and begins to accept appends. folded is the LSN up to which the
// caller needs nothing any more; LSNs go on above it, and above every LSN that a torn
// group may have left on the disk.
func (j *Journal) Start(folded LSN) error {
	if err := j.start(folded); err != nil {
		return fmt.Errorf("start journal: %w", err)
	}
	j.wake = make(chan struct{}, 1)
	j.done = make(chan struct{})
	j.notices = make(chan notice, noticesMax)
	j.notified = make(chan struct{})
	j.mu.Lock()
	j.number = 1
	j.gather, j.spare = &group{number: j.number}, &group{}
	j.state = stateRunning
	j.mu.Unlock()
	go j.commit()
	go j.notify()
	return nil
}

func (j *Journal) start(folded LSN) error {
	if j.state != stateOpen {
		panic("journal: Start called twice")
	}
	if err := j.rewrite(folded); err != nil {
		return err
	}
	// Names as well: a process killed while it created the journal leaves them unflushed.
	if err := errors.Join(j.opt.FS.SyncDir(j.dir), j.opt.FS.SyncDir(filepath.Dir(j.dir))); err != nil {
		return err
	}
	// A torn group's LSNs are at most a segment's worth of records above what was flushed before it.
	skip := LSN(j.opt.SegmentBytes)
	if j.head.damaged {
		// The lost copy may have named a higher base, of a run that wrote only a torn group.
		skip *= 4
	}
	h := j.head
	h.base = max(h.base, h.flushed, LSN(j.flushed.Load()), folded) + skip
	h.flushed = LSN(j.flushed.Load())
	h.time = j.time
	// Both copies: losing one later must not bring back an older base.
	if err := h.writeBoth(); err != nil {
		return err
	}
	j.next = h.base + 1
	return nil
}

// rewrite writes the tail above folded again, same bytes at the same offsets, and flushes it.
// Behind the end it wipes the place of the next group's header: what is left of a torn group
// there must not become whole when the next one, torn as well, happens to bring the missing bytes.
func (j *Journal) rewrite(folded LSN) error {
	var buf []byte
	for i, seg := range j.ring.live {
		final := i == len(j.ring.live)-1
		if seg.last <= folded && !final {
			continue
		}
		to := seg.end
		if final {
			to = min(seg.end+groupHeaderLen, j.ring.bytes)
		}
		buf = slices.Grow(buf[:0], int(to))[:to]
		f, name := j.ring.files[seg.slot], j.ring.name(seg.slot)
		if n, err := f.ReadAt(buf, 0); n < len(buf) {
			return fmt.Errorf("read %s: %w", name, err)
		}
		clear(buf[seg.end:])
		if _, err := f.WriteAt(buf, 0); err != nil {
			return fmt.Errorf("write %s again: %w", name, err)
		}
		if err := f.Sync(); err != nil {
			return fmt.Errorf("flush %s: %w", name, err)
		}
	}
	return nil
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
