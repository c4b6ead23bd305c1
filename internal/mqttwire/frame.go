package mqttwire

// PacketType is the upper half of a packet's first byte.
type PacketType byte

const (
	TypeConnect     PacketType = 1
	TypeConnack     PacketType = 2
	TypePublish     PacketType = 3
	TypePuback      PacketType = 4
	TypePubrec      PacketType = 5
	TypePubrel      PacketType = 6
	TypePubcomp     PacketType = 7
	TypeSubscribe   PacketType = 8
	TypeSuback      PacketType = 9
	TypeUnsubscribe PacketType = 10
	TypeUnsuback    PacketType = 11
	TypePingreq     PacketType = 12
	TypePingresp    PacketType = 13
	TypeDisconnect  PacketType = 14
	TypeAuth        PacketType = 15
)

var typeNames = [16]string{
	"reserved", "CONNECT", "CONNACK", "PUBLISH", "PUBACK", "PUBREC", "PUBREL", "PUBCOMP",
	"SUBSCRIBE", "SUBACK", "UNSUBSCRIBE", "UNSUBACK", "PINGREQ", "PINGRESP", "DISCONNECT", "AUTH",
}

// String is the packet's name as the specification writes it.
func (t PacketType) String() string { return typeNames[t&0x0F] }

const (
	// MaxRemainingLength is the largest value four length bytes can say.
	MaxRemainingLength = 268_435_455
	// MaxPacketSize is the largest packet of all: first byte, four length
	// bytes and the rest. It is the unit Maximum Packet Size counts in.
	MaxPacketSize = 1 + 4 + MaxRemainingLength
	// maxHeader is the longest fixed header: first byte and four length bytes.
	maxHeader = 5
)

// Frame is one packet with its fixed header taken off. Body aliases the buffer
// given to Next and is good for as long as that buffer is left alone.
type Frame struct {
	Type  PacketType
	Flags byte // lower half of the first byte, already checked against the type
	// overlong: the length was written with more bytes than it needs. MQTT 5
	// forbids it [MQTT-1.5.5-1], 3.1.1 is silent, and a CONNECT says its
	// version only in its body.
	overlong bool
	Body     []byte
}

// Next cuts the first packet off buf. It returns the frame and the number of
// bytes the packet took. n == 0 with a nil error means that more bytes are
// needed; Size then tells how many.
//
// What the fixed header alone betrays is refused at once, before the body is
// waited for or memory for it is thought of: packet type 0, flags that the type
// does not allow, a length of more than four bytes, a packet over maxPacket
// (total bytes, as MQTT 5 counts; 0 means MaxPacketSize), a ping with a body,
// AUTH in 3.1.1, and anything but CONNECT while the version is unknown (0).
func Next(buf []byte, v Version, maxPacket uint32) (f Frame, n int, err error) {
	start, total, overlong, err := fixedHeader(buf, v, maxPacket)
	if err != nil || total == 0 || len(buf) < total {
		return Frame{}, 0, err
	}
	return Frame{
		Type:     PacketType(buf[0] >> 4),
		Flags:    buf[0] & 0x0F,
		overlong: overlong,
		Body:     buf[start:total:total],
	}, total, nil
}

// Size returns how many bytes the first packet in buf takes altogether, so that
// a reader can size its buffer before the body is here. 0 with a nil error
// means that the fixed header is not complete yet. It refuses what Next
// refuses, so the result never exceeds maxPacket.
func Size(buf []byte, v Version, maxPacket uint32) (total int, err error) {
	_, total, _, err = fixedHeader(buf, v, maxPacket)
	return total, err
}

// fixedHeader reads
//
//	byte 0      type (upper half), flags (lower half)
//	byte 1..4   remaining length, seven bits a byte, low bits first
//
// and returns where the body starts and where it ends.
func fixedHeader(buf []byte, v Version, maxPacket uint32) (start, total int, overlong bool, err error) {
	if len(buf) == 0 {
		return 0, 0, false, nil
	}
	if err := checkFirstByte(buf[0], v); err != nil {
		return 0, 0, false, err
	}
	remaining, size := readVarint(buf[1:])
	if size <= 0 {
		if size < 0 {
			err = errLengthTooLong
		}
		return 0, 0, false, err
	}
	overlong = size != varintSize(remaining)
	if overlong && v == V5 {
		return 0, 0, false, errOverlong
	}
	start = 1 + size
	total = start + int(remaining)
	if maxPacket != 0 && uint64(total) > uint64(maxPacket) {
		return 0, 0, false, errTooLarge
	}
	if remaining != 0 && buf[0]>>5 == byte(TypePingreq)>>1 { // PINGREQ and PINGRESP
		return 0, 0, false, errPingBody
	}
	return start, total, overlong, nil
}

var (
	errLengthTooLong = malformed("remaining length of more than four bytes")
	errOverlong      = malformed("remaining length not in its shortest form [MQTT-1.5.5-1]")
	errTooLarge      = &ProtocolError{Code: PacketTooLarge, Text: "packet exceeds the maximum packet size"}
	errPingBody      = malformed("ping with a body")
)

// checkFirstByte refuses reserved types and reserved flag values
// [MQTT-2.1.3-1], [MQTT311-2.2.2-1] and [MQTT311-2.2.2-2].
func checkFirstByte(first byte, v Version) error {
	t, flags := PacketType(first>>4), first&0x0F
	if v == 0 && t != TypeConnect {
		return violation("first packet is not CONNECT [MQTT-3.1.0-1]")
	}
	switch t {
	case TypePublish:
		return checkPublishFlags(flags)
	case TypePubrel, TypeSubscribe, TypeUnsubscribe:
		// [MQTT-3.6.1-1] [MQTT-3.8.1-1] [MQTT-3.10.1-1]
		if flags != 0b0010 {
			return malformed("fixed header flags are not 0010 [MQTT-2.1.3-1]")
		}
		return nil
	case 0:
		return malformed("packet type 0")
	case TypeAuth:
		if v == V311 {
			return malformed("packet type 15 in MQTT 3.1.1")
		}
	}
	if flags != 0 {
		return malformed("fixed header flags are not 0000 [MQTT-2.1.3-1]")
	}
	return nil
}

// expect guards a decoder: being handed another packet's frame is the
// dispatcher's fault, not the peer's.
func (f Frame) expect(t PacketType) {
	if f.Type != t {
		panic("mqttwire: decoder of " + t.String() + " was given " + f.Type.String())
	}
}
