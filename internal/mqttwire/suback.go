package mqttwire

import "encoding/binary"

// Suback is SUBACK: one code for each filter of the SUBSCRIBE, in its order
// [MQTT-3.8.4-6].
type Suback struct {
	PacketID uint16
	Codes    []ReasonCode // granted QoS or a failure
	Props    Properties   // ReasonString, User
}

// DecodeSuback reads the packet identifier, the properties (MQTT 5) and the
// codes. s.Codes is a copy, in reused space if there is enough.
func DecodeSuback(f Frame, v Version, s *Suback) error {
	f.expect(TypeSuback)
	b := body{rest: f.Body, version: v}
	s.PacketID = b.packetID()
	b.properties(&s.Props, ackProperties, HasUser)
	s.Codes = b.reasonCodes(s.Codes[:0], TypeSuback)
	return b.end()
}

// reasonCodes reads one code or more up to the end of the packet.
func (b *body) reasonCodes(dst []ReasonCode, t PacketType) []ReasonCode {
	if b.err == nil && len(b.rest) == 0 {
		b.fail(malformed("acknowledgement without a reason code"))
	}
	for _, c := range b.rest {
		code := ReasonCode(c)
		// 3.1.1 knows 0, 1, 2 and 0x80 only [MQTT311-3.9.3-2].
		if !code.allowedIn(t) || b.version != V5 && code > UnspecifiedError {
			b.fail(errReasonCode) // [MQTT-3.9.3-2] [MQTT-3.11.3-2]
			return dst[:0]
		}
		dst = append(dst, code)
	}
	b.rest = nil
	return dst
}

// AppendSuback encodes s. In 3.1.1 every failure becomes 0x80.
func AppendSuback(dst []byte, s *Suback, v Version) []byte {
	assert(s.PacketID != 0 && len(s.Codes) != 0, "SUBACK without packet identifier or codes")
	n := 2 + len(s.Codes)
	if v == V5 {
		n += s.Props.sizeWithPrefix()
	}
	dst = appendHeader(dst, TypeSuback, 0, n)
	dst = binary.BigEndian.AppendUint16(dst, s.PacketID)
	if v == V5 {
		dst = s.Props.append(dst, ackProperties)
	}
	for _, code := range s.Codes {
		assert(code.allowedIn(TypeSuback), "reason code not allowed in SUBACK")
		if v != V5 && code.Failed() {
			code = UnspecifiedError
		}
		dst = append(dst, byte(code))
	}
	return dst
}
