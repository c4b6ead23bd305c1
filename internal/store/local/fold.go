package local

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"emanet/internal/store"
)

// folder owns the connection that writes broker.db and the goroutine that folds the journal into it.
type folder struct {
	store  *Store
	db     *database
	source *source
	net    *net

	folded  atomic.Uint64
	onFold  atomic.Pointer[func(store.LSN)]
	armed   atomic.Bool // the goroutine knows that there is something to fold
	wake    chan struct{}
	hurry   chan struct{}
	syncs   chan syncRequest
	quit    chan struct{}
	stopped chan struct{}
	running bool

	// Guarded by the append lock: the LSN at each quarter of FoldBytes.
	quarter, marks int
	lastMark       store.LSN
	// hurryTo leaves the newest quarters unfolded, so that what is consumed at once still nets out.
	hurryTo atomic.Uint64

	more      bool // large settlements wait
	noSpace   bool // the last attempt found the disk full
	failures  int
	retryAt   time.Time
	statistic foldStatistic
}

type foldStatistic struct {
	mu    sync.Mutex
	folds uint64
	ops   uint64
	spent time.Duration
}

type syncRequest struct {
	upTo store.LSN
	done chan error
}

// maxFoldEntries bounds the memory of one transaction: a fan-out takes a few journal bytes an entry.
const maxFoldEntries = 1 << 18

func openFolder(s *Store) (*folder, error) {
	db, err := openDatabase(s.databasePath(), s.opt)
	if err != nil {
		return nil, err
	}
	f := &folder{
		store: s, db: db, net: newNet(), more: true,
		wake: make(chan struct{}, 1), hurry: make(chan struct{}, 1), syncs: make(chan syncRequest),
		quit: make(chan struct{}), stopped: make(chan struct{}),
	}
	f.folded.Store(uint64(db.folded))
	return f, nil
}

func (f *folder) foldedLSN() store.LSN { return store.LSN(f.folded.Load()) }

func (f *folder) start() {
	f.source = newSource(f.store.journal, f.foldedLSN())
	f.running = true
	f.armed.Store(true)
	f.wake <- struct{}{}
	go f.run()
}

// appendedLocked notes a batch that is being sealed; it needs the append lock.
func (f *folder) appendedLocked(lsn store.LSN, size int) {
	if f.quarter += size; f.quarter >= f.store.opt.FoldBytes/4 {
		f.quarter = 0
		f.hurryTo.Store(uint64(f.lastMark))
		f.lastMark = lsn
		if f.marks++; f.marks >= 4 {
			f.marks = 1 // so many quarters stay unfolded
			signal(f.hurry)
		}
	}
}

