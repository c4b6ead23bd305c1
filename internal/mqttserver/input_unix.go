//go:build unix

package mqttserver

import (
	"errors"
	"io"
	"syscall"
)

// poll asks the connection's descriptor, so that it waits without a buffer.
func (in *input) poll() {
	if sc, ok := in.nc.(syscall.Conn); ok {
		if raw, err := sc.SyscallConn(); err == nil {
			in.raw, in.try = raw, in.tryRead
		}
	}
}

// tryRead reads what is there. False: nothing is, wait and try again. The buffer is taken only when there
// may be something to put into it, and given back before the wait.
func (in *input) tryRead(fd uintptr) bool {
	in.reserve()
	for {
		n, err := syscall.Read(int(fd), in.buf[in.to:])
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EAGAIN):
			in.settle()
			return false
		case err != nil:
			in.err = err
		case n == 0:
			in.err = io.EOF
		default:
			in.n = n
			in.to += n
		}
		return true
	}
}
