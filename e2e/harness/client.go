package harness

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// Patience is how long a test waits for one thing that must happen.
const Patience = 10 * time.Second

// Client is a raw MQTT client. It sends what it is told and acknowledges nothing by itself.
// Its methods that take no error as a result fail the test.
type Client struct {
	t       testing.TB
	conn    net.Conn
	r       *bufio.Reader
	Version byte
	Connack Packet
	write   sync.Mutex
	nextID  uint16
	begun   bool // CONNACK has come
	over    bool // DISCONNECT has come, or a CONNACK that refuses
}

// Dial opens a TCP connection, or a WebSocket where addr is a URL, and sends nothing.
func Dial(t testing.TB, addr string, version byte) *Client {
	t.Helper()
	c, err := TryDial(t, addr, version)
	if err != nil {
		t.Fatalf("connecting to %s: %v", addr, err)
	}
	t.Cleanup(func() { c.Drop() })
	return c
}

// TryDial is Dial for moments at which the broker may be down.
func TryDial(t testing.TB, addr string, version byte) (*Client, error) {
	dial := func() (net.Conn, error) { return net.DialTimeout("tcp", addr, Patience) }
	if strings.HasPrefix(addr, "ws://") {
		dial = func() (net.Conn, error) { return dialWebSocket(addr) }
	}
	conn, err := dial()
	if err != nil {
		return nil, err
	}
	return &Client{t: t, conn: conn, r: bufio.NewReaderSize(conn, 64<<10), Version: version}, nil
}

// DialFrom is Dial from a local address of one's choice, such as 127.0.0.2.
func DialFrom(t testing.TB, local, addr string, version byte) *Client {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(local)}, Timeout: Patience}
	conn, err := dialer.Dial("tcp", addr)
	if err != nil {
		t.Fatalf("connecting to %s from %s: %v", addr, local, err)
	}
	c := &Client{t: t, conn: conn, r: bufio.NewReaderSize(conn, 64<<10), Version: version}
	t.Cleanup(func() { c.Drop() })
	return c
}

// On is a client on a connection that is there already.
func On(t testing.TB, conn net.Conn, version byte) *Client {
	t.Helper()
	c := &Client{t: t, conn: conn, r: bufio.NewReaderSize(conn, 64<<10), Version: version}
	t.Cleanup(func() { c.Drop() })
	return c
}

// Open dials, connects and expects success.
func Open(t testing.TB, addr string, c Connect) *Client {
	t.Helper()
	return Greet(t, Dial(t, addr, c.Version), c)
}

// Greet connects and expects success.
func Greet(t testing.TB, client *Client, c Connect) *Client {
	t.Helper()
	client.Write(c.Bytes())
	client.Connack = client.Expect(CONNACK)
	if client.Connack.Code != 0 {
		t.Fatalf("CONNECT of %q refused: %v", c.ClientID, client.Connack)
	}
	return client
}

// Persistent is a CONNECT that continues a session which outlives its connection.
func Persistent(version byte, id string) Connect {
	c := Connect{Version: version, ClientID: id}
	if version == 5 {
		c.Props = Props{Num(SessionExpiry, 3600)}
	}
	return c
}

// Clean is a CONNECT whose session ends with its connection.
func Clean(version byte, id string) Connect {
	return Connect{Version: version, ClientID: id, Clean: true}
}

// Write sends bytes as they are; an error is only seen by TryWrite, since a broker may be dead on purpose.
func (c *Client) Write(b []byte) { _ = c.TryWrite(b) }

// TryWrite sends bytes as they are.
func (c *Client) TryWrite(b []byte) error {
	c.write.Lock()
	defer c.write.Unlock()
	_ = c.conn.SetWriteDeadline(time.Now().Add(Patience))
	_, err := c.conn.Write(b)
	return err
}

// Send sends one packet.
func (c *Client) Send(p Packet) { c.Write(p.Bytes(c.Version)) }

// TryRead reads the next packet, or says what ended the connection within the given time. A packet that a server must
// not send fails the test, whatever is done with the error.
func (c *Client) TryRead(within time.Duration) (Packet, error) {
	_ = c.conn.SetReadDeadline(time.Now().Add(within))
	p, err := ReadPacket(c.r, c.Version)
	switch {
	case err != nil:
	case c.over:
		err = fmt.Errorf("%w: %v behind the end of the connection", errForm, p)
	case c.begun == (p.Type == CONNACK):
		err = fmt.Errorf("%w: %v, where the first packet and no other is CONNACK", errForm, p)
	default:
		c.begun = true
		c.over = p.Type == DISCONNECT || p.Type == CONNACK && p.Code != 0
	}
	if errors.Is(err, errForm) {
		c.t.Error(err)
	}
	return p, err
}

// Read reads the next packet.
func (c *Client) Read() Packet {
	c.t.Helper()
	p, err := c.TryRead(Patience)
	if err != nil {
		dump(c.t, c.conn.RemoteAddr().String(), err)
		c.t.Fatalf("waiting for a packet: %v", err)
	}
	return p
}

