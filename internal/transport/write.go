package transport

import (
	"net"
	"time"
)

// isPlain tells whether nothing lies on the socket.
func (c *Conn) isPlain() bool { return c.tls == nil && c.frames == nil }

// Write is part of net.Conn.
func (c *Conn) Write(p []byte) (int, error) {
	if c.isPlain() {
		return c.socket.Conn.Write(p)
	}
	pieces := [1][]byte{p}
	n, err := c.writeLayers(pieces[:])
	return int(n), err
}

// WriteBuffers writes all pieces as one and consumes them; returned are the bytes of the pieces.
func (c *Conn) WriteBuffers(pieces *net.Buffers) (int64, error) {
	if c.isPlain() {
		return pieces.WriteTo(c.socket.Conn)
	}
	n, err := c.writeLayers(*pieces)
	*pieces = nil
	return n, err
}

// writeLayers sends the pieces in parts of a buffer's size: full records, few frames, one write each.
func (c *Conn) writeLayers(pieces [][]byte) (sent int64, err error) {
	buf := buffers.Get().(*[bufferSize]byte)
	defer buffers.Put(buf)
	part := buf[:partHead]
	for i, piece := range pieces {
		for len(piece) > 0 {
			n := min(len(piece), partMax-len(part))
			part, piece = append(part, piece[:n]...), piece[n:]
			if len(part) < partMax && (len(piece) > 0 || i < len(pieces)-1) {
				continue
			}
			if err := c.putPart(part); err != nil {
				return sent, err
			}
			if err := c.socket.flush(); err != nil {
				return sent, err
			}
			sent += int64(len(part) - partHead)
			part = part[:partHead]
		}
	}
	return sent, nil
}

// A part leaves room in front for the head of a frame, and is, with it, a whole number of full TLS records.
const (
	partHead = 4
	partMax  = bufferSize
)

// putPart hands one part to the layers, without waiting for anybody. It begins with room for a frame's head.
func (c *Conn) putPart(part []byte) error {
	data := part[partHead:]
	if c.frames != nil {
		data = dataFrame(part)
	}
	var err error
	if c.tls != nil {
		_, err = c.tls.Write(data)
	} else {
		_, err = c.socket.Write(data)
	}
	return err
}

// TryWrite writes p, which is not longer than a buffer, without waiting for the peer to take it. left: a part of it
// waits for the next write, of however little, or Flush.
func (c *Conn) TryWrite(p []byte) (n int, left bool) {
	if len(p) > partMax-partHead {
		return 0, false
	}
	buf := buffers.Get().(*[bufferSize]byte)
	err := c.putPart(append(buf[:partHead], p...))
	buffers.Put(buf)
	if err != nil {
		return 0, false // the next write will meet it
	}
	return len(p), c.socket.tryFlush()
}

// Flush sends what TryWrite has left.
func (c *Conn) Flush() error { return c.socket.flush() }

// CloseWrite says that nothing more will be written, in the words of the uppermost layer. The peer's answer is the
// end of what can be read.
func (c *Conn) CloseWrite() error {
	switch {
	case c.frames != nil: // the socket's own end would overtake the peer's closing frame
		return c.closeFrames()
	case c.tls != nil:
		err := c.tls.CloseWrite()
		if flushErr := c.socket.flush(); err == nil {
			err = flushErr
		}
		if err != nil {
			return err
		}
	}
	if half, ok := c.socket.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// politeTime bounds the last words of a connection of net/http.
const politeTime = time.Second

// Close closes the socket.
func (c *Conn) Close() error {
	if c.http && c.tls != nil { // else a peer could not tell the end of an answer from a cut
		if c.SetWriteDeadline(time.Now().Add(politeTime)) == nil {
			_ = c.CloseWrite()
		}
	}
	return c.socket.Conn.Close()
}
