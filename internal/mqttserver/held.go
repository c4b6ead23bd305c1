package mqttserver

import (
	"errors"
	"time"

	"emanet/internal/broker"
	"emanet/internal/message"
	"emanet/internal/store"
)

// heldPublish waits for room in the store.
type heldPublish struct {
	topic    string
	message  *message.Message
	packetID uint16
}

// size is about what it occupies, and never 0.
func (h *heldPublish) size() int { return len(h.topic) + len(h.message.Payload) + 64 }

// heldMax is how many bytes of publishes a connection may hold before it stops reading. Up to there it
// reads on, for what consumers acknowledge is what makes room.
const heldMax = 1 << 20

func isNoRoom(err error) bool { return errors.Is(err, store.ErrFull) || errors.Is(err, store.ErrBusy) }

// publishOrHold hands a message to the broker, or keeps it for when the store has room, in order. publishing
// is held.
func (c *conn) publishOrHold(name []byte, m *message.Message, packetID uint16) (held bool, err error) {
	if c.heldLost {
		return false, errEnd
	}
	if len(c.held) == 0 {
		if err = c.publish(name, m, packetID); !isNoRoom(err) {
			return false, err
		}
		c.server.stats.StalledPublishes.Add(1)
		c.server.broker.NotifyRoom(&c.room)
	}
	h := heldPublish{string(name), m, packetID}
	c.held = append(c.held, h)
	c.out.hold(h.size())
	return true, nil
}

// pauseHeld stops reading while too much is held. What this burst has settled and published must not wait as
// well: it may be what makes room.
func (c *conn) pauseHeld() error {
	if !c.out.holdsMore(heldMax) {
		return nil
	}
	c.wakeRecipients()
	if err := c.settle(); err != nil {
		return err
	}
	err := c.out.awaitHeld(heldMax)
	c.alive()
	return err
}

// resumeHeld goes on with held publishes when the store has room again.
func (c *conn) resumeHeld() {
	c.publishing.Lock()
	defer c.publishing.Unlock()
	defer c.client.Flush()
	for len(c.held) > 0 {
		h := c.held[0]
		err := c.publish([]byte(h.topic), h.message, h.packetID)
		if isNoRoom(err) {
			c.server.broker.NotifyRoom(&c.room)
			return
		}
		if err != nil {
			c.loseHeld()
			c.endFor(err)
			return
		}
		c.held[0] = heldPublish{}
		c.held = c.held[1:]
		c.out.hold(-h.size())
	}
	c.held = nil
}

// heldPatience is how long a connection that has ended waits for its held publishes to be taken in. What
// was acknowledged is never among them; a QoS 0 message that is to be retained may be.
const heldPatience = 5 * time.Second

// awaitHeld waits for the held publishes at the end of the connection. A connection that has lost its
// session has nothing to wait for: they would be refused.
func (c *conn) awaitHeld() {
	if !c.client.Displaced() {
		c.out.drainHeld(heldPatience)
	}
	c.publishing.Lock()
	c.loseHeld()
	c.publishing.Unlock()
}

// loseHeld gives up what is held, none of it acknowledged, and takes in nothing more. publishing is held.
func (c *conn) loseHeld() {
	if n := len(c.held); n > 0 {
		c.server.stats.HeldLost.Add(uint64(n))
		c.server.log.Warn("publishes that waited for room are given up, unacknowledged", "client", c.clientID, "count", n)
	}
	for i := range c.held {
		c.out.hold(-c.held[i].size())
	}
	c.held, c.heldLost = nil, true
}

// wakeRecipients wakes those who got something without a flush in this burst.
func (c *conn) wakeRecipients() {
	c.publishing.Lock()
	c.client.Flush()
	c.publishing.Unlock()
}

var _ broker.Receiver = (*conn)(nil)
