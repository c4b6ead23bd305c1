package disk

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
)

// OS returns the file system of the operating system.
func OS() FS { return osFS{} }

type osFS struct{}

// osFile adds the flush this platform needs to os.File.
type osFile struct{ *os.File }

func (f osFile) Size() (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}

func (f osFile) Sync() error {
	if err := syncData(f.File); err != nil {
		return &os.PathError{Op: "sync", Path: f.Name(), Err: mapError(err)}
	}
	return nil
}

func (f osFile) WriteAt(p []byte, off int64) (int, error) {
	n, err := f.File.WriteAt(p, off)
	return n, mapError(err)
}

func (osFS) OpenFile(name string, mode Mode) (File, error) {
	flag := os.O_RDWR
	if mode&ReadOnly != 0 {
		flag = os.O_RDONLY
	}
	if mode&Create != 0 {
		flag |= os.O_CREATE
	}
	if mode&Exclusive != 0 {
		flag |= os.O_EXCL
	}
	f, err := os.OpenFile(name, flag, 0o600)
	if err != nil {
		return nil, mapError(err)
	}
	return osFile{f}, nil
}

func (osFS) Stat(name string) (Entry, error) {
	st, err := os.Stat(name)
	if err != nil {
		return Entry{}, err
	}
	return Entry{Name: st.Name(), Dir: st.IsDir(), Size: st.Size()}, nil
}

func (osFS) Rename(from, to string) error { return mapError(os.Rename(from, to)) }
func (osFS) Remove(name string) error     { return os.Remove(name) }

func (osFS) ReadDir(name string) ([]Entry, error) {
	list, err := os.ReadDir(name)
	if err != nil {
		return nil, err
	}
	entries := make([]Entry, 0, len(list))
	for _, d := range list {
		st, err := d.Info()
		if errors.Is(err, ErrNotExist) {
			continue // removed between the two calls
		}
		if err != nil {
			return nil, err
		}
		entries = append(entries, Entry{Name: d.Name(), Dir: d.IsDir(), Size: st.Size()})
	}
	return entries, nil
}

func (osFS) MkdirAll(name string) error { return mapError(os.MkdirAll(name, 0o700)) }

func (osFS) SyncDir(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(syncDir(d), d.Close())
}

func (osFS) Free(name string) (int64, error) { return freeBytes(name) }

// lockName is a file, not the directory itself: it can hold the owner's process id for the message.
const lockName = "LOCK"

func (osFS) Lock(dir string) (io.Closer, error) {
	name := filepath.Join(dir, lockName)
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, mapError(err)
	}
	if err := lockFile(f); err != nil {
		var owner [20]byte
		n, _ := f.ReadAt(owner[:], 0) // only makes the message better
		if n == 0 {
			n = copy(owner[:], "unknown")
		}
		return nil, errors.Join(fmt.Errorf("%s: %w (process %s)", dir, ErrLocked, owner[:n]), f.Close())
	}
	// The id is a courtesy to the reader of the message; with a full disk the lock holds all the same.
	if f.Truncate(0) == nil {
		_, _ = f.WriteAt(strconv.AppendInt(nil, int64(os.Getpid()), 10), 0)
	}
	return f, nil
}
