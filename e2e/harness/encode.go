package harness

import "encoding/binary"

// Will is the will of a Connect.
type Will struct {
	Topic   string
	Payload string
	QoS     byte
	Retain  bool
	Props   Props
}

// Connect is what a CONNECT says. Version is 4 or 5; any other number is sent as it stands.
type Connect struct {
	Version   byte
	ClientID  string
	Clean     bool
	KeepAlive uint16
	Props     Props
	Will      *Will
	// User and Password are sent when they are not empty.
	User, Password string
}

// Bytes spells the CONNECT packet.
func (c Connect) Bytes() []byte {
	name := "MQTT"
	if c.Version == 3 {
		name = "MQIsdp"
	}
	var flags byte
	if c.Clean {
		flags |= 2
	}
	if c.Will != nil {
		flags |= 4 | c.Will.QoS<<3
		if c.Will.Retain {
			flags |= 32
		}
	}
	if c.User != "" {
		flags |= 128
	}
	if c.Password != "" {
		flags |= 64
	}
	b := append(str(nil, name), c.Version, flags)
	b = binary.BigEndian.AppendUint16(b, c.KeepAlive)
	if c.Version == 5 {
		b = c.Props.append(b)
	}
	b = str(b, c.ClientID)
	if c.Will != nil {
		if c.Version == 5 {
			b = c.Will.Props.append(b)
		}
		b = str(str(b, c.Will.Topic), c.Will.Payload)
	}
	if c.User != "" {
		b = str(b, c.User)
	}
	if c.Password != "" {
		b = str(b, c.Password)
	}
	return Frame(CONNECT<<4, b)
}

// Bytes spells a PUBLISH, an acknowledgement, PINGREQ or DISCONNECT as a client of this version sends it.
func (p Packet) Bytes(version byte) []byte {
	first := p.Type << 4
	var b []byte
	switch p.Type {
	case PUBLISH:
		first |= p.QoS << 1
		if p.Dup {
			first |= 8
		}
		if p.Retain {
			first |= 1
		}
		b = str(b, p.Topic)
		if p.QoS > 0 {
			b = binary.BigEndian.AppendUint16(b, p.ID)
		}
		if version == 5 {
			b = p.Props.append(b)
		}
		b = append(b, p.Payload...)
	case PUBACK, PUBREC, PUBREL, PUBCOMP:
		if p.Type == PUBREL {
			first |= 2
		}
		b = binary.BigEndian.AppendUint16(b, p.ID)
		if version == 5 && p.Code != 0 {
			b = append(b, p.Code)
		}
	case PINGREQ:
	case DISCONNECT:
		if version == 5 && (p.Code != 0 || len(p.Props) > 0) {
			b = p.Props.append(append(b, p.Code))
		}
	default:
		panic("a client does not send " + typeNames[p.Type] + " this way")
	}
	return Frame(first, b)
}

// Sub is one subscription: a filter and its options byte (QoS in the low two bits).
type Sub struct {
	Filter  string
	Options byte
}

// To makes a subscription.
func To(filter string, options byte) Sub { return Sub{Filter: filter, Options: options} }

// Subscription options of MQTT 5 (3.8.3.1).
const (
	NoLocal           byte = 4
	RetainAsPublished byte = 8
	RetainIfNew       byte = 16
	RetainNever       byte = 32
)

// SubscribeBytes spells a SUBSCRIBE.
func SubscribeBytes(version byte, id uint16, props Props, subs ...Sub) []byte {
	b := binary.BigEndian.AppendUint16(nil, id)
	if version == 5 {
		b = props.append(b)
	}
	for _, s := range subs {
		b = append(str(b, s.Filter), s.Options)
	}
	return Frame(SUBSCRIBE<<4|2, b)
}

// UnsubscribeBytes spells an UNSUBSCRIBE.
func UnsubscribeBytes(version byte, id uint16, filters ...string) []byte {
	b := binary.BigEndian.AppendUint16(nil, id)
	if version == 5 {
		b = Props(nil).append(b)
	}
	for _, f := range filters {
		b = str(b, f)
	}
	return Frame(UNSUBSCRIBE<<4|2, b)
}
