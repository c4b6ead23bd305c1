package mqttwire

import "encoding/binary"

// Unsubscribe is UNSUBSCRIBE. Its slices alias the frame's body. As in
// SUBSCRIBE, the filters are well-formed strings, no more.
type Unsubscribe struct {
	PacketID uint16
	Filters  [][]byte
	Props    Properties // User
}

// DecodeUnsubscribe reads the packet identifier, the properties (MQTT 5) and
// one filter or more [MQTT-3.10.3-2]. u.Filters is reused if it has room.
func DecodeUnsubscribe(f Frame, v Version, u *Unsubscribe) error {
	f.expect(TypeUnsubscribe)
	b := body{rest: f.Body, version: v}
	u.Filters = u.Filters[:0]
	u.PacketID = b.packetID()
	b.properties(&u.Props, unsubscribeProperties, HasUser)
	if b.err == nil && len(b.rest) == 0 {
		b.fail(violation("UNSUBSCRIBE without a topic filter [MQTT-3.10.3-2]"))
	}
	for len(b.rest) != 0 {
		filter := b.string() // [MQTT-3.10.3-1]
		if b.err == nil {
			u.Filters = append(u.Filters, filter)
		}
	}
	return b.end()
}

// AppendUnsubscribe encodes u.
func AppendUnsubscribe(dst []byte, u *Unsubscribe, v Version) []byte {
	assert(u.PacketID != 0, "UNSUBSCRIBE with packet identifier 0")
	assert(len(u.Filters) != 0, "UNSUBSCRIBE without a topic filter")
	n := 2
	if v == V5 {
		n += u.Props.sizeWithPrefix()
	}
	for _, filter := range u.Filters {
		n += 2 + len(filter)
	}
	dst = appendHeader(dst, TypeUnsubscribe, 0b0010, n) // [MQTT-3.10.1-1]
	dst = binary.BigEndian.AppendUint16(dst, u.PacketID)
	if v == V5 {
		dst = u.Props.append(dst, unsubscribeProperties)
	}
	for _, filter := range u.Filters {
		dst = appendBytes(dst, filter)
	}
	return dst
}
