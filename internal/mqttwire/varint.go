package mqttwire

// A variable byte integer (MQTT 5, 1.5.5; 3.1.1, 2.2.3) holds seven bits a
// byte, low bits first, the top bit saying that another byte follows; four
// bytes at most.

// readVarint returns the value and how many bytes it took: 0 when b ends too
// early, -1 when a fifth byte would be needed. It does not insist on the
// shortest form; see varintSize.
func readVarint(b []byte) (value uint32, size int) {
	if len(b) > 0 && b[0] < 0x80 {
		return uint32(b[0]), 1
	}
	for i := 0; i < len(b) && i < 4; i++ {
		value |= uint32(b[i]&0x7F) << (7 * i)
		if b[i] < 0x80 {
			return value, i + 1
		}
	}
	if len(b) >= 4 {
		return 0, -1
	}
	return 0, 0
}

// varintSize is the length of value in its shortest form.
func varintSize(value uint32) int {
	switch {
	case value < 1<<7:
		return 1
	case value < 1<<14:
		return 2
	case value < 1<<21:
		return 3
	default:
		return 4
	}
}

func appendVarint(dst []byte, value uint32) []byte {
	for value >= 0x80 {
		dst = append(dst, byte(value)|0x80)
		value >>= 7
	}
	return append(dst, byte(value))
}

// appendHeader writes a fixed header.
func appendHeader(dst []byte, t PacketType, flags byte, remaining int) []byte {
	assert(remaining <= MaxRemainingLength, "packet longer than the protocol can say")
	return appendVarint(append(dst, byte(t)<<4|flags), uint32(remaining))
}