// Expect reads the next packet, which must be of this type.
func (c *Client) Expect(kind byte) Packet {
	c.t.Helper()
	p, err := c.TryRead(Patience)
	if err != nil {
		dump(c.t, c.conn.RemoteAddr().String(), err)
		c.t.Fatalf("waiting for %s: %v", typeNames[kind], err)
	}
	if p.Type != kind {
		c.t.Fatalf("waiting for %s, got %v", typeNames[kind], p)
	}
	return p
}

// ExpectPublish reads a PUBLISH with this topic and payload.
func (c *Client) ExpectPublish(topic, payload string) Packet {
	c.t.Helper()
	p := c.Expect(PUBLISH)
	if p.Topic != topic || string(p.Payload) != payload {
		c.t.Fatalf("waiting for %s %q, got %v", topic, payload, p)
	}
	return p
}

// ExpectClosed reads until the broker ends the connection and gives the DISCONNECT that came before, if any.
func (c *Client) ExpectClosed() (last Packet) {
	c.t.Helper()
	return c.ExpectClosedWithin(Patience)
}

// ExpectClosedWithin is ExpectClosed for an end that may take longer.
func (c *Client) ExpectClosedWithin(limit time.Duration) (last Packet) {
	c.t.Helper()
	for deadline := time.Now().Add(limit); ; {
		p, err := c.TryRead(time.Until(deadline))
		if errors.Is(err, os.ErrDeadlineExceeded) {
			c.t.Fatalf("the broker did not end the connection within %v", limit)
		}
		if err != nil {
			return last
		}
		if last = p; last.Type != DISCONNECT && last.Type != CONNACK {
			last = Packet{}
		}
	}
}

// NextID counts packet identifiers of this client's own packets.
func (c *Client) NextID() uint16 {
	if c.nextID++; c.nextID == 0 {
		c.nextID = 1
	}
	return c.nextID
}

// Subscribe subscribes and gives the granted codes.
func (c *Client) Subscribe(subs ...Sub) []byte {
	c.t.Helper()
	return c.SubscribeWith(nil, subs...).Codes
}

// SubscribeWith subscribes with properties and gives the SUBACK.
func (c *Client) SubscribeWith(props Props, subs ...Sub) Packet {
	c.t.Helper()
	c.Write(SubscribeBytes(c.Version, c.NextID(), props, subs...))
	return c.Expect(SUBACK)
}

// Publish publishes at QoS 0, 1 or 2, waits for the whole handshake, and gives its last packet.
func (c *Client) Publish(topic, payload string, qos byte) Packet {
	c.t.Helper()
	return c.PublishPacket(Packet{Type: PUBLISH, Topic: topic, Payload: []byte(payload), QoS: qos})
}

// PublishPacket is Publish for a packet with flags or properties; the identifier is filled in.
func (c *Client) PublishPacket(p Packet) Packet {
	c.t.Helper()
	p.Type = PUBLISH
	if p.QoS > 0 {
		p.ID = c.NextID()
	}
	c.Send(p)
	switch p.QoS {
	case 1:
		return c.expectAck(PUBACK, p.ID)
	case 2:
		if rec := c.expectAck(PUBREC, p.ID); rec.Code >= 0x80 {
			return rec
		}
		c.Send(Packet{Type: PUBREL, ID: p.ID})
		return c.expectAck(PUBCOMP, p.ID)
	}
	return Packet{}
}

func (c *Client) expectAck(kind byte, id uint16) Packet {
	c.t.Helper()
	p := c.Expect(kind)
	if p.ID != id {
		c.t.Fatalf("waiting for %s of %d, got %v", typeNames[kind], id, p)
	}
	return p
}

// Ack answers a PUBLISH of QoS 1.
func (c *Client) Ack(p Packet) { c.Send(Packet{Type: PUBACK, ID: p.ID}) }

// Ping waits until the broker has read everything sent so far. Nothing else may be on its way.
func (c *Client) Ping() {
	c.t.Helper()
	c.Send(Packet{Type: PINGREQ})
	c.Expect(PINGRESP)
}

// Disconnect leaves in good order and waits for the broker to end the connection.
func (c *Client) Disconnect() {
	c.t.Helper()
	c.Send(Packet{Type: DISCONNECT})
	c.ExpectClosed()
	c.Drop()
}

// Buffered says how many bytes have arrived that were not read yet.
func (c *Client) Buffered() int { return c.r.Buffered() }

// Drop cuts the TCP connection without a word.
func (c *Client) Drop() { _ = c.conn.Close() }

// Conn is the socket beneath, for tests that squeeze its buffers.
func (c *Client) Conn() *net.TCPConn {
	if s, ok := c.conn.(*socket); ok {
		return s.NetConn().(*net.TCPConn)
	}
	return c.conn.(*net.TCPConn)
}
