package mqttwire

import "encoding/binary"

// Unsuback is UNSUBACK: in MQTT 5 one code for each filter of the UNSUBSCRIBE,
// in its order [MQTT-3.11.3-1]; in 3.1.1 no codes.
type Unsuback struct {
	PacketID uint16
	Codes    []ReasonCode
	Props    Properties // ReasonString, User
}

// DecodeUnsuback reads the packet identifier and, in MQTT 5, the properties and
// the codes. u.Codes is a copy, in reused space if there is enough.
func DecodeUnsuback(f Frame, v Version, u *Unsuback) error {
	f.expect(TypeUnsuback)
	b := body{rest: f.Body, version: v}
	u.Codes = u.Codes[:0]
	u.PacketID = b.packetID()
	b.properties(&u.Props, ackProperties, HasUser)
	if v == V5 {
		u.Codes = b.reasonCodes(u.Codes, TypeUnsuback)
	}
	return b.end()
}

// AppendUnsuback encodes u.
func AppendUnsuback(dst []byte, u *Unsuback, v Version) []byte {
	assert(u.PacketID != 0, "UNSUBACK with packet identifier 0")
	if v != V5 {
		return append(dst, byte(TypeUnsuback)<<4, 2, byte(u.PacketID>>8), byte(u.PacketID))
	}
	assert(len(u.Codes) != 0, "UNSUBACK without codes")
	dst = appendHeader(dst, TypeUnsuback, 0, 2+u.Props.sizeWithPrefix()+len(u.Codes))
	dst = binary.BigEndian.AppendUint16(dst, u.PacketID)
	dst = u.Props.append(dst, ackProperties)
	for _, code := range u.Codes {
		assert(code.allowedIn(TypeUnsuback), "reason code not allowed in UNSUBACK")
		dst = append(dst, byte(code))
	}
	return dst
}
