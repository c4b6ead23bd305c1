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
			in.raw, in.try, in.put = raw, in.tryRead, in.putOnce
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

// tryWrite writes what the socket takes now and returns how much that was: 0 also for an error, which the
// next write will meet. For the writer.
func (in *input) tryWrite(b []byte) int {
	in.putBytes, in.putN = b, 0
	err := in.raw.Write(in.put)
	in.putBytes = nil
	if err != nil {
		return 0
	}
	return in.putN
}

// putOnce never asks to wait.
func (in *input) putOnce(fd uintptr) bool {
	if n, err := syscall.Write(int(fd), in.putBytes); err == nil {
		in.putN = n
	}
	return true
}
