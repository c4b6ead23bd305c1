package local

import (
	"errors"
	"fmt"
	"log/slog"

	"emanet/internal/store"
)

type syncRequest struct {
	upTo store.LSN
	done chan error
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
