package mqttwire

import "encoding/binary"

// Ack is PUBACK, PUBREC, PUBREL or PUBCOMP: the four have one shape. In 3.1.1
// there is only the packet identifier, and Code is Success.
type Ack struct {
	PacketID uint16
	Code     ReasonCode
	Props    Properties // ReasonString, User
}

// isAck reports whether packets of this type have the shape of Ack.
func (t PacketType) isAck() bool { return t >= TypePuback && t <= TypePubcomp }

// DecodeAck reads
//
//	packet identifier  two bytes
//	reason code        one byte, MQTT 5; may be left out with all that follows
//	properties         MQTT 5; may be left out
func DecodeAck(f Frame, v Version, a *Ack) error {
	assert(f.Type.isAck(), "DecodeAck was given another packet")
	b := body{rest: f.Body, version: v}
	a.PacketID = b.packetID()
	a.Code = Success
	a.Props.reset()
	if v != V5 || len(b.rest) == 0 {
		return b.end()
	}
	a.Code = ReasonCode(b.uint8())
	if !a.Code.allowedIn(f.Type) { // [MQTT-3.4.2-1] [MQTT-3.5.2-1] [MQTT-3.6.2-1] [MQTT-3.7.2-1]
		b.fail(errReasonCode)
	}
	if len(b.rest) != 0 {
		b.properties(&a.Props, ackProperties, HasUser)
	}
	return b.end()
}

var errReasonCode = violation("reason code not allowed in this packet")

// AppendAck encodes the acknowledgement of type t in its shortest form.
func AppendAck(dst []byte, t PacketType, a *Ack, v Version) []byte {
	if v != V5 || a.Props.size() == 0 {
		return AppendAckCode(dst, t, a.PacketID, a.Code, v)
	}
	assertAck(t, a.PacketID, a.Code)
	dst = appendHeader(dst, t, ackFlags(t), 3+a.Props.sizeWithPrefix())
	dst = binary.BigEndian.AppendUint16(dst, a.PacketID)
	dst = append(dst, byte(a.Code))
	return a.Props.append(dst, ackProperties)
}

// AppendAckCode encodes an acknowledgement without properties: four bytes, or
// five when MQTT 5 has something other than Success to say. In 3.1.1 the code
// is lost: that version cannot tell.
func AppendAckCode(dst []byte, t PacketType, packetID uint16, code ReasonCode, v Version) []byte {
	assertAck(t, packetID, code)
	first := byte(t)<<4 | ackFlags(t)
	if v != V5 || code == Success {
		return append(dst, first, 2, byte(packetID>>8), byte(packetID))
	}
	return append(dst, first, 3, byte(packetID>>8), byte(packetID), byte(code))
}

func ackFlags(t PacketType) byte {
	if t == TypePubrel {
		return 0b0010 // [MQTT-3.6.1-1]
	}
	return 0
}

func assertAck(t PacketType, packetID uint16, code ReasonCode) {
	assert(t.isAck(), "not an acknowledgement")
	assert(packetID != 0, "acknowledgement of packet identifier 0")
	assert(code == Success || code.allowedIn(t), "reason code not allowed in this packet")
}
