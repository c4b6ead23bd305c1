package disk

import (
	"os"
	"syscall"
)

// syncData uses fdatasync: sizes are flushed when they changed, time stamps are not.
func syncData(f *os.File) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var syncErr error
	err = conn.Control(func(fd uintptr) {
		for {
			// EINTR is no failed flush: nothing was tried.
			if syncErr = syscall.Fdatasync(int(fd)); syncErr != syscall.EINTR {
				return
			}
		}
	})
	if err != nil {
		return err
	}
	return syncErr
}
