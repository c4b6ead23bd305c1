package local

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"emanet/internal/store"
)

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
	limit := vacuumTime
	if f.store.journal.Appended() == f.foldedLSN() {
		limit = vacuumTimeIdle
	}
	more, err := f.db.shrink(limit)
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

// vacuumTime is spent at most per tick on giving back free space, vacuumTimeIdle when nothing else is to do.
const (
	vacuumTime     = 50 * time.Millisecond
	vacuumTimeIdle = 300 * time.Millisecond
)

// spaceTrouble gives up the ballast when err says that the disk is full. It tells whether there was one.
func (f *folder) spaceTrouble(err error) bool {
	if err == nil || !isNoSpace(err) {
		return false
	}
	f.noSpace = true
	gone, derr := f.db.dropBallast()
	f.store.raise(alarmSpace, errors.Join(errors.New("no space left on the device"), derr))
	if gone {
		// The room this made is for what is in the WAL: then that starts over, in the room it has.
		f.checkpoint(0)
	}
	return gone
}

func (f *folder) count(ops uint64, spent time.Duration) {
	s := &f.statistic
	s.mu.Lock()
	s.folds, s.ops, s.spent = s.folds+1, s.ops+ops, s.spent+spent
	s.mu.Unlock()
}
