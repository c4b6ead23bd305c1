//go:build unix

package transport

import (
	"errors"
	"io"
	"syscall"
)

const canAsk = true

// readDescriptor reads what has come; errAgain: nothing has.
func readDescriptor(fd uintptr, p []byte) (int, error) {
	for {
		n, err := syscall.Read(int(fd), p)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EAGAIN):
			return 0, errAgain
		case err != nil:
			return 0, err
		case n == 0:
			return 0, io.EOF
		}
		return n, nil
	}
}

// writeDescriptor writes what the socket takes now, which may be nothing.
func writeDescriptor(fd uintptr, p []byte) (int, error) {
	for {
		n, err := syscall.Write(int(fd), p)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EAGAIN):
			return 0, nil
		case err != nil:
			return 0, err
		}
		return n, nil
	}
}

// isRefused tells that nobody listens.
func isRefused(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }
