// Package local is the embedded store: a journal in front of SQLite.
//
//	DIR/LOCK           one process at a time
//	DIR/format         format of the directory
//	DIR/journal/       segments; every acknowledgement comes from here
//	DIR/broker.db      SQLite: what lasts, up to the LSN folded into it
//
// A batch becomes durable in the journal. About once a second the net effect of what is older than that
// second is folded into broker.db, in one transaction with its LSN, as packed pages; what came and went
// meanwhile never gets there. A start reads broker.db and lays the unfolded rest of the journal over it.
//
// Reading order: Open, (*Store).Load, (*Store).Begin, (*folder).run, (*net).apply, (*writer).write.
package local

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"

	"emanet/internal/disk"
	"emanet/internal/journal"
	"emanet/internal/store"
)

// Store is the engine. It is a store.Store.
type Store struct {
	opt     Options
	dir     string
	lock    io.Closer
	journal *journal.Journal
	batch   *store.Batch // guarded by the append lock
	base    int          // length of the batch's buffer at Begin; guarded by the append lock
	alarms  alarms
	fold    *folder
	readers *readers
	failed  chan struct{}
	failure error // set before failed is closed
	flushes flushTimes
	state   atomic.Int32
	loaded  bool
	closing sync.Once
	closed  error
}

// States of a Store.
const (
	stateOpened int32 = iota
	stateStarted
	stateClosed
)

var _ store.Store = (*Store)(nil)

// Open takes the directory, creating it if there is none, and finds out what is in it. Errors wrap
// store.ErrLocked, store.ErrFormat or store.ErrCorrupt where it is one of these.
func Open(dir string, opt Options) (*Store, error) {
	opt.complete()
	s := &Store{opt: opt, dir: dir, failed: make(chan struct{})}
	if err := s.open(); err != nil {
		return nil, errors.Join(fmt.Errorf("open store %s: %w", dir, err), s.release())
	}
	return s, nil
}

func (s *Store) open() error {
	if err := makeDir(s.opt.FS, s.dir); err != nil {
		return err
	}
	lock, err := s.opt.FS.Lock(s.dir)
	if errors.Is(err, disk.ErrLocked) {
		return inUse{err}
	}
	if err != nil {
		return err
	}
	s.lock = lock
	if err := openFormat(s.opt.FS, s.dir, migrations); err != nil {
		return err
	}
	jo := s.opt.Journal
	jo.FS, jo.Logger, jo.Now, jo.OnFail = timedFS{s.opt.FS, &s.flushes}, s.opt.Logger, s.opt.Now, s.fail
	s.journal, err = journal.Open(filepath.Join(s.dir, "journal"), jo)
	switch {
	case errors.Is(err, journal.ErrCorrupt):
		return fmt.Errorf("%w: %w", store.ErrCorrupt, err)
	case errors.Is(err, journal.ErrNewer):
		return fmt.Errorf("%w: %w", store.ErrFormat, err)
	case err != nil:
		return err
	}
	if s.fold, err = openFolder(s); err != nil {
		return err
	}
	// The names of what was just made.
	if err := s.opt.FS.SyncDir(s.dir); err != nil {
		return err
	}
	s.readers = newReaders(s.databasePath(), s.opt.VFS, s.opt.Readers)
	return nil
}

// inUse is store.ErrLocked in the words of the disk, which knows by whom.
type inUse struct{ error }

func (e inUse) Unwrap() error { return e.error }

func (inUse) Is(target error) bool { return target == store.ErrLocked }

// makeDir creates a directory with its parents, each of them durable before there is anything in it.
func makeDir(fsys disk.FS, dir string) error {
	if _, err := fsys.Stat(dir); err == nil || !errors.Is(err, disk.ErrNotExist) {
		return err
	}
	parent := filepath.Dir(dir)
	if parent != dir {
		if err := makeDir(fsys, parent); err != nil {
			return err
		}
	}
	if err := fsys.MkdirAll(dir); err != nil {
		return err
	}
	return fsys.SyncDir(parent)
}

func (s *Store) databasePath() string { return filepath.Join(s.dir, "broker.db") }

// Start makes what Load read durable and opens the store for batches.
func (s *Store) Start() error {
	if !s.loaded {
		panic("local: Start before Load")
	}
	if err := s.journal.Start(s.fold.foldedLSN()); err != nil {
		return fmt.Errorf("start store: %w", err)
	}
	// Before anybody is told that we are ready: a disk that fills up right after must find the reserve there.
	s.raise(alarmSpace, s.fold.db.rebuildBallast())
	s.state.Store(stateStarted)
	s.fold.start()
	return nil
}

