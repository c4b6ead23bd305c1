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

// Connect is a CONNECT without keep-alive, will and user.
func Connect(id string, clean bool) []byte {
	var flags byte
	if clean {
		flags = 2
	}
	b := append(appendString(nil, "MQTT"), 4, flags, 0, 0)
	return frame(0x10, appendString(b, id))
}

// Subscribe subscribes to one filter under packet id 1.
func Subscribe(filter string, qos byte) []byte {
	return frame(0x82, append(appendString([]byte{0, 1}, filter), qos))
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
