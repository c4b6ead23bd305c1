package e2e

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	. "emanet/e2e/harness"
)

// Topics of a publisher in a round: each has one QoS, since order is promised among messages of one QoS.
const (
	topicQoS1     = 0
	topicQoS2     = 1
	topicRetained = 2 // QoS 1
	topicsEach    = 3
)

func qosOf(topic int) byte {
	if topic == topicQoS2 {
		return 2
	}
	return 1
}

func topicName(publisher, topic int) string { return fmt.Sprintf("w/%d/%d", publisher, topic) }

// flight is one message whose handshake is not complete.
type flight struct {
	stamp    stamp
	id       uint16
	released bool // PUBREC received: the message is the broker's, its release is ours to finish
	dup      bool
}

// loader publishes its quota with a window of unanswered messages, over as many connections as it takes. A
// persistent one resends what was not answered; a clean one gives it up, since its session is gone.
type loader struct {
	t       *testing.T
	l       *ledger
	rng     *rand.Rand
	addr    string
	name    string
	number  int
	connect Connect
	quota   int

	c       *Client
	flights []*flight // in the order of sending
	next    [topicsEach]int
	sent    int
	id      uint16
}

const loaderWindow = 8

// run returns when the quota is acknowledged, or with an error when the broker stays away.
func (p *loader) run() error {
	for p.sent < p.quota || len(p.flights) > 0 {
		if err := p.reconnect(); err != nil {
			return err
		}
		err := p.session()
		p.l.tell(p.name, "left with %d in flight: %v", len(p.flights), err)
		p.c.Drop()
	}
	return nil
}

func (p *loader) reconnect() (err error) {
	if p.c, err = dialUntilUp(p.t, p.addr, p.connect); err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	p.l.tell(p.name, "connected, session present %t", p.c.Connack.SessionPresent)
	if p.connect.Clean {
		p.flights = nil
		return nil
	}
	if len(p.flights) > 0 && !p.c.Connack.SessionPresent {
		p.l.fault(p.name, "the session is lost with %d messages in flight", len(p.flights))
	}
	for _, f := range p.flights { // in order, as a client must (4.4, 4.6)
		f.dup = true
		p.send(f)
	}
	return nil
}

// session publishes and takes answers until all is done or the connection ends.
func (p *loader) session() error {
	for {
		for p.sent < p.quota && len(p.flights) < loaderWindow {
			topic := p.rng.IntN(topicsEach)
			p.id = p.id%60_000 + 1
			f := &flight{stamp: stamp{p.number, topic, p.next[topic]}, id: p.id}
			p.next[topic]++
			p.sent++
			p.flights = append(p.flights, f)
			p.send(f)
		}
		if len(p.flights) == 0 {
			p.c.Send(Packet{Type: DISCONNECT})
			return nil
		}
		answer, err := p.c.TryRead(Patience)
		if err != nil {
			return err
		}
		if answer.Type == DISCONNECT {
			return fmt.Errorf("told to leave: %v", answer)
		}
		p.take(answer)
	}
}

// send writes the packet that this flight is waiting to have answered.
func (p *loader) send(f *flight) {
	if f.released {
		p.c.Send(Packet{Type: PUBREL, ID: f.id})
		return
	}
	p.l.noteSent(f.stamp)
	p.c.Send(Packet{Type: PUBLISH, ID: f.id, QoS: qosOf(f.stamp.topic), Dup: f.dup, Retain: f.stamp.topic == topicRetained,
		Topic: topicName(f.stamp.publisher, f.stamp.topic), Payload: []byte(f.stamp.String())})
}

func (p *loader) take(answer Packet) {
	for i, f := range p.flights {
		if f.id != answer.ID {
			continue
		}
		switch answer.Type {
		case PUBACK:
			p.l.noteAcked(f.stamp)
			p.flights = append(p.flights[:i], p.flights[i+1:]...)
		case PUBREC:
			if IsEmanet() { // others may take a message over only with its PUBREL
				p.l.noteAcked(f.stamp)
			}
			f.released = true
			p.send(f)
		case PUBCOMP:
			p.l.noteAcked(f.stamp)
			p.flights = append(p.flights[:i], p.flights[i+1:]...)
		}
		return
	}
	p.l.fault(p.name, "an answer to nothing: %v", answer)
}

// dialUntilUp connects to a broker that may be down at the moment.
func dialUntilUp(t *testing.T, addr string, connect Connect) (*Client, error) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(6 * Patience); ; <-tick.C {
		c, err := TryDial(t, addr, connect.Version)
		if err == nil {
			if err = c.TryWrite(connect.Bytes()); err == nil {
				c.Connack, err = c.TryRead(Patience)
			}
			if err == nil && c.Connack.Type == CONNACK && c.Connack.Code == 0 {
				return c, nil
			}
			c.Drop()
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("the broker stays away: %v (%v)", err, addr)
		}
	}
}
