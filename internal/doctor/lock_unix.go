//go:build unix

package doctor

import (
	"errors"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// locked tells whether a broker holds the file, and its process id as the file has it. It holds the lock itself, shared,
// for as long as a system call takes.
func locked(name string) (owner string, is bool, err error) {
	f, err := os.Open(name) //nolint:gosec // in the operator's directory
	if err != nil {
		return "", false, err
	}
	defer f.Close()
	err = unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	if !errors.Is(err, unix.EWOULDBLOCK) {
		return "", false, err
	}
	text, err := io.ReadAll(io.LimitReader(f, 20))
	if err != nil || len(text) == 0 {
		return "unknown", true, nil // the id is a courtesy
	}
	return strings.TrimSpace(string(text)), true, nil
}

// openFiles compares the limit on open files with the need.
func openFiles(need uint64) Finding {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return warning("files", "", "the limit on open files cannot be read: %v", err)
	}
	have := uint64(limit.Max) //nolint:unconvert // signed on some systems; the broker raises itself up to the hard limit
	if have < need {
		return warning("files", "raise it (LimitNOFILE= of systemd, ulimit -Hn, --ulimit of containers), or lower --max-connections",
			"%d files may be open, --max-connections needs %d: connections beyond are not accepted", have, need)
	}
	return ok("files", "%d files may be open, %d are needed", have, need)
}
