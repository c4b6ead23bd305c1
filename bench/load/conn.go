package load

import (
	"fmt"
	"io"
	"net"
	"time"
)

// Patience bounds every wait for one answer: a broker that stops answering fails the run instead of hanging it.
const Patience = 60 * time.Second

// Dial connects, sends CONNECT and waits for its acceptance.
func Dial(addr, id string, clean bool) (*net.TCPConn, error) {
	c, err := net.DialTimeout("tcp", addr, Patience)
	if err != nil {
		return nil, err
	}
	if err := handshake(c, Connect(id, clean), 4, typeConnack, 3); err != nil {
		c.Close()
		return nil, fmt.Errorf("connecting %s: %w", id, err)
	}
	return c.(*net.TCPConn), nil
}

// SubscribeOn subscribes on a fresh connection on which nothing is delivered yet.
func SubscribeOn(c net.Conn, filter string, qos byte) error {
	if err := handshake(c, Subscribe(filter, qos), 5, typeSuback, -1); err != nil {
		return fmt.Errorf("subscribing to %s: %w", filter, err)
	}
	return nil
}

// handshake sends a packet and reads an answer of known length and type; the byte at zeroAt must be 0.
func handshake(c net.Conn, packet []byte, answerSize int, answerType byte, zeroAt int) error {
	_ = c.SetDeadline(time.Now().Add(Patience))
	defer c.SetDeadline(time.Time{})
	if _, err := c.Write(packet); err != nil {
		return err
	}
	answer := make([]byte, answerSize)
	if _, err := io.ReadFull(c, answer); err != nil {
		return err
	}
	if answer[0] != answerType || (zeroAt >= 0 && answer[zeroAt] != 0) {
		return fmt.Errorf("refused: % x", answer)
	}
	return nil
}

// Offline makes a persistent session with one subscription at QoS 1 and leaves it.
func Offline(addr, id, filter string) error {
	c, err := Dial(addr, id, false)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := SubscribeOn(c, filter, 1); err != nil {
		return err
	}
	if _, err := c.Write([]byte{0xE0, 0}); err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, c) // until the broker has ended the connection
	return nil
}
