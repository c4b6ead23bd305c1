package transport

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"
)

// bufferSize is how much one read or write of a socket takes: several full TLS records.
const bufferSize = 64 << 10

var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}

// again is the error of a read that would have to wait. TLS goes on after one that calls itself temporary.
type againError struct{}

func (againError) Error() string        { return "nothing has come yet" }
func (againError) Timeout() bool        { return true }
func (againError) Temporary() bool      { return true }
func (againError) Is(target error) bool { return target == syscall.EAGAIN }

var errAgain net.Error = againError{}

// errNotTaken ends a connection whose peer lets answers to its own protocol messages (pings, key updates) pile up.
var errNotTaken = errors.New("the peer does not read")

// waitingMax is how much may wait before that is so: what a writer sends goes out in pieces well below it.
const waitingMax = 4 * bufferSize

// socket is the lowest layer: what TLS takes for its connection. Its read side belongs to whoever reads the
// Conn, one at a time; its write side to anybody.
type socket struct {
	net.Conn
	raw syscall.RawConn

	// Reads never wait while fd is asked, and then take more than they are asked for.
	asked    bool
	fd       uintptr
	ahead    *[bufferSize]byte // nil: nothing
	from, to int
	reading  sync.Mutex // where reads wait, for a descriptor cannot be asked; elsewhere a Read of it is one at a time

	direct bool // writes go out at once: during the TLS handshake, when nobody else writes

	// What was written waits in out until somebody has the time to send it: whoever holds flushing.
	mu       sync.Mutex
	out      []byte
	err      error // of a flush: nothing goes out after it
	flushing sync.Mutex

	// of the flush that does not wait
	put     func(fd uintptr) bool
	putFrom []byte
	putN    int
	putErr  error
}

func (s *socket) init(nc net.Conn) error {
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return fmt.Errorf("a connection without a descriptor: %T", nc)
	}
	raw, err := sc.SyscallConn()
	s.Conn, s.raw = nc, raw
	return err
}

// Read serves the layer above. During Prepare it waits; later it does not, and answers errAgain.
func (s *socket) Read(p []byte) (int, error) {
	if s.ahead != nil {
		n := copy(p, s.ahead[s.from:s.to])
		s.from += n
		if s.from == s.to {
			s.dropAhead()
		}
		return n, nil
	}
	if !s.asked {
		return s.Conn.Read(p)
	}
	buf := buffers.Get().(*[bufferSize]byte)
	n, err := readDescriptor(s.fd, buf[:])
	if err != nil {
		buffers.Put(buf)
		return 0, err
	}
	s.ahead, s.from, s.to = buf, 0, n
	return s.Read(p)
}

// readPlain reads for no layer: as Read, with nothing ahead.
func (s *socket) readPlain(p []byte) (int, error) {
	if !s.asked {
		return s.Conn.Read(p)
	}
	return readDescriptor(s.fd, p)
}

func (s *socket) dropAhead() {
	buffers.Put(s.ahead)
	s.ahead, s.from, s.to = nil, 0, 0
}

// Write keeps p for the next flush.
func (s *socket) Write(p []byte) (int, error) {
	if s.direct {
		return s.Conn.Write(p)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return 0, s.err
	}
	if s.out == nil {
		s.out = buffers.Get().(*[bufferSize]byte)[:0]
	}
	s.out = append(s.out, p...)
	return len(p), nil
}

// SetWriteDeadline is TLS's wish to bound its last words. They are bounded already, by whoever ends the connection.
func (s *socket) SetWriteDeadline(time.Time) error { return nil }

// flush sends what was written, and waits for the peer to take it.
func (s *socket) flush() error {
	s.flushing.Lock()
	for {
		out, err := s.take()
		if out == nil {
			s.flushing.Unlock()
			if err != nil || !s.waiting() {
				return err
			}
			s.flushing.Lock()
			continue
		}
		_, err = s.Conn.Write(out)
		give(out)
		s.fail(err)
	}
}

// tryFlush sends what the socket takes now. left: something is not sent, by this flush or by one under way.
func (s *socket) tryFlush() (left bool) {
	if !canAsk {
		return s.waiting()
	}
	for s.waiting() {
		if !s.flushing.TryLock() {
			return true
		}
		out, _ := s.take()
		n, err := s.tryWrite(out)
		s.putBack(out, n)
		s.fail(err)
		s.flushing.Unlock()
		if n < len(out) {
			return true
		}
	}
	return false
}

func (s *socket) waiting() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.out) > 0 && s.err == nil
}

// take takes what waits; nil: nothing does.
func (s *socket) take() ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil || len(s.out) == 0 {
		return nil, s.err
	}
	out := s.out
	s.out = nil
	return out, nil
}

// putBack returns all but the first n bytes of out to the front of what waits.
func (s *socket) putBack(out []byte, n int) {
	rest := out[n:]
	if len(rest) == 0 {
		give(out)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := append(out[:copy(out, rest)], s.out...)
	give(s.out)
	s.out = kept
}

func (s *socket) fail(err error) {
	if err == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
	give(s.out)
	s.out = nil
}

// give returns a buffer that has not grown to its pool.
func give(out []byte) {
	if cap(out) == bufferSize {
		buffers.Put((*[bufferSize]byte)(out[:bufferSize]))
	}
}

// tryWrite writes what the socket takes now. Its caller holds flushing.
func (s *socket) tryWrite(p []byte) (int, error) {
	if s.put == nil {
		s.put = s.putOnce
	}
	s.putFrom, s.putN, s.putErr = p, 0, nil
	err := s.raw.Write(s.put)
	s.putFrom = nil
	if err == nil {
		err = s.putErr
	}
	return s.putN, err
}

func (s *socket) putOnce(fd uintptr) bool {
	s.putN, s.putErr = writeDescriptor(fd, s.putFrom)
	return true // never wait
}

// pilesUp tells whether more waits than any writer leaves waiting.
func (s *socket) pilesUp() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.out) > waitingMax
}
