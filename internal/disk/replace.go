package disk

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// Replace gives the file of that name other content in one step: whoever opens it, at any time and after any crash,
// finds the old or the new one whole. A new file can be read by its owner alone; one that was there keeps its owner,
// so that a root who edits it does not take it from the service that reads it, but not more than its owner's rights. A
// symbolic link stays, and what it names is replaced.
func Replace(name string, content []byte) error {
	if target, err := filepath.EvalSymlinks(name); err == nil {
		name = target
	}
	temp, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".new-*") // mode 0600
	if err != nil {
		return mapError(err)
	}
	err = fill(temp, name, content)
	if err == nil {
		err = os.Rename(temp.Name(), name)
	}
	if err != nil {
		return mapError(errors.Join(err, os.Remove(temp.Name())))
	}
	return OS().SyncDir(filepath.Dir(name))
}

func fill(temp *os.File, name string, content []byte) error {
	_, err := temp.Write(content)
	if err == nil {
		var was os.FileInfo
		if was, err = os.Stat(name); err == nil {
			err = ownLike(temp, was)
		} else if errors.Is(err, ErrNotExist) {
			err = nil
		}
	}
	if err == nil {
		err = osFile{temp}.Sync()
	}
	return errors.Join(err, temp.Close())
}

// lockLook is how often a lock that somebody else has is tried again.
const lockLook = 20 * time.Millisecond

// LockFile takes the file of that name as a lock, making it if need be, and waits for whoever has it, up to patience.
// It ends with Close, and with the process however that ends. The file stays: to remove it would let two have it.
func LockFile(name string, patience time.Duration) (io.Closer, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, mapError(err)
	}
	for giveUp := time.Now().Add(patience); ; {
		err := lockFile(f)
		if err == nil {
			return f, nil
		}
		if time.Now().After(giveUp) {
			return nil, errors.Join(fmt.Errorf("%s is held by another process: %w", name, err), f.Close())
		}
		time.Sleep(lockLook)
	}
}

// ErrNotRegular is what CheckRegular answers.
var ErrNotRegular = errors.New("it is not a regular file, and has to be one: it is read again when it changes, and a pipe would be waited for")

// FileError is an error of a file that a person has named, or of what is in it.
type FileError struct {
	Name string
	Err  error // does not name the file
}

// Error names the file.
func (e *FileError) Error() string { return e.Name + ": " + e.Err.Error() }

// Unwrap gives Err.
func (e *FileError) Unwrap() error { return e.Err }

// CheckRegular says whether the file of that name can be opened and read without waiting for anybody.
func CheckRegular(name string) error {
	st, err := os.Stat(name)
	if err != nil {
		return errors.Unwrap(err) // the name is known
	}
	if !st.Mode().IsRegular() {
		return ErrNotRegular
	}
	return nil
}
