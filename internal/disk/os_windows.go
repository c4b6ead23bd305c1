package disk

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/windows"
)

func mapError(err error) error {
	if errors.Is(err, windows.ERROR_DISK_FULL) || errors.Is(err, windows.ERROR_HANDLE_DISK_FULL) {
		return fmt.Errorf("%w: %w", ErrNoSpace, err)
	}
	return err
}

// syncDir: NTFS journals names itself and a directory cannot be flushed.
func syncDir(*os.File) error { return nil }

func lockFile(f *os.File) error {
	// One byte far beyond the owner's id, which others must be able to read.
	ol := windows.Overlapped{OffsetHigh: 1}
	return windows.LockFileEx(windows.Handle(f.Fd()),
		windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &ol)
}

// ownLike: a file's owner is inherited from its directory.
func ownLike(*os.File, os.FileInfo) error { return nil }

func freeBytes(name string) (int64, error) {
	p, err := windows.UTF16PtrFromString(name)
	if err != nil {
		return 0, err
	}
	var free uint64
	if err := windows.GetDiskFreeSpaceEx(p, &free, nil, nil); err != nil {
		return 0, &os.PathError{Op: "GetDiskFreeSpaceEx", Path: name, Err: err}
	}
	return int64(free), nil
}
