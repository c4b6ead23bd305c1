//go:build unix

package systemd

import (
	"time"

	"golang.org/x/sys/unix"
)

// monotonic is the clock that the manager compares with.
func monotonic() (time.Duration, error) {
	var now unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now)
	return time.Duration(now.Nano()), err
}
