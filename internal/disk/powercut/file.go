package powercut

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync/atomic"

	"emanet/internal/disk"
)

// file is an open handle.
type file struct {
	m        *medium
	n        *inode
	readOnly bool
	closed   atomic.Bool
}

var errReadOnly = errors.New("opened for reading only")

// begin is medium.begin with what the handle itself forbids.
func (f *file) begin(op Op) (last bool, err error) {
	op.file = f.n
	switch {
	case f.closed.Load():
		return false, fmt.Errorf("%s: %w", op.Kind, fs.ErrClosed)
	case f.readOnly && (op.Kind == Write || op.Kind == Truncate):
		return false, fmt.Errorf("%s: %w", op.Kind, errReadOnly)
	case op.Off < 0:
		return false, fmt.Errorf("%s at negative offset %d", op.Kind, op.Off)
	}
	return f.m.begin(op)
}

func (f *file) ReadAt(p []byte, off int64) (int, error) {
	if _, err := f.begin(Op{Kind: Read, Off: off, Len: len(p)}); err != nil {
		return 0, err
	}
	defer f.m.mu.Unlock()
	if off >= int64(len(f.n.cache)) {
		return 0, io.EOF
	}
	n := copy(p, f.n.cache[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *file) WriteAt(p []byte, off int64) (int, error) {
	last, err := f.begin(Op{Kind: Write, Off: off, Len: len(p)})
	if err != nil {
		return 0, err
	}
	defer f.m.mu.Unlock()
	if err := f.m.grow(off + int64(len(p)) - int64(len(f.n.cache))); err != nil {
		return 0, fmt.Errorf("write %s: %w", f.n.name, err)
	}
	if last {
		p = p[:f.m.rng.IntN(len(p)+1)]
	}
	f.n.write(p, off)
	return len(p), lostIf(last)
}

func (f *file) Sync() error {
	last, err := f.begin(Op{Kind: Sync})
	if err != nil {
		return err
	}
	defer f.m.mu.Unlock()
	if last {
		return disk.ErrPowerLost
	}
	f.n.sync()
	f.m.syncs++
	return nil
}

func (f *file) Truncate(size int64) error {
	last, err := f.begin(Op{Kind: Truncate, Off: size})
	if err != nil {
		return err
	}
	defer f.m.mu.Unlock()
	if err := f.m.grow(size - int64(len(f.n.cache))); err != nil {
		return fmt.Errorf("truncate %s: %w", f.n.name, err)
	}
	f.n.truncate(size)
	return lostIf(last)
}

func (f *file) Size() (int64, error) {
	if _, err := f.begin(Op{Kind: Read}); err != nil {
		return 0, err
	}
	defer f.m.mu.Unlock()
	return int64(len(f.n.cache)), nil
}

func (f *file) Close() error {
	if f.closed.Swap(true) {
		return fmt.Errorf("close: %w", fs.ErrClosed)
	}
	return nil
}
