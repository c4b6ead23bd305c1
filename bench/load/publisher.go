package load

import (
	"encoding/binary"
	"fmt"
	"net"
	"sync/atomic"
	"time"
)

// Publisher keeps a window of QoS 1 messages in flight on one connection: each read takes all acknowledgements at
// hand, each write sends as many new messages.
type Publisher struct {
	conn   net.Conn
	packet []byte // window copies of the packet, one behind the other
	size   int
	idAt   int
	window int
	id     uint16
	in     []byte
	kept   int // bytes of a partial acknowledgement at the front of in
}

// NewPublisher prepares a publisher on a connected socket.
func NewPublisher(c net.Conn, topic string, payload, window int) *Publisher {
	one, idAt := Publish(topic, payload, 1)
	p := &Publisher{conn: c, size: len(one), idAt: idAt, window: window, in: make([]byte, 4*window+64)}
	for range window {
		p.packet = append(p.packet, one...)
	}
	return p
}

// Run publishes until the quota is acknowledged or stop is set; then it waits for what is in flight.
// acked counts acknowledgements while it runs.
func (p *Publisher) Run(quota int, stop *atomic.Bool, acked *atomic.Int64) error {
	sent, done := 0, 0
	room := p.window
	for {
		if !stop.Load() {
			n := min(room, quota-sent)
			if err := p.send(n); err != nil {
				return fmt.Errorf("publishing: %w", err)
			}
			sent, room = sent+n, room-n
		}
		if done == sent {
			return nil
		}
		n, err := p.acks()
		if err != nil {
			return fmt.Errorf("waiting for PUBACK, %d of %d came: %w", done, sent, err)
		}
		done, room = done+n, room+n
		acked.Add(int64(n))
	}
}

func (p *Publisher) send(n int) error {
	if n == 0 {
		return nil
	}
	for i := range n {
		if p.id++; p.id == 0 {
			p.id = 1
		}
		binary.BigEndian.PutUint16(p.packet[i*p.size+p.idAt:], p.id)
	}
	_ = p.conn.SetWriteDeadline(time.Now().Add(Patience))
	_, err := p.conn.Write(p.packet[:n*p.size])
	return err
}

// acks reads once and counts the complete acknowledgements.
func (p *Publisher) acks() (int, error) {
	_ = p.conn.SetReadDeadline(time.Now().Add(Patience))
	n, err := p.conn.Read(p.in[p.kept:])
	if err != nil {
		return 0, err
	}
	have := p.in[:p.kept+n]
	count := len(have) / 4
	for i := range count {
		if have[4*i] != typePuback {
			return 0, fmt.Errorf("not a PUBACK: % x", have[4*i:4*i+4])
		}
	}
	p.kept = copy(p.in, have[4*count:])
	return count, nil
}

// Blast writes QoS 0 messages as fast as the socket takes them until stop is set, and gives their number.
func Blast(c net.Conn, topic string, payload int, stop *atomic.Bool) (int64, error) {
	// A large buffer of the kernel would count as sent what the broker has not seen.
	if err := socket(c).SetWriteBuffer(64 << 10); err != nil {
		return 0, err
	}
	one, _ := Publish(topic, payload, 0)
	const batch = 64
	var packets []byte
	for range batch {
		packets = append(packets, one...)
	}
	var sent int64
	for !stop.Load() {
		_ = c.SetWriteDeadline(time.Now().Add(Patience))
		if _, err := c.Write(packets); err != nil {
			return sent, fmt.Errorf("publishing at QoS 0: %w", err)
		}
		sent += batch
	}
	return sent, nil
}
