package load

import (
	"crypto/tls"
	"fmt"
	"net"
)

// Target is where a broker speaks MQTT, and how.
type Target struct {
	Addr string
	// TLS is nil for a plain connection.
	TLS *tls.Config
	// Path is that of a WebSocket, "" for MQTT on the stream itself.
	Path string
	// User and Password are sent when they are not empty.
	User, Password string
}

// Dial connects, sends CONNECT and waits for its acceptance.
func (t Target) Dial(id string, clean bool) (net.Conn, error) {
	c, err := t.open()
	if err != nil {
		return nil, err
	}
	answer, err := handshake(c, Connect(id, clean, t.User, t.Password), 4, typeConnack)
	if err == nil && answer[3] != 0 {
		err = fmt.Errorf("refused with %d", answer[3])
	}
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("connecting %s: %w", id, err)
	}
	return c, nil
}

func (t Target) open() (net.Conn, error) {
	c, err := net.DialTimeout("tcp", t.Addr, Patience)
	if err != nil {
		return nil, err
	}
	if t.TLS != nil {
		c = tls.Client(c, t.TLS) // shakes hands at the first write
	}
	if t.Path != "" {
		ws, err := openWebSocket(c, t.Addr, t.Path)
		if err != nil {
			c.Close()
			return nil, fmt.Errorf("opening the WebSocket %s: %w", t.Path, err)
		}
		c = ws
	}
	return c, nil
}

// Cut ends the TCP connection under TLS and WebSocket without a word of either, so that the broker does not end it first.
func Cut(c net.Conn) error { return socket(c).Close() }

// socket is the TCP connection under TLS and WebSocket.
func socket(c net.Conn) *net.TCPConn {
	for {
		under, is := c.(interface{ NetConn() net.Conn })
		if !is {
			return c.(*net.TCPConn)
		}
		c = under.NetConn()
	}
}
