package harness

import (
	"encoding/binary"
	"fmt"
)

// Property identifiers (MQTT 5, 2.2.2.2).
const (
	PayloadFormat         byte = 0x01
	MessageExpiry         byte = 0x02
	ContentType           byte = 0x03
	ResponseTopic         byte = 0x08
	CorrelationData       byte = 0x09
	SubscriptionID        byte = 0x0B
	SessionExpiry         byte = 0x11
	AssignedClientID      byte = 0x12
	ServerKeepAlive       byte = 0x13
	AuthMethod            byte = 0x15
	AuthData              byte = 0x16
	RequestProblemInfo    byte = 0x17
	WillDelay             byte = 0x18
	RequestResponseInfo   byte = 0x19
	ResponseInfo          byte = 0x1A
	ServerReference       byte = 0x1C
	ReasonString          byte = 0x1F
	ReceiveMaximum        byte = 0x21
	TopicAliasMaximum     byte = 0x22
	TopicAlias            byte = 0x23
	MaximumQoS            byte = 0x24
	RetainAvailable       byte = 0x25
	UserProperty          byte = 0x26
	MaximumPacketSize     byte = 0x27
	WildcardAvailable     byte = 0x28
	SubscriptionIDAvail   byte = 0x29
	SharedSubscriptionAvl byte = 0x2A
)

// Prop is one property: numbers in Int, text and binary data in Str, the value of a user property in Str2.
type Prop struct {
	ID        byte
	Int       uint32
	Str, Str2 string
}

// Props are properties in the order of the wire; an identifier may repeat.
type Props []Prop

// Num makes a property that is a number.
func Num(id byte, v uint32) Prop { return Prop{ID: id, Int: v} }

// Text makes a property that is a string or binary data.
func Text(id byte, s string) Prop { return Prop{ID: id, Str: s} }

// User makes a user property.
func User(key, value string) Prop { return Prop{ID: UserProperty, Str: key, Str2: value} }

// Find gives the first property with this identifier.
func (ps Props) Find(id byte) (Prop, bool) {
	for _, p := range ps {
		if p.ID == id {
			return p, true
		}
	}
	return Prop{}, false
}

// All gives every property with this identifier, in order.
func (ps Props) All(id byte) (out Props) {
	for _, p := range ps {
		if p.ID == id {
			out = append(out, p)
		}
	}
	return out
}

// width says how a property's value is spelt: 1, 2, 4 bytes, 'v'arint, 's'tring or data, 'u'ser property.
func width(id byte) byte {
	switch id {
	case PayloadFormat, RequestProblemInfo, RequestResponseInfo, MaximumQoS, RetainAvailable, WildcardAvailable,
		SubscriptionIDAvail, SharedSubscriptionAvl:
		return 1
	case ServerKeepAlive, ReceiveMaximum, TopicAliasMaximum, TopicAlias:
		return 2
	case MessageExpiry, SessionExpiry, WillDelay, MaximumPacketSize:
		return 4
	case SubscriptionID:
		return 'v'
	case UserProperty:
		return 'u'
	case ContentType, ResponseTopic, CorrelationData, AssignedClientID, AuthMethod, AuthData, ResponseInfo,
		ServerReference, ReasonString:
		return 's'
	}
	return 0
}

func (d *cursor) props() (ps Props) {
	block := &cursor{b: d.take(d.varint())}
	for len(block.b) > 0 && block.err == nil {
		p := Prop{ID: block.u8()}
		switch width(p.ID) {
		case 1:
			p.Int = uint32(block.u8())
		case 2:
			p.Int = uint32(block.u16())
		case 4:
			p.Int = block.u32()
		case 'v':
			p.Int = uint32(block.varint())
		case 's':
			p.Str = block.str()
		case 'u':
			p.Str, p.Str2 = block.str(), block.str()
		default:
			block.err = fmt.Errorf("unknown property %#x", p.ID)
		}
		ps = append(ps, p)
	}
	if block.err != nil && d.err == nil {
		d.err = block.err
	}
	return ps
}

func (ps Props) append(b []byte) []byte {
	var block []byte
	for _, p := range ps {
		block = append(block, p.ID)
		switch width(p.ID) {
		case 1:
			block = append(block, byte(p.Int))
		case 2:
			block = binary.BigEndian.AppendUint16(block, uint16(p.Int))
		case 4:
			block = binary.BigEndian.AppendUint32(block, p.Int)
		case 'v':
			block = varint(block, int(p.Int))
		case 's':
			block = str(block, p.Str)
		case 'u':
			block = str(str(block, p.Str), p.Str2)
		default:
			panic(fmt.Sprintf("property %#x has no spelling", p.ID))
		}
	}
	return append(varint(b, len(block)), block...)
}