// arm wakes the goroutine for what was just appended. It comes after the append, as run looks at what is
// appended after it disarmed: one of them sees the other.
func (f *folder) arm() {
	if !f.armed.Load() && f.armed.CompareAndSwap(false, true) {
		signal(f.wake)
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// run folds until stop. While nothing is appended it sleeps without a timer.
func (f *folder) run() {
	defer close(f.stopped)
	ticker := time.NewTicker(f.store.opt.FoldEvery)
	defer ticker.Stop()
	ticking := true
	old := f.store.journal.Flushed() // as it was one tick ago
	for {
		select {
		case <-f.quit:
			return
		case <-f.store.failed:
			<-f.quit
			return
		case <-f.wake:
			if !ticking {
				ticker.Reset(f.store.opt.FoldEvery)
				ticking = true
			}
		case <-f.hurry:
			f.try(store.LSN(f.hurryTo.Load()))
		case r := <-f.syncs:
			r.done <- f.foldAll(r.upTo)
		case <-ticker.C:
			f.try(old)
			old = f.store.journal.Flushed()
			if f.tidy() {
				continue
			}
			// Disarm first: what is appended after the look wakes us again.
			f.armed.Store(false)
			if f.store.journal.Appended() != f.foldedLSN() {
				f.armed.Store(true)
				continue
			}
			ticker.Stop()
			ticking = false
			f.net.trim()
			f.source.trim()
		}
	}
}

// retryMax bounds the time between attempts to fold after an error.
const retryMax = 10 * time.Second

// try folds up to upTo; an error is an alarm and another try later, first soon and then less often.
func (f *folder) try(upTo store.LSN) {
	now := time.Now()
	if f.failures > 0 && now.Before(f.retryAt) {
		return
	}
	if err := f.foldAll(min(upTo, f.store.journal.Flushed())); err != nil {
		f.failures++
		f.retryAt = now.Add(min(f.store.opt.FoldEvery<<min(f.failures-1, 8), retryMax))
	}
}

// foldAll folds everything up to upTo, which is flushed, in as many transactions as it takes, and then
// works off large settlements for a while.
func (f *folder) foldAll(upTo store.LSN) error {
	var stepsEnd time.Time
	for f.foldedLSN() < upTo || f.more {
		if f.foldedLSN() >= upTo {
			if now := time.Now(); stepsEnd.IsZero() {
				stepsEnd = now.Add(f.store.opt.geometry.stepsTime)
			} else if now.After(stepsEnd) {
				break
			}
		}
		full, err := f.foldOnce(upTo)
		if err != nil {
			f.store.raise(alarmFold, fmt.Errorf("folding into broker.db fails and is tried again: %w", err))
			return err
		}
		if !full && !f.more {
			break
		}
	}
	f.failures = 0
	f.store.raise(alarmFold, nil)
	return nil
}

// foldOnce is one transaction.
func (f *folder) foldOnce(upTo store.LSN) (full bool, err error) {
	start := time.Now()
	if !f.db.roomy && f.db.walBytes > 0 {
		f.checkpoint(0) // without a ballast the transaction gets all the room that the WAL has
	}
	if err := f.db.walRoom(); err != nil {
		f.store.raise(alarmWAL, err)
		return false, err
	}
	f.store.raise(alarmWAL, nil)
	f.net.reset()
	size, entries := f.store.opt.FoldBytes, maxFoldEntries
	if f.noSpace {
		// On a full disk only what shrinks the database goes through. Publishes that are settled further on
		// must not stand in the way of their settlements, so the whole journal is netted at once.
		size, entries = int(^uint(0)>>1), int(^uint(0)>>1)
	}
	before := f.foldedLSN()
	full, err = f.source.fill(f.net, upTo, size, entries)
	if err == nil && f.net.last == 0 && upTo > before {
		f.net.last = upTo // a gap that a start left
	}
	if err == nil {
		f.more, err = f.db.writer.write(f.net)
	}
	f.source.recycle()
	if err != nil {
		f.source = newSource(f.store.journal, before)
		f.spaceTrouble(err)
		return false, err
	}
	f.noSpace = false
	f.advance(max(f.net.last, before))
	f.count(f.net.ops, time.Since(start))
	return full, nil
}

// advance tells everybody that SQLite holds everything up to lsn.
func (f *folder) advance(lsn store.LSN) {
	f.folded.Store(uint64(lsn))
	if n := f.db.writer.strays; n > 0 {
		f.store.raise(alarmStrays, fmt.Errorf("%d operations named entries or messages that are not there; run emanet check", n))
	}
	if fn := f.onFold.Load(); fn != nil {
		(*fn)(lsn)
	}
	f.checkpoint(f.store.opt.WALBytes / 2)
	f.letGo()
}

// checkpoint keeps the WAL near the size it was given: it does nothing below from bytes.
func (f *folder) checkpoint(from int64) {
	if f.db.walBytes < from && f.db.checkpointed {
		return
	}
	err := f.db.checkpoint()
	if err != nil {
		err = fmt.Errorf("checkpoint of broker.db fails and is tried again: %w", err)
	}
	f.store.raise(alarmCheckpoint, err)
	f.spaceTrouble(err)
}

// letGo recycles journal segments. After a start nothing is recycled until one full checkpoint went
// through: what a killed process committed may be in the page cache only.
func (f *folder) letGo() {
	if !f.db.checkpointed {
		return
	}
	err := f.store.journal.Release(f.foldedLSN())
	if err != nil && !errors.Is(err, store.ErrFailed) && !errors.Is(err, store.ErrClosed) {
		f.store.raise(alarmRelease, err)
		return
	}
	f.store.raise(alarmRelease, nil)
}

// tidy does, at most once a tick, what keeps the files small. It tells whether there is more to do.
func (f *folder) tidy() bool {
	busy := f.failures > 0 || f.more
	if !f.db.checkpointed {
		f.checkpoint(0)
		f.letGo()
		busy = busy || !f.db.checkpointed
	}
	more, err := f.db.shrink(vacuumTime)
	if err != nil {
		f.store.opt.Logger.Warn("giving back free space of broker.db failed", slog.Any("error", err))
		return true
	}
	if more {
		return true
	}
	f.store.raise(alarmSpace, f.db.rebuildBallast())
	if !busy && f.db.walBytes > 0 {
		f.checkpoint(0) // what was given back leaves the file only now
	}
	return busy
}

// vacuumTime is spent at most per tick on giving back free space.
const vacuumTime = 50 * time.Millisecond

// spaceTrouble gives up the ballast when err says that the disk is full.
func (f *folder) spaceTrouble(err error) {
	if err == nil || !isNoSpace(err) {
		return
	}
	f.noSpace = true
	gone, derr := f.db.dropBallast()
	f.store.raise(alarmSpace, errors.Join(errors.New("no space left on the device"), derr))
	if gone {
		// The room this made is for what is in the WAL: then that starts over, in the room it has.
		f.checkpoint(0)
	}
}

func (f *folder) count(ops uint64, spent time.Duration) {
	s := &f.statistic
	s.mu.Lock()
	s.folds, s.ops, s.spent = s.folds+1, s.ops+ops, s.spent+spent
	s.mu.Unlock()
}

// sync folds up to upTo, once that is flushed.
func (f *folder) sync(upTo store.LSN) error {
	if !f.running {
		return fmt.Errorf("store is not started: %w", store.ErrClosed)
	}
	if err := f.waitFlushed(); err != nil {
		return err
	}
	r := syncRequest{upTo, make(chan error, 1)}
	select {
	case f.syncs <- r:
		return <-r.done
	case <-f.stopped:
		return errors.Join(store.ErrClosed, f.store.Err())
	case <-f.store.failed:
		return f.store.failure
	}
}

// waitFlushed returns when everything appended so far is flushed.
func (f *folder) waitFlushed() error {
	flushed := make(chan struct{})
	w := &store.Waiter{F: func(store.LSN) { close(flushed) }}
	if !f.store.journal.NotifyTail(w) {
		return nil
	}
	select {
	case <-flushed:
		return nil
	case <-f.store.failed:
		return f.store.failure
	}
}

// stop folds what is left, unless that fails, and ends the goroutine.
func (f *folder) stop() {
	err := f.sync(f.store.journal.Appended())
	close(f.quit)
	<-f.stopped
	if err == nil {
		err = f.db.checkpoint()
	}
	if err != nil {
		f.store.opt.Logger.Warn("broker.db was left as it is, the journal and broker.db-wal keep what is missing", slog.Any("error", err))
	}
}

func (f *folder) close() error { return f.db.close() }
