package mqttserver

import (
	"bytes"
	"errors"
	"strings"
	"time"

	"emanet/internal/broker"
	"emanet/internal/message"
	"emanet/internal/mqttwire"
	"emanet/internal/store"
	"emanet/internal/topic"
)

// handlePublish takes in a PUBLISH. Its answer is queued here and leaves when its batch is on disk.
func (c *conn) handlePublish(f mqttwire.Frame) error {
	p := &c.scratch.publish
	if err := mqttwire.DecodePublish(f, c.version, p); err != nil {
		return err
	}
	if err := c.checkPublish(p); err != nil {
		return err
	}
	if p.QoS > 0 && int(c.inbound.Add(1)) > c.server.opt.ReceiveMaximum && c.version == mqttwire.V5 {
		return &mqttwire.ProtocolError{ // [MQTT-3.3.4-9]
			Code: mqttwire.ReceiveMaximumExceeded, Text: "more unacknowledged messages than the receive maximum",
		}
	}
	m := translatePublish(p, c.server.broker.Now())
	c.publishing.Lock()
	defer c.publishing.Unlock()
	if len(c.held) > 0 {
		return c.hold(p.Topic, m, p.PacketID)
	}
	err := c.publish(p.Topic, m, p.PacketID)
	if !isNoRoom(err) {
		return err
	}
	c.server.stats.StalledPublishes.Add(1)
	c.server.broker.NotifyRoom(&c.room)
	return c.hold(p.Topic, m, p.PacketID)
}

// checkPublish refuses what the codec cannot judge.
func (c *conn) checkPublish(p *mqttwire.Publish) error {
	if p.Props.Has(mqttwire.HasTopicAlias) { // CONNACK announces a maximum of 0 ([MQTT-3.3.2-9])
		return &mqttwire.ProtocolError{Code: mqttwire.TopicAliasInvalid, Text: "topic alias, but none was allowed"}
	}
	if p.Props.Has(mqttwire.HasSubscriptionID) { // [MQTT-3.3.4-6]
		return protocolError("subscription identifier in a PUBLISH from a client")
	}
	if len(p.Topic) == 0 { // [MQTT-4.7.3-1]
		return &mqttwire.ProtocolError{Code: mqttwire.TopicNameInvalid, Text: topic.ErrEmpty.Error()}
	}
	if bytes.Count(p.Topic, []byte{'/'}) >= c.server.opt.MaxTopicLevels {
		return &mqttwire.ProtocolError{Code: mqttwire.TopicNameInvalid, Text: "topic has more levels than the server takes"}
	}
	return nil
}

// publish hands a message to the broker and queues the answer.
func (c *conn) publish(name []byte, m *message.Message, packetID uint16) error {
	if isReserved(name) {
		c.acknowledge(m.QoS, packetID, 0, mqttwire.NotAuthorized)
		c.server.log.Warn("publish to a reserved topic refused", "client", c.clientID, "topic", string(name))
		return nil
	}
	out, err := c.client.Publish(name, m, packetID)
	switch {
	case errors.Is(err, store.ErrTooLarge):
		return &mqttwire.ProtocolError{Code: mqttwire.PacketTooLarge, Text: err.Error()}
	case err != nil:
		c.room.Size = out.Room
		return err
	case out.Refused && c.version != mqttwire.V5 && m.QoS > 0:
		// 3.1.1 has no word for it, and an acknowledgement would lie: the client keeps the message and comes again.
		return &mqttwire.ProtocolError{Code: mqttwire.QuotaExceeded, Text: "a bound refuses the message, and MQTT 3.1.1 cannot say so"}
	}
	code := mqttwire.Success
	switch {
	case out.Refused:
		code = mqttwire.QuotaExceeded
	case out.Matched == 0 && !out.Duplicate && c.version == mqttwire.V5:
		code = mqttwire.NoMatchingSubscribers
	}
	if out.Duplicate {
		c.acknowledgeOld(packetID, out.LSN)
		return nil
	}
	c.acknowledge(m.QoS, packetID, out.LSN, code)
	return nil
}

