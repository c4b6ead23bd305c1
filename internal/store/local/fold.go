package local

import (
	"fmt"
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
		if err != nil && f.spaceTrouble(err) {
			continue // the ballast is gone, there is room
		}
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
		return false, err
	}
	f.noSpace = false
	f.advance(max(f.net.last, before))
	f.count(f.net.ops, time.Since(start))
	return full, nil
}
