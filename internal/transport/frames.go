package transport

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/gobwas/ws"
)

// frames is the WebSocket layer of a connection: it makes one byte stream of the client's binary frames. A packet may
// span frames and a frame may hold packets ([MQTT-6.0.0-2]), so frames are never gathered: a payload goes on as it
// comes. All but closing belongs to the reader.
type frames struct {
	max int64 // payload of one frame

	raw      *[bufferSize]byte // raw[from:to] is not decoded yet; nil: nothing
	from, to int
	rest     []byte // of raw, between reads, if it is little; nil: nothing

	left    int64 // of the payload of the frame under way
	mask    [4]byte
	masked  int // so much of it is decoded
	message bool
	barren  int   // frames without a byte for the reader, since one had some or there was a wait
	err     error // how reading ended

	mu       sync.Mutex
	isClosed bool        // our closing frame is written
	reply    []byte      // to the client's closing frame
	fault    *FrameError // for which ours will be
	pinged   bool        // a pong is written that has not left
}

// FrameError is a client's breach of RFC 6455 or of the rules of MQTT over it.
type FrameError struct {
	Code ws.StatusCode
	Text string
}

func (e *FrameError) Error() string { return "WebSocket: " + e.Text }

// PeerFault says that whoever is at the other end is to blame.
func (e *FrameError) PeerFault() {}

func frameError(code ws.StatusCode, text string) error { return &FrameError{code, text} }

// readFrames decodes what has come, as much as p takes.
func (c *Conn) readFrames(p []byte) (n int, err error) {
	f := c.frames
	if f.err != nil {
		return 0, f.err
	}
	f.barren = 0
	if f.rest != nil {
		f.raw = buffers.Get().(*[bufferSize]byte)
		f.from, f.to = 0, copy(f.raw[:], f.rest)
		f.rest = nil
	}
	for n < len(p) {
		if f.left > 0 {
			m, err := f.payload(c, p[n:])
			n += m
			if err != nil {
				return f.ends(n, err)
			}
			continue
		}
		if err := f.head(c); err != nil {
			return f.ends(n, err)
		}
	}
	f.drop()
	return n, nil
}

// ends gives what there is before the error that ended it. What has come but is no whole head yet must not keep a
// buffer.
func (f *frames) ends(n int, err error) (int, error) {
	if again := errors.Is(err, errAgain); !again {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = io.EOF // many clients just go
		}
		f.err = err
		f.from = f.to
		f.mu.Lock()
		_ = errors.As(err, &f.fault)
		f.mu.Unlock()
	}
	f.drop()
	if n > 0 {
		return n, nil
	}
	return 0, err
}

// drop gives the buffer back if it holds little.
func (f *frames) drop() {
	if f.raw == nil || f.to-f.from > headMax {
		return
	}
	f.rest = append(f.rest[:0], f.raw[f.from:f.to]...)
	if len(f.rest) == 0 {
		f.rest = nil
	}
	buffers.Put(f.raw)
	f.raw, f.from, f.to = nil, 0, 0
}

// headMax is the longest that must be there whole: the head of a frame with the payload of a control frame.
const headMax = ws.MaxHeaderSize + ws.MaxControlFramePayloadSize

// barrenMax bounds the frames of one read that give it nothing: empty ones and control frames. As long as they keep
// coming it neither returns nor waits, and only a wait ends by a deadline.
const barrenMax = 1 << 16

// fill reads more behind what is there.
func (f *frames) fill(c *Conn) error {
	if !c.socket.asked { // it may wait
		f.barren = 0
	}
	if f.raw == nil {
		f.raw = buffers.Get().(*[bufferSize]byte)
	}
	if f.from > 0 {
		f.to = copy(f.raw[:], f.raw[f.from:f.to])
		f.from = 0
	}
	n, err := c.readBelow(f.raw[f.to:])
	f.to += n
	return err
}

// readBelow reads from what the frames lie on.
func (c *Conn) readBelow(p []byte) (int, error) {
	if c.tls != nil {
		return c.readTLS(p)
	}
	return c.socket.readPlain(p)
}

// payloadDirect is from which size on a payload is read to where it goes, without a copy.
const payloadDirect = 4 << 10

// payload decodes a part of the payload under way.
func (f *frames) payload(c *Conn, p []byte) (int, error) {
	p = p[:min(int64(len(p)), f.left)]
	var n int
	var err error
	if f.from == f.to && len(p) >= payloadDirect {
		if n, err = c.readBelow(p); err != nil {
			return 0, err
		}
	} else {
		if f.from == f.to {
			if err := f.fill(c); err != nil {
				return 0, err
			}
		}
		n = copy(p, f.raw[f.from:f.to])
		f.from += n
	}
	ws.Cipher(p[:n], f.mask, f.masked)
	f.masked += n
	f.left -= int64(n)
	f.barren = 0
	return n, nil
}

// head takes in the next frame: the head of one with data, or all of a control frame.
func (f *frames) head(c *Conn) error {
	for {
		h, size := parseHead(f.raw, f.from, f.to)
		if size > 0 {
			if err := f.check(&h); err != nil {
				return err
			}
			if f.barren++; f.barren > barrenMax {
				return frameError(ws.StatusPolicyViolation, "too many frames without data")
			}
			if !h.OpCode.IsControl() {
				f.from += size
				f.left, f.mask, f.masked, f.message = h.Length, h.Mask, 0, !h.Fin
				return nil
			}
			if whole := size + int(h.Length); f.to-f.from >= whole {
				payload := f.raw[f.from+size : f.from+whole]
				f.from += whole
				ws.Cipher(payload, h.Mask, 0)
				return c.control(h.OpCode, payload)
			}
		}
		if err := f.fill(c); err != nil {
			return err
		}
	}
}

// parseHead decodes the head of a frame (RFC 6455, 5.2); size 0: it is not all there.
func parseHead(raw *[bufferSize]byte, from, to int) (h ws.Header, size int) {
	if raw == nil || to-from < 2 {
		return h, 0
	}
	b := raw[from:to]
	h.Fin, h.Rsv, h.OpCode, h.Masked = b[0]&0x80 != 0, b[0]>>4&7, ws.OpCode(b[0]&0x0F), b[1]&0x80 != 0
	size = 2
	switch short := b[1] & 0x7F; short {
	case 126:
		size += 2
	case 127:
		size += 8
	default:
		h.Length = int64(short)
	}
	end := size
	if h.Masked {
		end += len(h.Mask)
	}
	if len(b) < end {
		return h, 0
	}
	switch size {
	case 4:
		h.Length = int64(binary.BigEndian.Uint16(b[2:]))
	case 10:
		h.Length = int64(binary.BigEndian.Uint64(b[2:])) // negative: the first bit must be 0
	}
	copy(h.Mask[:], b[size:end])
	return h, end
}

// check says what is wrong with a frame by its head.
func (f *frames) check(h *ws.Header) error {
	state := ws.StateServerSide
	if f.message {
		state = state.Set(ws.StateFragmented)
	}
	err := ws.CheckHeader(*h, state)
	switch {
	case err != nil:
		return frameError(ws.StatusProtocolError, err.Error())
	case h.OpCode == ws.OpText: // [MQTT-6.0.0-1]
		return frameError(ws.StatusUnsupportedData, "a text frame; MQTT is sent in binary ones")
	case h.Length < 0 || h.Length > f.max && !h.OpCode.IsControl():
		return frameError(ws.StatusMessageTooBig, fmt.Sprintf("a frame of more than %d bytes", f.max))
	}
	return nil
}
