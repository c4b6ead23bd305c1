// Package load is the MQTT load of the benchmarks: hand-made packets of MQTT 3.1.1 on plain sockets, many to a
// write. It does as little as possible for each message, since it shares the machine with the broker it measures.
package load

import "encoding/binary"

const (
	typeConnack = 0x20
	typePublish = 0x30
	typePuback  = 0x40
	typeSuback  = 0x90
)

func appendString(b []byte, s string) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(len(s)))
	return append(b, s...)
}

func appendLength(b []byte, n int) []byte {
	for n >= 128 {
		b = append(b, byte(n)|128)
		n >>= 7
	}
	return append(b, byte(n))
}

func frame(first byte, body []byte) []byte {
	return append(appendLength([]byte{first}, len(body)), body...)
}

// Connect is a CONNECT without keep-alive and will.
func Connect(id string, clean bool, user, password string) []byte {
	var flags byte
	if clean {
		flags |= 2
	}
	if user != "" {
		flags |= 128 | 64
	}
	b := appendString(append(appendString(nil, "MQTT"), 4, flags, 0, 0), id)
	if user != "" {
		b = appendString(appendString(b, user), password)
	}
	return frame(0x10, b)
}

// Subscribe subscribes to filters at one QoS under packet id 1.
func Subscribe(qos byte, filters ...string) []byte {
	b := []byte{0, 1}
	for _, filter := range filters {
		b = append(appendString(b, filter), qos)
	}
	return frame(0x82, b)
}

// Publish is a PUBLISH whose payload has so many bytes; at QoS 1 its packet id is at the returned offset.
func Publish(topic string, payload int, qos byte) (packet []byte, idAt int) {
	b := appendString(nil, topic)
	idAt = len(b)
	if qos > 0 {
		b = append(b, 0, 0)
	}
	for i := range payload {
		b = append(b, "0123456789abcdef"[i&15])
	}
	packet = frame(typePublish|qos<<1, b)
	return packet, idAt + len(packet) - len(b)
}