// Begin takes the append lock and returns the batch to fill.
func (s *Store) Begin(c store.Class, size int) (*store.Batch, error) {
	buf, err := s.journal.Begin(c, max(size, 1)) // 0: the caller only wants the append lock
	if err != nil {
		return nil, err
	}
	s.base = len(buf)
	s.batch.Reset(buf, s.journal.NextLocked())
	return s.batch, nil
}

// sealer keeps the batch's side of the journal out of the Store's methods.
type sealer struct{ *Store }

func (s sealer) Commit(buf []byte) store.LSN {
	// Under the append lock, so before Commit gives it back.
	s.fold.appendedLocked(s.journal.NextLocked(), len(buf)-s.base)
	lsn := s.journal.Commit(buf)
	s.fold.arm()
	return lsn
}

func (s sealer) Abort() { s.journal.Abort() }

// Notify, between Begin and Commit, has w.F called once after this batch's group is flushed.
func (s *Store) Notify(w *store.Waiter) { s.journal.Notify(w) }

// NotifyTail has w.F called once when everything appended so far is flushed.
func (s *Store) NotifyTail(w *store.Waiter) bool { return s.journal.NotifyTail(w) }

// NotifyRoom has w.F called once when a refused batch has a chance again.
func (s *Store) NotifyRoom(w *store.RoomWaiter) {
	if !s.journal.WaitRoom(w) {
		w.F()
	}
}

// LastTime is the newest wall time in the journal.
func (s *Store) LastTime() int64 { return s.journal.LastTime() }

// Flushed is the highest durable LSN.
func (s *Store) Flushed() store.LSN { return s.journal.Flushed() }

// Appended is the highest LSN given.
func (s *Store) Appended() store.LSN { return s.journal.Appended() }

// ReadEntries reads from what is folded.
func (s *Store) ReadEntries(mailbox uint64, priority uint8, after, before uint64, limit int, bytes int64) ([]store.Entry, error) {
	entries, err := s.readers.entries(mailbox, priority, after, before, limit, bytes)
	if err != nil {
		return nil, fmt.Errorf("read entries: %w", err)
	}
	return entries, nil
}

// OnFold sets the function told how far everything is folded.
func (s *Store) OnFold(f func(store.LSN)) { s.fold.onFold.Store(&f) }

// Sync folds everything appended so far.
func (s *Store) Sync() error { return s.fold.sync(s.journal.Appended()) }

// Alarms lists what is wrong but not fatal.
func (s *Store) Alarms() []string { return s.alarms.list() }

// Failed is closed when the store can acknowledge nothing any more.
func (s *Store) Failed() <-chan struct{} { return s.failed }

// Err is why Failed is closed.
func (s *Store) Err() error {
	select {
	case <-s.failed:
		return s.failure
	default:
		return nil
	}
}

// fail is the journal's OnFail, called once.
func (s *Store) fail(err error) {
	s.failure = fmt.Errorf("%w: %w", store.ErrFailed, err)
	close(s.failed)
}

// raise sets or ends an alarm and logs the change.
func (s *Store) raise(kind string, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if !s.alarms.set(kind, text) {
		return
	}
	if err != nil {
		s.opt.Logger.Warn("store alarm", slog.String("kind", kind), slog.String("error", text))
	} else {
		s.opt.Logger.Info("store alarm ended", slog.String("kind", kind))
	}
}

// Close folds what can be folded and gives the directory back.
func (s *Store) Close() error {
	s.closing.Do(func() {
		started := s.state.Swap(stateClosed) == stateStarted
		if started {
			s.fold.stop()
		}
		if err := s.release(); err != nil {
			s.closed = fmt.Errorf("close store %s: %w", s.dir, err)
		}
	})
	return s.closed
}

// release closes whatever is open, in the order opposite to opening.
func (s *Store) release() error {
	var errs []error
	if s.readers != nil {
		errs = append(errs, s.readers.close())
	}
	if s.fold != nil {
		errs = append(errs, s.fold.close())
	}
	if s.journal != nil {
		errs = append(errs, s.journal.Close())
	}
	if s.lock != nil {
		errs = append(errs, s.lock.Close())
	}
	return errors.Join(errs...)
}
