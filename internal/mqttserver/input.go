package mqttserver

import (
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
)

// input is what a connection has received and not yet handled. It holds a buffer only while there are
// bytes: thousands of idle connections cost none.
type input struct {
	nc   net.Conn
	raw  syscall.RawConn // nil where the stream has no file descriptor to ask
	buf  []byte          // buf[from:to] is at hand
	from int
	to   int

	// of the read under way, for tryRead, which is made once
	need int
	n    int
	err  error
	try  func(fd uintptr) bool
}

// inputBuffer is how much one read takes: many small packets, or a part of a large one.
const inputBuffer = 64 << 10

var inputBuffers = sync.Pool{New: func() any { return new([inputBuffer]byte) }}

func (in *input) init(nc net.Conn) {
	in.nc = nc
	in.try = in.tryRead
	if sc, ok := nc.(syscall.Conn); ok {
		if raw, err := sc.SyscallConn(); err == nil {
			in.raw = raw
		}
	}
}

// bytes are those at hand.
func (in *input) bytes() []byte { return in.buf[in.from:in.to] }

// consume drops the first n.
func (in *input) consume(n int) {
	in.from += n
	if in.from == in.to {
		in.release()
	}
}

// release gives the buffer back.
func (in *input) release() {
	if cap(in.buf) == inputBuffer {
		inputBuffers.Put((*[inputBuffer]byte)(in.buf[:inputBuffer]))
	}
	in.buf, in.from, in.to = nil, 0, 0
}

// reserve makes room behind what is at hand, which is the beginning of a packet of need bytes (0: not yet
// known). A packet larger than the buffer gets memory as its bytes arrive, never more than twice what has
// come: a length that lies reserves nothing.
func (in *input) reserve() {
	if in.buf == nil {
		in.buf = inputBuffers.Get().(*[inputBuffer]byte)[:]
		return
	}
	have := in.to - in.from
	if in.from > 0 {
		copy(in.buf, in.buf[in.from:in.to])
		in.from, in.to = 0, have
	}
	if have < len(in.buf) {
		return
	}
	bigger := make([]byte, min(max(in.need, have+1), 2*have))
	copy(bigger, in.buf)
	in.release()
	in.buf, in.to = bigger, have
}

// fill waits for more bytes and returns how many came. need is the size of the packet whose beginning is
// at hand, 0 if not known.
func (in *input) fill(need int) (int, error) {
	in.need = need
	if in.raw == nil {
		in.reserve()
		n, err := in.nc.Read(in.buf[in.to:])
		in.to += n
		return n, err
	}
	in.n, in.err = 0, nil
	if err := in.raw.Read(in.try); err != nil {
		return 0, err
	}
	return in.n, in.err
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
			if in.from == in.to {
				in.release()
			}
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
