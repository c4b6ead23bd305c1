package mqttserver

import (
	"net"
	"sync"
	"syscall"
)

// input is what a connection has received and not yet handled. It holds a buffer only while there are
// bytes: thousands of idle connections cost none.
type input struct {
	nc   net.Conn
	raw  syscall.RawConn // nil where the stream has no file descriptor to ask
	over Layered         // nil: nothing lies on the descriptor
	buf  []byte          // buf[from:to] is at hand
	from int
	to   int

	// of the read under way, for tryRead, which is made once
	need int
	n    int
	err  error
	try  func(fd uintptr) bool

	// of the writer, for putOnce
	put      func(fd uintptr) bool
	putBytes []byte
	putN     int
}

// Layered is a net.Conn that lies on a descriptor without being all there is to say about it: TLS, WebSocket. It lets
// its connection wait without a buffer as a plain socket does, and its answers leave without waiting.
type Layered interface {
	// Descriptor is what to wait for.
	Descriptor() syscall.RawConn
	// ReadNow reads what has come, as much as p takes, within a Read of the descriptor. syscall.EAGAIN: nothing
	// has.
	ReadNow(fd uintptr, p []byte) (int, error)
	// TryWrite writes p without waiting, all of it or nothing. left: the peer has not taken all that was written;
	// the rest leaves with the next write, or by Flush.
	TryWrite(p []byte) (n int, left bool)
	Flush() error
	// WriteBuffers writes all pieces as one Write would, and consumes them.
	WriteBuffers(pieces *net.Buffers) (int64, error)
}

// inputBuffer is how much one read takes: many small packets, or a part of a large one.
const inputBuffer = 64 << 10

// inputRest is the largest rest that is worth a move when the reader waits.
const inputRest = 4 << 10

var inputBuffers = sync.Pool{New: func() any { return new([inputBuffer]byte) }}

func (in *input) init(nc net.Conn) {
	in.nc = nc
	in.poll()
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

// settle gives the buffer back for the time of a wait: all of it, or the most when only the beginning of a small
// packet is there. A client that sends half a packet and no more holds no more than that.
func (in *input) settle() {
	have := in.bytes()
	switch {
	case len(have) == 0:
		in.release()
	case len(in.buf) == inputBuffer && len(have) <= inputRest:
		rest := append(make([]byte, 0, len(have)), have...)
		in.release()
		in.buf, in.to = rest, len(rest)
	}
}

// reserve makes room behind what is at hand, which is the beginning of a packet of need bytes (0: not yet
// known). A packet larger than the buffer gets memory as its bytes arrive, never more than twice what has
// come: a length that lies reserves nothing.
func (in *input) reserve() {
	have := in.to - in.from
	if len(in.buf) < inputBuffer { // none, or a rest that settle left
		rest := in.bytes()
		in.buf = inputBuffers.Get().(*[inputBuffer]byte)[:]
		in.from, in.to = 0, copy(in.buf, rest)
		return
	}
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
