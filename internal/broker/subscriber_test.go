package broker

import (
	"testing"

	"emanet/internal/disk/powercut"
	"emanet/internal/mailbox"
)

type disk = powercut.FS

// subscriber is a client that keeps its session: it dedupes QoS 2 by packet id alone (4.3.3).
type subscriber struct {
	got  map[string]int  // payload -> how often delivered
	held map[uint64]bool // keys between PUBLISH and PUBREL
}

func newSubscriber() *subscriber {
	return &subscriber{got: map[string]int{}, held: map[uint64]bool{}}
}

func (s *subscriber) count() int { return len(s.got) }

// handleOrLose is handle on a connection that may be taken over at any time: then the packet is read and its
// answers are lost.
func (s *subscriber) handleOrLose(t testing.TB, c *conn, d mailbox.Delivery) {
	if !d.Released {
		s.deliver(d)
		lsn, ok, err := c.Release(d.Key)
		if err != nil {
			t.Error(err)
		}
		if !ok {
			return
		}
		c.f.flushed(lsn)
	}
	delete(s.held, d.Key)
	if err := c.Settle([]uint64{d.Key}); err != nil {
		t.Error(err)
	}
}

func (s *subscriber) deliver(d mailbox.Delivery) {
	if !s.held[d.Key] {
		s.held[d.Key] = true
		s.got[string(d.Message.Payload)]++
	}
}

// handle reads a packet and answers all of the handshake at once.
func (s *subscriber) handle(t testing.TB, c *conn, d mailbox.Delivery) {
	t.Helper()
	if !d.Released {
		s.deliver(d)
		lsn, ok, err := c.Release(d.Key)
		if err != nil || !ok {
			t.Fatalf("PUBREC for %d: %v, %v", d.Key, ok, err)
		}
		c.f.flushed(lsn)
	}
	delete(s.held, d.Key) // PUBREL
	if err := c.Settle([]uint64{d.Key}); err != nil {
		t.Fatal(err)
	}
}
