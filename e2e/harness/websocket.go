package harness

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"time"

	"github.com/gorilla/websocket"
)

// OverWebSocket is the same broker, reached over WebSocket on its HTTP listener.
func (b *Broker) OverWebSocket() *Broker {
	return &Broker{t: b.t, process: b.process, through: "ws://" + b.http + "/mqtt"}
}

// socket is a WebSocket as a stream of bytes. What is written is cut into frames at random, so that frames and packets
// do not begin and end together; anything but a binary frame is an error to read.
type socket struct {
	*websocket.Conn
	frame io.Reader
}

func dialWebSocket(url string) (net.Conn, error) {
	dialer := websocket.Dialer{Subprotocols: []string{"other", "mqtt"}, HandshakeTimeout: Patience}
	conn, res, err := dialer.Dial(url, nil)
	if err != nil {
		return nil, err
	}
	res.Body.Close()
	if got := conn.Subprotocol(); got != "mqtt" {
		conn.Close()
		return nil, fmt.Errorf("the server selects the subprotocol %q, not mqtt", got)
	}
	return &socket{Conn: conn}, nil
}

func (s *socket) Read(b []byte) (int, error) {
	for {
		if s.frame == nil {
			kind, frame, err := s.NextReader()
			if err != nil {
				return 0, err
			}
			if kind != websocket.BinaryMessage {
				return 0, fmt.Errorf("%w: a frame of kind %d", errForm, kind)
			}
			s.frame = frame
		}
		n, err := s.frame.Read(b)
		if err == io.EOF {
			s.frame, err = nil, nil
			if n == 0 {
				continue
			}
		}
		return n, err
	}
}

func (s *socket) Write(b []byte) (n int, err error) {
	for len(b) > 0 {
		cut := 1 + rand.IntN(len(b))
		if err := s.WriteMessage(websocket.BinaryMessage, b[:cut]); err != nil {
			return n, err
		}
		n += cut
		b = b[cut:]
	}
	return n, nil
}

func (s *socket) SetDeadline(t time.Time) error {
	if err := s.SetReadDeadline(t); err != nil {
		return err
	}
	return s.SetWriteDeadline(t)
}
