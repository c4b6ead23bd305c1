package local

import (
	"errors"
	"sync"

	"emanet/internal/store"
)

// readers is a pool of read connections, opened as they are needed.
type readers struct {
	path, vfs string
	idle      chan *reader // nil: one that is not open yet
	size      int
	closed    sync.Once
	quit      chan struct{}
}

func newReaders(path, vfs string, size int) *readers {
	r := &readers{path: path, vfs: vfs, idle: make(chan *reader, size), size: size, quit: make(chan struct{})}
	for range size {
		r.idle <- nil
	}
	return r
}

func (r *readers) entries(mailbox uint64, priority uint8, after, before uint64, limit int, bytes int64) ([]store.Entry, error) {
	var rd *reader
	select {
	case <-r.quit:
		return nil, store.ErrClosed
	case rd = <-r.idle:
	}
	if rd == nil {
		var err error
		if rd, err = newReader(r.path, r.vfs); err != nil {
			r.idle <- nil
			return nil, err
		}
	}
	entries, err := rd.entries(mailbox, priority, after, before, limit, bytes)
	if err != nil {
		// Whatever state it is in, the next one gets a new connection.
		err = errors.Join(err, rd.close())
		rd = nil
	}
	r.idle <- rd
	return entries, err
}

// close waits for those who read.
func (r *readers) close() error {
	var errs []error
	r.closed.Do(func() {
		close(r.quit)
		for range r.size {
			if rd := <-r.idle; rd != nil {
				errs = append(errs, rd.close())
			}
		}
	})
	return errors.Join(errs...)
}