// acknowledge queues PUBACK or PUBREC: it leaves when lsn is flushed ([MQTT-3.3.4-1], [MQTT-4.6.0-2]).
func (c *conn) acknowledge(qos uint8, packetID uint16, lsn store.LSN, code mqttwire.ReasonCode) {
	switch qos {
	case 1:
		c.out.answer(answer{lsn: lsn, kind: mqttwire.TypePuback, packetID: packetID, code: code})
	case 2:
		c.out.answer(answer{lsn: lsn, kind: mqttwire.TypePubrec, packetID: packetID, code: code})
	}
}

// acknowledgeOld answers a QoS 2 message that is here already, no earlier than its original.
func (c *conn) acknowledgeOld(packetID uint16, lsn store.LSN) {
	c.out.answerOld(answer{lsn: lsn, kind: mqttwire.TypePubrec, packetID: packetID})
}

// isReserved: $SYS is the server's own.
func isReserved(name []byte) bool {
	const sys = "$SYS"
	return bytes.HasPrefix(name, []byte(sys)) && (len(name) == len(sys) || name[len(sys)] == '/')
}

// heldPublish waits for room in the store.
type heldPublish struct {
	topic    string
	message  *message.Message
	packetID uint16
}

// heldMax is how many bytes of publishes a connection may hold before it stops reading. Up to there it
// reads on, for what consumers acknowledge is what makes room.
const heldMax = 1 << 20

func isNoRoom(err error) bool { return errors.Is(err, store.ErrFull) || errors.Is(err, store.ErrBusy) }

// hold keeps a publish for later, in order. publishing is held.
func (c *conn) hold(name []byte, m *message.Message, packetID uint16) error {
	c.held = append(c.held, heldPublish{strings.Clone(string(name)), m, packetID})
	c.heldBytes += len(name) + len(m.Payload) + 64
	for c.heldBytes > heldMax && !c.heldLost {
		c.heldRoom.Wait()
	}
	if c.heldLost {
		return errEnd
	}
	return nil
}

// resumeHeld goes on with held publishes when the store has room again.
func (c *conn) resumeHeld() {
	c.publishing.Lock()
	defer c.publishing.Unlock()
	for len(c.held) > 0 && !c.heldLost {
		h := &c.held[0]
		err := c.publish([]byte(h.topic), h.message, h.packetID)
		if isNoRoom(err) {
			c.client.Flush()
			c.server.broker.NotifyRoom(&c.room)
			return
		}
		if err != nil {
			c.heldLost = true
			c.noteEnd(err)
			break
		}
		c.heldBytes -= len(h.topic) + len(h.message.Payload) + 64
		c.held[0] = heldPublish{}
		c.held = c.held[1:]
		c.heldRoom.Broadcast()
	}
	c.client.Flush()
	c.heldRoom.Broadcast()
}

// heldPatience is how long a connection that has ended waits for its held publishes to be taken in. What
// was acknowledged is never among them; a QoS 0 message that is to be retained may be.
const heldPatience = 5 * time.Second

// awaitHeld waits for the held publishes at the end of the connection.
func (c *conn) awaitHeld() {
	giveUp := time.AfterFunc(heldPatience, c.loseHeld)
	defer giveUp.Stop()
	c.publishing.Lock()
	defer c.publishing.Unlock()
	for len(c.held) > 0 && !c.heldLost {
		c.heldRoom.Wait()
	}
	c.heldLost = true
	c.held = nil
}

func (c *conn) loseHeld() {
	c.publishing.Lock()
	c.heldLost = true
	c.publishing.Unlock()
	c.heldRoom.Broadcast()
}

// wakeRecipients wakes those who got something without a flush in this burst.
func (c *conn) wakeRecipients() {
	c.publishing.Lock()
	c.client.Flush()
	c.publishing.Unlock()
}

var _ broker.Receiver = (*conn)(nil)
