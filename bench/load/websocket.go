package load

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// webSocket is the client's side of RFC 6455, as much of it as MQTT needs, and cheap: each write is a binary frame,
// masked with zeroes, which leaves the bytes as they are; what is read are the payloads of the frames that come.
type webSocket struct {
	net.Conn
	in   *bufio.Reader
	left uint64 // of the frame that is being read
	out  []byte
}

// openWebSocket asks for the upgrade ([RFC 6455], 4.1).
func openWebSocket(c net.Conn, host, path string) (*webSocket, error) {
	_ = c.SetDeadline(time.Now().Add(Patience))
	defer c.SetDeadline(time.Time{})
	_, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"+
		"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n", path, host)
	if err != nil {
		return nil, err
	}
	in := bufio.NewReaderSize(c, 16<<10)
	res, err := http.ReadResponse(in, nil)
	if err != nil {
		return nil, err
	}
	res.Body.Close()
	// The key is the one in RFC 6455, and so is what it must be answered with.
	if res.StatusCode != http.StatusSwitchingProtocols || res.Header.Get("Sec-WebSocket-Accept") != "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" ||
		res.Header.Get("Sec-WebSocket-Protocol") != "mqtt" {
		return nil, fmt.Errorf("answered by %s, %v", res.Status, res.Header)
	}
	return &webSocket{Conn: c, in: in}, nil
}

// NetConn is the connection beneath.
func (w *webSocket) NetConn() net.Conn { return w.Conn }

func (w *webSocket) Write(b []byte) (int, error) {
	const final, binaryFrame, masked = 0x80, 2, 0x80
	w.out = append(w.out[:0], final|binaryFrame)
	switch n := len(b); {
	case n < 126:
		w.out = append(w.out, masked|byte(n))
	case n < 1<<16:
		w.out = binary.BigEndian.AppendUint16(append(w.out, masked|126), uint16(n))
	default:
		w.out = binary.BigEndian.AppendUint64(append(w.out, masked|127), uint64(n))
	}
	w.out = append(append(w.out, 0, 0, 0, 0), b...)
	if _, err := w.Conn.Write(w.out); err != nil {
		return 0, err
	}
	return len(b), nil
}

func (w *webSocket) Read(b []byte) (int, error) {
	for w.left == 0 {
		if err := w.nextFrame(); err != nil {
			return 0, err
		}
	}
	// All that is at hand, whole frames at once: a read for each frame would make many writes of acknowledgements.
	n, err := w.in.Read(b[:min(uint64(len(b)), w.left)])
	w.left -= uint64(n)
	for err == nil && n < len(b) && w.in.Buffered() > 0 {
		if w.left == 0 {
			if w.in.Buffered() < 10 {
				break
			}
			if err = w.nextFrame(); err != nil {
				break
			}
		}
		more := min(uint64(len(b)-n), w.left, uint64(w.in.Buffered()))
		m, _ := w.in.Read(b[n : n+int(more)])
		n, w.left = n+m, w.left-uint64(m)
	}
	return n, err
}

func (w *webSocket) nextFrame() error {
	var h [10]byte
	if _, err := io.ReadFull(w.in, h[:2]); err != nil {
		return err
	}
	extra := 0
	switch w.left = uint64(h[1] & 127); w.left {
	case 126:
		extra = 2
	case 127:
		extra = 8
	}
	if _, err := io.ReadFull(w.in, h[2:2+extra]); err != nil {
		return err
	}
	switch extra {
	case 2:
		w.left = uint64(binary.BigEndian.Uint16(h[2:]))
	case 8:
		w.left = binary.BigEndian.Uint64(h[2:])
	}
	const closing = 8
	switch opcode := h[0] & 15; {
	case opcode == closing:
		return io.EOF
	case opcode > closing || h[1]&128 != 0:
		return errors.New("a WebSocket frame that a broker has no reason to send")
	}
	return nil
}
