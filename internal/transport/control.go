package transport

import (
	"encoding/binary"
	"io"

	"github.com/gobwas/ws"
)

// control answers a control frame.
func (c *Conn) control(op ws.OpCode, payload []byte) error {
	f := c.frames
	switch op {
	case ws.OpPing:
		c.pong(payload)
	case ws.OpClose:
		code := ws.StatusNoStatusRcvd
		if len(payload) == 1 {
			return frameError(ws.StatusProtocolError, "a closing frame with half a code")
		}
		if len(payload) > 1 {
			var reason string
			code, reason = ws.ParseCloseFrameData(payload)
			if err := ws.CheckCloseFrameData(code, reason); err != nil {
				return frameError(ws.StatusProtocolError, err.Error())
			}
		}
		f.mu.Lock()
		if code != ws.StatusNoStatusRcvd {
			f.reply = ws.NewCloseFrameBody(code, "")
		}
		f.mu.Unlock()
		return io.EOF
	}
	return nil
}

// pong answers a ping as far as the peer takes answers: one that waits stands for all (RFC 6455, 5.5.3).
func (c *Conn) pong(payload []byte) {
	f := c.frames
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.isClosed || f.pinged && c.socket.waiting() {
		return
	}
	f.pinged = c.putControl(ws.OpPong, payload) == nil && c.socket.tryFlush()
}

// closeFrames sends the closing frame: the answer to the client's, or the first.
func (c *Conn) closeFrames() error {
	f := c.frames
	f.mu.Lock()
	if f.isClosed {
		f.mu.Unlock()
		return nil
	}
	f.isClosed = true
	body := f.reply
	switch {
	case body != nil:
	case f.fault != nil:
		body = ws.NewCloseFrameBody(f.fault.Code, f.fault.Text)
	default:
		body = ws.NewCloseFrameBody(ws.StatusNormalClosure, "")
	}
	err := c.putControl(ws.OpClose, body)
	f.mu.Unlock()
	if err != nil {
		return err
	}
	return c.socket.flush()
}

// putControl writes a control frame for the next flush.
func (c *Conn) putControl(op ws.OpCode, payload []byte) error {
	frame := append([]byte{0x80 | byte(op), byte(len(payload))}, payload...)
	var err error
	if c.tls != nil {
		_, err = c.tls.Write(frame)
	} else {
		_, err = c.socket.Write(frame)
	}
	return err
}

// dataFrame makes a binary frame ([MQTT-6.0.0-1]) of a part, whose first bytes are room for the head.
func dataFrame(part []byte) []byte {
	size := len(part) - partHead
	if size < 126 {
		frame := part[partHead-2:]
		frame[0], frame[1] = 0x80|byte(ws.OpBinary), byte(size)
		return frame
	}
	part[0], part[1] = 0x80|byte(ws.OpBinary), 126
	binary.BigEndian.PutUint16(part[2:], uint16(size))
	return part
}
