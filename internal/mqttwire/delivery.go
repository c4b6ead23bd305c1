package mqttwire

import "encoding/binary"

// Delivery is a PUBLISH as a server sends it: what belongs to the message is
// shared by all its receivers and copied only into their buffers, the rest is
// this receiver's own. Whoever has the topic as bytes uses Publish.
type Delivery struct {
	Topic   string
	Payload []byte
	// Forward holds the properties that travel unaltered, as
	// Properties.AppendForward made them. Not sent in 3.1.1.
	Forward []byte

	Dup      bool
	Retain   bool
	QoS      byte
	PacketID uint16 // not 0 if QoS > 0

	// HasExpiry: the message expires, in MessageExpiry seconds from now: the
	// publisher's interval less the time waited here [MQTT-3.3.2-6].
	HasExpiry     bool
	MessageExpiry uint32
	// TopicAlias is sent when it is not 0; Topic is then empty if the client
	// knows the alias already.
	TopicAlias uint16
	// SubscriptionIDs of all the receiver's subscriptions that matched
	// [MQTT-3.3.4-3]; built with SubscriptionIDs.Append, nothing else in it.
	SubscriptionIDs SubscriptionIDs
}

// DeliverySize is the length AppendDelivery will add, fixed header included: to
// be held against the client's Maximum Packet Size [MQTT-3.1.2-24] and against
// MaxPacketSize before encoding.
func DeliverySize(d *Delivery, v Version) int {
	n, _ := d.remaining(v)
	return 1 + varintSize(uint32(n)) + n
}

// remaining returns the remaining length and, of it, the length of the bare
// properties.
func (d *Delivery) remaining(v Version) (n, props int) {
	n = 2 + len(d.Topic) + len(d.Payload)
	if d.QoS != 0 {
		n += 2
	}
	if v != V5 {
		return n, 0
	}
	props = len(d.Forward) + len(d.SubscriptionIDs)
	if d.HasExpiry {
		props += 5
	}
	if d.TopicAlias != 0 {
		props += 3
	}
	return n + varintSize(uint32(props)) + props, props
}

// AppendDelivery encodes the whole packet.
func AppendDelivery(dst []byte, d *Delivery, v Version) []byte {
	return append(AppendDeliveryHead(dst, d, v), d.Payload...)
}

// AppendDeliveryHead encodes everything but the payload, which the caller
// writes right behind it: a large payload then goes out to many receivers
// without being copied for each.
func AppendDeliveryHead(dst []byte, d *Delivery, v Version) []byte {
	n, props := d.remaining(v)
	dst = appendHeader(dst, TypePublish, publishFlags(d.Dup, d.Retain, d.QoS), n)
	dst = appendString(dst, d.Topic)
	if d.QoS != 0 {
		assert(d.PacketID != 0, "PUBLISH with QoS > 0 and packet identifier 0")
		dst = binary.BigEndian.AppendUint16(dst, d.PacketID)
	}
	if v != V5 {
		return dst
	}
	dst = appendVarint(dst, uint32(props))
	if props == 0 {
		return dst
	}
	if d.HasExpiry {
		dst = binary.BigEndian.AppendUint32(append(dst, idMessageExpiry), d.MessageExpiry)
	}
	if d.TopicAlias != 0 {
		dst = binary.BigEndian.AppendUint16(append(dst, idTopicAlias), d.TopicAlias)
	}
	dst = append(dst, d.SubscriptionIDs...)
	return append(dst, d.Forward...)
}
