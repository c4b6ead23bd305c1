package mqttwire

import "encoding/binary"

// Publish is PUBLISH as it was received, or as a client sends it. A server
// sends with Delivery. Topic, Payload and Props alias the frame's body.
//
// Two things are left to the server because the codec serves both directions:
// a PUBLISH from a client must not carry subscription identifiers
// [MQTT-3.3.4-6], and a topic alias must be within the limit announced
// [MQTT-3.3.2-9]. In MQTT 5 Topic is empty when only an alias was sent.
type Publish struct {
	Dup      bool
	Retain   bool
	QoS      byte
	PacketID uint16 // 0 for QoS 0
	Topic    []byte
	Payload  []byte
	Props    Properties
}

const (
	flagRetain = 0b0001
	maskQoS    = 0b0110
	flagDup    = 0b1000
)

func checkPublishFlags(flags byte) error {
	switch flags & maskQoS {
	case maskQoS:
		return malformed("PUBLISH with QoS 3 [MQTT-3.3.1-4]")
	case 0:
		if flags&flagDup != 0 {
			return malformed("PUBLISH with DUP and QoS 0 [MQTT-3.3.1-2]")
		}
	}
	return nil
}

// DecodePublish reads
//
//	topic name         two-byte length and UTF-8
//	packet identifier  two bytes, only if QoS > 0
//	properties         only in MQTT 5
//	payload            all the rest
//
// It does not allocate.
func DecodePublish(f Frame, v Version, p *Publish) error {
	f.expect(TypePublish)
	if err := checkPublishFlags(f.Flags); err != nil {
		return err
	}
	p.Dup = f.Flags&flagDup != 0
	p.Retain = f.Flags&flagRetain != 0
	p.QoS = f.Flags & maskQoS >> 1

	// By hand and not with body: this is the packet that is decoded most.
	b := f.Body
	if len(b) < 2 {
		return errEndsEarly
	}
	at := 2 + int(binary.BigEndian.Uint16(b))
	if len(b) < at {
		return errEndsEarly
	}
	p.Topic = b[2:at:at]
	faults := scanText(p.Topic)
	if faults != 0 {
		if err := textError(faults, v); err != nil {
			return err
		}
		return errWildcardTopic
	}

	p.PacketID = 0
	if p.QoS != 0 {
		if len(b) < at+2 {
			return errEndsEarly
		}
		p.PacketID = binary.BigEndian.Uint16(b[at:])
		if p.PacketID == 0 {
			return errPacketID
		}
		at += 2
	}
	p.Payload = b[at:]
	return p.decodeProperties(v)
}

// decodeProperties takes the properties off the head of the payload and checks
// that the packet names a topic one way or the other.
func (p *Publish) decodeProperties(v Version) error {
	p.Props.reset()
	if v != V5 {
		if len(p.Topic) == 0 {
			return errEmptyTopic
		}
		return nil
	}
	if len(p.Payload) > 0 && p.Payload[0] == 0 {
		p.Payload = p.Payload[1:]
	} else {
		b := body{rest: p.Payload, version: v}
		b.properties(&p.Props, publishProperties, HasUser|HasSubscriptionID)
		if b.err != nil {
			return b.err
		}
		p.Payload = b.rest
	}
	if len(p.Topic) == 0 && !p.Props.Has(HasTopicAlias) {
		return violation("empty topic name without topic alias [MQTT-4.7.3-1]")
	}
	return nil
}

// PublishSize is the length AppendPublish will add, fixed header included.
func PublishSize(p *Publish, v Version) int {
	n := p.remaining(v)
	return 1 + varintSize(uint32(n)) + n
}

func (p *Publish) remaining(v Version) int {
	n := 2 + len(p.Topic) + len(p.Payload)
	if p.QoS != 0 {
		n += 2
	}
	if v == V5 {
		n += p.Props.sizeWithPrefix()
	}
	return n
}

// AppendPublish encodes p; in 3.1.1 without the properties. The caller keeps
// the packet within MaxPacketSize, see PublishSize.
func AppendPublish(dst []byte, p *Publish, v Version) []byte {
	dst = appendHeader(dst, TypePublish, publishFlags(p.Dup, p.Retain, p.QoS), p.remaining(v))
	dst = appendBytes(dst, p.Topic)
	if p.QoS != 0 {
		assert(p.PacketID != 0, "PUBLISH with QoS > 0 and packet identifier 0")
		dst = binary.BigEndian.AppendUint16(dst, p.PacketID)
	}
	if v == V5 {
		dst = p.Props.append(dst, publishProperties)
	}
	return append(dst, p.Payload...)
}

func publishFlags(dup, retain bool, qos byte) byte {
	assert(qos <= 2, "QoS over 2")
	flags := qos << 1
	if retain {
		flags |= flagRetain
	}
	if dup {
		assert(qos != 0, "DUP with QoS 0")
		flags |= flagDup
	}
	return flags
}
