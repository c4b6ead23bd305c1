//go:build unix

package disk

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

func mapError(err error) error {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return fmt.Errorf("%w: %w", ErrNoSpace, err)
	}
	return err
}

func syncDir(d *os.File) error { return d.Sync() }

// lockFile uses flock: it belongs to the open file, so it also keeps two openings within one
// process apart, and the kernel drops it with the process.
func lockFile(f *os.File) error {
	return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
}

// ownLike gives the file the owner that another one has, if it is not ours as well.
func ownLike(f *os.File, other os.FileInfo) error {
	st, ok := other.Sys().(*syscall.Stat_t)
	if !ok || int(st.Uid) == os.Geteuid() && int(st.Gid) == os.Getegid() {
		return nil
	}
	return f.Chown(int(st.Uid), int(st.Gid))
}

func freeBytes(name string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(name, &st); err != nil {
		return 0, &os.PathError{Op: "statfs", Path: name, Err: err}
	}
	return int64(uint64(st.Bavail) * uint64(st.Bsize)), nil //nolint:unconvert // their types differ between systems
}
