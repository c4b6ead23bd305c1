// Package disk is the file system as the journal and the SQLite files see it.
// Two things stand behind the interface: the operating system ([OS]) and a
// simulated disk that forgets what was not flushed (package powercut), so that
// the promise "acknowledged means flushed" is proven against the second with
// the very code that runs on the first.
package disk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
)

// Errors that callers tell apart. Implementations wrap them.
var (
	ErrNotExist = fs.ErrNotExist
	ErrExist    = fs.ErrExist
	// ErrLocked: another process (or another view in this one) holds the directory.
	ErrLocked = errors.New("directory is in use by another process")
	// ErrNoSpace: the device or a quota is full (ENOSPC, EDQUOT).
	ErrNoSpace = errors.New("no space left on device")
	// ErrPowerLost is what every handle of a simulated disk answers after the cut.
	ErrPowerLost = errors.New("power lost")
)

// Mode says how OpenFile opens. Files are opened for reading and writing
// unless ReadOnly is set.
type Mode uint8

const (
	ReadOnly  Mode = 1 << iota // no writes through this handle
	Create                     // create an empty file if there is none
	Exclusive                  // with Create: fail with ErrExist if there is one
)

// A File is an open file. Methods may be called by several goroutines.
type File interface {
	// ReadAt and WriteAt follow io.ReaderAt and io.WriterAt. A short write always comes with an error.
	io.ReaderAt
	io.WriterAt
	io.Closer
	// Sync returns once everything written to this file, through any handle, is on the medium
	// (fdatasync on Linux, F_FULLFSYNC on macOS). After an error the state of what was
	// written since the last good Sync is unknown, and a later Sync that succeeds proves nothing about it.
	Sync() error
	Truncate(size int64) error
	Size() (int64, error)
}

// An Entry is one name in a directory.
type Entry struct {
	Name string // last element of the path
	Dir  bool
	Size int64 // bytes, files only
}

// FS is a file system. Names are paths in the form of the host (path/filepath).
// A new name, a rename and a removal are durable only after SyncDir of the
// directory that holds the name.
type FS interface {
	OpenFile(name string, mode Mode) (File, error)
	// Stat answers ErrNotExist when there is nothing of that name.
	Stat(name string) (Entry, error)
	Rename(from, to string) error         // replaces what to names
	Remove(name string) error             // a file or an empty directory
	ReadDir(name string) ([]Entry, error) // sorted by name
	MkdirAll(name string) error
	SyncDir(name string) error
	// Lock takes the directory for this process: ErrLocked when somebody else has it.
	// The lock ends with Close, and with the process however it ends.
	Lock(dir string) (io.Closer, error)
	// Free is the number of bytes an unprivileged process may still write below name.
	Free(name string) (int64, error)
}

// zeroChunk is large enough that its cost is the device's and small enough for a small box.
const zeroChunk = 1 << 20

// Zero writes zero bytes over [from, to). Real writes, not fallocate: an
// unwritten extent would make the first flush of every block wait for the
// file system's own journal.
func Zero(f File, from, to int64) error {
	buf := make([]byte, min(zeroChunk, max(to-from, 0)))
	for from < to {
		n := min(int64(len(buf)), to-from)
		if _, err := f.WriteAt(buf[:n], from); err != nil {
			return fmt.Errorf("zero fill at %d: %w", from, err)
		}
		from += n
	}
	return nil
}

// Preallocate opens name, creating it if need be, and makes it exactly size
// bytes long; bytes it adds are real zeros, flushed. What is there already is kept.
// The caller still owes SyncDir for a new name.
func Preallocate(fsys FS, name string, size int64) (File, error) {
	f, err := fsys.OpenFile(name, Create)
	if err != nil {
		return nil, err
	}
	if err := grow(f, size); err != nil {
		return nil, errors.Join(fmt.Errorf("preallocate %s: %w", name, err), f.Close())
	}
	return f, nil
}

func grow(f File, size int64) error {
	have, err := f.Size()
	if err != nil {
		return err
	}
	if have > size {
		if err := f.Truncate(size); err != nil {
			return err
		}
	}
	if err := Zero(f, have, size); err != nil {
		return err
	}
	return f.Sync()
}
