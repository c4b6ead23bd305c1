package mqttserver

import (
	"bytes"
	"errors"
	"unicode/utf8"

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
	c.scratch.tally.publish(p.Payload)
	if err := c.checkPublish(p); err != nil {
		return err
	}
	if p.QoS > 0 && int(c.inbound.Add(1)) > c.server.opt.ReceiveMaximum && c.version == mqttwire.V5 {
		return &mqttwire.ProtocolError{ // [MQTT-3.3.4-7]
			Code: mqttwire.ReceiveMaximumExceeded, Text: "more unacknowledged messages than the receive maximum",
		}
	}
	m := translatePublish(p, c.now)
	c.publishing.Lock()
	held, err := c.publishOrHold(p.Topic, m, p.PacketID)
	c.publishing.Unlock()
	if err != nil || !held {
		return err
	}
	return c.pauseHeld()
}

// checkPublish refuses what the codec cannot judge, and puts the topic in place of its alias.
func (c *conn) checkPublish(p *mqttwire.Publish) error {
	if p.Props.Has(mqttwire.HasTopicAlias) {
		if err := c.aliases.resolve(p); err != nil {
			return err
		}
	}
	if p.Props.Has(mqttwire.HasSubscriptionID) { // [MQTT-3.3.4-6]
		return protocolError("subscription identifier in a PUBLISH from a client")
	}
	if len(p.Topic) == 0 { // [MQTT-4.7.3-1]
		return &mqttwire.ProtocolError{Code: mqttwire.TopicNameInvalid, Text: topic.ErrEmpty.Error()}
	}
	if why := c.topicTooLarge(p.Topic); why != "" {
		return &mqttwire.ProtocolError{Code: mqttwire.TopicNameInvalid, Text: why}
	}
	return nil
}

// topicTooLarge says why a topic name or filter is beyond a limit, "" when it is not.
func (c *conn) topicTooLarge(name []byte) string {
	opt := c.server.live.Load()
	switch {
	case len(name) > opt.MaxTopicBytes:
		c.server.stats.Hits[HitTopicBytes].Add(1)
		return "topic is longer than the server takes"
	case len(name) >= opt.MaxTopicLevels && bytes.Count(name, []byte{'/'}) >= opt.MaxTopicLevels:
		c.server.stats.Hits[HitTopicLevels].Add(1)
		return "topic has more levels than the server takes"
	}
	return ""
}

// publish hands a message to the broker and queues the answer.
func (c *conn) publish(name []byte, m *message.Message, packetID uint16) error {
	if isReserved(name) {
		if !c.warned {
			c.warned = true
			c.server.log.Warn("publishes to a reserved topic refused", "client", c.clientID, "topic", string(name))
		}
		return c.refuse(m.QoS, packetID, mqttwire.NotAuthorized)
	}
	if p := m.Properties; p != nil && p.PayloadIsUTF8 && !utf8.Valid(m.Payload) {
		if m.QoS == 0 { // there is no other answer to it
			return &mqttwire.ProtocolError{Code: mqttwire.PayloadFormatInvalid, Text: ackReason(mqttwire.TypePuback, mqttwire.PayloadFormatInvalid)}
		}
		return c.refuse(m.QoS, packetID, mqttwire.PayloadFormatInvalid)
	}
	out, err := c.client.Publish(name, m, packetID)
	switch {
	case errors.Is(err, store.ErrTooLarge):
		return &mqttwire.ProtocolError{Code: mqttwire.PacketTooLarge, Text: err.Error()}
	case err != nil:
		c.room.Size = out.Room
		return err
	case out.Denied:
		return c.denied(name, m.QoS, packetID)
	case out.Refused:
		return c.refuse(m.QoS, packetID, mqttwire.QuotaExceeded)
	case out.Duplicate: // no earlier than its original
		c.out.answerOld(answer{lsn: out.LSN, kind: mqttwire.TypePubrec, packetID: packetID})
		return nil
	}
	code := mqttwire.Success
	if out.Matched == 0 && c.version == mqttwire.V5 {
		code = mqttwire.NoMatchingSubscribers
	}
	c.acknowledge(m.QoS, packetID, out.LSN, code)
	return nil
}

// refuse turns a publish away. 3.1.1 has no word for it, and an acknowledgement would lie: the client keeps the
// message and comes again ([MQTT311-3.3.5-2]).
func (c *conn) refuse(qos uint8, packetID uint16, code mqttwire.ReasonCode) error {
	if qos > 0 && c.version != mqttwire.V5 {
		return &mqttwire.ProtocolError{Code: code, Text: "publish refused (" + code.String() + "), and MQTT 3.1.1 cannot say so"}
	}
	c.acknowledge(qos, packetID, 0, code)
	return nil
}

// acknowledge queues PUBACK or PUBREC: it leaves when lsn is flushed ([MQTT-3.3.4-1]).
func (c *conn) acknowledge(qos uint8, packetID uint16, lsn store.LSN, code mqttwire.ReasonCode) {
	switch qos {
	case 1:
		c.out.answer(answer{lsn: lsn, kind: mqttwire.TypePuback, packetID: packetID, code: code})
	case 2:
		c.out.answer(answer{lsn: lsn, kind: mqttwire.TypePubrec, packetID: packetID, code: code})
	}
}

// isReserved: $SYS is the server's own.
func isReserved(name []byte) bool {
	const sys = "$SYS"
	return bytes.HasPrefix(name, []byte(sys)) && (len(name) == len(sys) || name[len(sys)] == '/')
}
