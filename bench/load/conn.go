package load

import (
	"fmt"
	"io"
	"net"
	"time"
)

// Patience bounds every wait for one answer: a broker that stops answering fails the run instead of hanging it.
const Patience = 60 * time.Second

// SubscribeOn subscribes on a fresh connection on which nothing is delivered yet.
func SubscribeOn(c net.Conn, filter string, qos byte) error {
	return SubscribeMany(c, qos, filter)
}

// SubscribeMany is SubscribeOn for as many filters as one packet takes.
func SubscribeMany(c net.Conn, qos byte, filters ...string) error {
	packet := Subscribe(qos, filters...)
	rest := 2 + len(filters) // of the SUBACK: packet id and a code for each
	answer := len(appendLength(nil, rest)) + 1 + rest
	codes, err := handshake(c, packet, answer, typeSuback)
	if err != nil {
		return fmt.Errorf("subscribing to %s: %w", filters[0], err)
	}
	for i, code := range codes[answer-len(filters):] {
		if code >= 0x80 {
			return fmt.Errorf("subscribing to %s: refused with %#x", filters[i], code)
		}
	}
	return nil
}

// handshake sends a packet and reads an answer of known length and type.
func handshake(c net.Conn, packet []byte, size int, kind byte) ([]byte, error) {
	_ = c.SetDeadline(time.Now().Add(Patience))
	defer c.SetDeadline(time.Time{})
	if _, err := c.Write(packet); err != nil {
		return nil, err
	}
	answer := make([]byte, size)
	if _, err := io.ReadFull(c, answer); err != nil {
		return nil, err
	}
	if answer[0] != kind {
		return nil, fmt.Errorf("answered by % x", answer)
	}
	return answer, nil
}

// Offline makes a persistent session with one subscription at QoS 1 and leaves it.
func (t Target) Offline(id, filter string) error {
	c, err := t.Dial(id, false)
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
