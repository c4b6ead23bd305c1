package e2e

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	. "emanet/e2e/harness"
)

// watcher subscribes to a part of the load and checks what it gets as it comes.
type watcher struct {
	t       *testing.T
	l       *ledger
	rng     *rand.Rand
	addr    string
	name    string
	connect Connect
	topic   int // which topic of every publisher; -1 for all
	granted byte

	mu       sync.Mutex
	c        *Client
	received map[stamp]int
	stopped  bool

	last  [20][topicsEach]int // highest n so far, plus 1
	known map[uint16]bool     // QoS 2 ids whose PUBREL has not come
	owed  []Packet            // acknowledgements held back
}

func (w *watcher) filter() string {
	if w.topic < 0 {
		return "w/#"
	}
	return fmt.Sprintf("w/+/%d", w.topic)
}

func (w *watcher) wants(s stamp) bool { return w.topic < 0 || w.topic == s.topic }

// subscribe makes the session, before the load begins.
func (w *watcher) subscribe() {
	w.t.Helper()
	w.received, w.known = map[stamp]int{}, map[uint16]bool{}
	c := Open(w.t, w.addr, w.connect)
	if got := c.Subscribe(To(w.filter(), w.granted)); got[0] != w.granted {
		w.t.Fatalf("%s was granted %d", w.name, got)
	}
	c.Disconnect()
}

// run reads until stop.
func (w *watcher) run() error {
	for {
		c, err := dialUntilUp(w.t, w.addr, w.connect)
		if err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		if !w.adopt(c) {
			return nil
		}
		w.l.tell(w.name, "connected, session present %t", c.Connack.SessionPresent)
		if w.connect.Clean {
			w.forget()
			c.Write(SubscribeBytes(c.Version, 1, nil, To(w.filter(), w.granted)))
		} else if !c.Connack.SessionPresent {
			w.l.fault(w.name, "the session is lost")
		}
		w.l.tell(w.name, "left: %v", w.session(c))
		c.Drop()
	}
}

// adopt makes the connection the one that stop cuts.
func (w *watcher) adopt(c *Client) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		c.Drop()
		return false
	}
	w.c, w.owed = c, nil
	return true
}

func (w *watcher) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	if w.c != nil {
		w.c.Drop()
	}
}

// forget is what a clean start does to a client's own state.
func (w *watcher) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.known, w.received = map[uint16]bool{}, map[stamp]int{}
	w.last = [20][topicsEach]int{}
}

func (w *watcher) session(c *Client) error {
	for packets := 100 + w.rng.IntN(1000); ; packets-- {
		p, err := c.TryRead(3 * Patience)
		if err != nil {
			return err
		}
		switch p.Type {
		case PUBLISH:
			w.take(p)
			switch p.QoS {
			case 1:
				w.owed = append(w.owed, Packet{Type: PUBACK, ID: p.ID})
			case 2:
				w.owed = append(w.owed, Packet{Type: PUBREC, ID: p.ID})
			}
		case PUBREL:
			delete(w.known, p.ID)
			w.owed = append(w.owed, Packet{Type: PUBCOMP, ID: p.ID})
		case SUBACK:
		default:
			w.l.fault(w.name, "unexpected %v", p)
		}
		if packets == 0 { // leave, owing some answers
			if w.rng.IntN(2) == 0 {
				c.Send(Packet{Type: DISCONNECT})
			}
			return fmt.Errorf("of its own will")
		}
		if w.rng.IntN(3) > 0 || c.Buffered() == 0 { // never wait for a packet while owing an answer
			for _, ack := range w.owed {
				c.Send(ack)
			}
			w.owed = w.owed[:0]
		}
	}
}

// take checks one delivery: order of first deliveries, QoS 2 exactly once, DUP on what was sent before.
func (w *watcher) take(p Packet) {
	if p.QoS == 2 {
		if w.known[p.ID] {
			return
		}
		w.known[p.ID] = true
	}
	s, ok := stampOf(p.Payload)
	if !ok || p.Topic != topicName(s.publisher, s.topic) {
		w.l.fault(w.name, "nobody has published %v", p)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.received[s]++
	if w.received[s] > 1 {
		switch {
		case p.QoS == 2:
			w.l.fault(w.name, "%v came twice at QoS 2: %v", s, p)
		case p.QoS == 1 && !p.Dup && !w.l.wasResent(s) && !w.connect.Clean && qosOf(s.topic) == 1:
			w.l.fault(w.name, "%v came again with DUP=0: %v", s, p)
		}
		return
	}
	if p.Retain {
		return // a new subscription's retained value; a publisher may still have to resend what led to it
	}
	if last := &w.last[s.publisher][s.topic]; s.n < *last {
		w.l.fault(w.name, "%v came after %d", s, *last-1)
	} else {
		*last = s.n + 1
	}
}

// missing lists what was acknowledged and has not come yet.
func (w *watcher) missing() []stamp {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.l.missing(w.wants, w.received)
}
