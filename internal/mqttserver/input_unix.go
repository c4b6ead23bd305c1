//go:build unix

package mqttserver

import (
	"errors"
	"io"
	"syscall"
)

// poll asks the connection's descriptor, so that it waits without a buffer.
func (in *input) poll() {
	if over, ok := in.nc.(Layered); ok {
		in.over, in.raw, in.try = over, over.Descriptor(), in.tryRead
		return
	}
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
		n, err := in.readNow(fd)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EAGAIN):
			in.settle()
			return false
		case err != nil:
			in.err = err
		case n == 0 && in.over == nil:
			in.err = io.EOF
		default:
			in.n = n
			in.to += n
		}
		return true
	}
}

func (in *input) readNow(fd uintptr) (int, error) {
	if in.over != nil {
		return in.over.ReadNow(fd, in.buf[in.to:])
	}
	return syscall.Read(int(fd), in.buf[in.to:])
}

// tryWrite writes what the socket takes now and returns how much that was: 0 also for an error, which the
// next write will meet. left: of what it has returned as written a part waits for flush. For the writer.
func (in *input) tryWrite(b []byte) (n int, left bool) {
	if len(b) == 0 {
		return 0, false
	}
	if in.over != nil {
		return in.over.TryWrite(b)
	}
	in.putBytes, in.putN = b, 0
	err := in.raw.Write(in.put)
	in.putBytes = nil
	if err != nil {
		return 0, false
	}
	return in.putN, false
}

// putOnce never asks to wait.
func (in *input) putOnce(fd uintptr) bool {
	if n, err := syscall.Write(int(fd), in.putBytes); err == nil {
		in.putN = n
	}
	return true
}
