package mqttwire

import "encoding/binary"

// Subscribe is SUBSCRIBE. Its slices alias the frame's body.
type Subscribe struct {
	PacketID      uint16
	Subscriptions []Subscription
	Props         Properties // SubscriptionIDs (at most one), User
}

// Subscription is one filter of a SUBSCRIBE. The filter is a well-formed
// string; whether it is a topic filter is for package topic to say, so that one
// bad filter can be refused in SUBACK without losing the others. The fields
// after QoS exist only in MQTT 5.
type Subscription struct {
	Filter            []byte
	QoS               byte
	NoLocal           bool
	RetainAsPublished bool
	RetainHandling    RetainHandling
}

// RetainHandling says which retained messages a SUBSCRIBE asks for.
type RetainHandling byte

const (
	RetainSend      RetainHandling = 0 // whenever the subscription is made
	RetainSendIfNew RetainHandling = 1 // only if the subscription did not exist
	RetainDoNotSend RetainHandling = 2
)

const (
	optionNoLocal           = 0x04
	optionRetainAsPublished = 0x08
	shiftRetainHandling     = 4
	optionsReserved         = 0xC0
	optionsReserved311      = 0xFC
)

// DecodeSubscribe reads
//
//	packet identifier
//	properties         MQTT 5
//	filter, options    once or more [MQTT-3.8.3-2]
//
// with the options byte: 0 0, retain handling (2), retain as published, no
// local, QoS (2). s.Subscriptions is reused if it has room.
func DecodeSubscribe(f Frame, v Version, s *Subscribe) error {
	f.expect(TypeSubscribe)
	b := body{rest: f.Body, version: v}
	s.Subscriptions = s.Subscriptions[:0]
	s.PacketID = b.packetID()
	b.properties(&s.Props, subscribeProperties, HasUser)
	if b.err == nil && len(b.rest) == 0 {
		b.fail(violation("SUBSCRIBE without a topic filter [MQTT-3.8.3-2]")) // [MQTT311-3.8.3-3]
	}
	for len(b.rest) != 0 {
		sub := Subscription{Filter: b.string()} // [MQTT-3.8.3-1]
		options := b.uint8()
		if err := sub.setOptions(options, v); err != nil {
			b.fail(err)
		}
		if b.err == nil {
			s.Subscriptions = append(s.Subscriptions, sub)
		}
	}
	return b.end()
}

func (s *Subscription) setOptions(options byte, v Version) error {
	reserved := byte(optionsReserved)
	if v != V5 {
		reserved = optionsReserved311
	}
	if options&reserved != 0 {
		return malformed("reserved subscription option is set [MQTT-3.8.3-5]") // [MQTT311-3.8.3-4]
	}
	s.QoS = options & 3
	if s.QoS == 3 {
		return violation("subscription with QoS 3") // 3.8.3.1; [MQTT311-3.8.3-4]
	}
	s.NoLocal = options&optionNoLocal != 0
	s.RetainAsPublished = options&optionRetainAsPublished != 0
	s.RetainHandling = RetainHandling(options >> shiftRetainHandling & 3)
	if s.RetainHandling == 3 {
		return violation("retain handling 3")
	}
	return nil
}

func (s *Subscription) options(v Version) byte {
	assert(s.QoS <= 2 && s.RetainHandling <= 2, "subscription option out of range")
	options := s.QoS
	if v != V5 {
		return options
	}
	if s.NoLocal {
		options |= optionNoLocal
	}
	if s.RetainAsPublished {
		options |= optionRetainAsPublished
	}
	return options | byte(s.RetainHandling)<<shiftRetainHandling
}

// AppendSubscribe encodes s; in 3.1.1 without what only MQTT 5 can say.
func AppendSubscribe(dst []byte, s *Subscribe, v Version) []byte {
	assert(s.PacketID != 0, "SUBSCRIBE with packet identifier 0")
	assert(len(s.Subscriptions) != 0, "SUBSCRIBE without a topic filter")
	n := 2
	if v == V5 {
		n += s.Props.sizeWithPrefix()
	}
	for i := range s.Subscriptions {
		n += 2 + len(s.Subscriptions[i].Filter) + 1
	}
	dst = appendHeader(dst, TypeSubscribe, 0b0010, n) // [MQTT-3.8.1-1]
	dst = binary.BigEndian.AppendUint16(dst, s.PacketID)
	if v == V5 {
		dst = s.Props.append(dst, subscribeProperties)
	}
	for i := range s.Subscriptions {
		dst = appendBytes(dst, s.Subscriptions[i].Filter)
		dst = append(dst, s.Subscriptions[i].options(v))
	}
	return dst
}
