package mqttwire

import "encoding/binary"

// body reads a packet's variable header and payload. It keeps the first error
// and returns zero values after it, so that decoders read as straight scripts
// and look at the error once.
type body struct {
	rest    []byte
	version Version
	err     error
}

func (b *body) fail(err error) {
	if b.err == nil {
		b.err = err
	}
	b.rest = nil
}

var errEndsEarly = malformed("packet ends early")

func (b *body) uint8() byte {
	if len(b.rest) < 1 {
		b.fail(errEndsEarly)
		return 0
	}
	v := b.rest[0]
	b.rest = b.rest[1:]
	return v
}

func (b *body) uint16() uint16 {
	if len(b.rest) < 2 {
		b.fail(errEndsEarly)
		return 0
	}
	v := binary.BigEndian.Uint16(b.rest)
	b.rest = b.rest[2:]
	return v
}

// packetID reads an identifier that must not be 0 [MQTT-2.2.1-3], [MQTT-2.2.1-4],
// [MQTT311-2.3.1-1].
func (b *body) packetID() uint16 {
	id := b.uint16()
	if id == 0 {
		b.fail(errPacketID)
	}
	return id
}

var errPacketID = violation("packet identifier 0 [MQTT-2.2.1-3]")

// binary reads a two-byte length and that many bytes.
func (b *body) binary() []byte {
	n := int(b.uint16())
	if len(b.rest) < n {
		b.fail(errEndsEarly)
		return nil
	}
	v := b.rest[:n:n]
	b.rest = b.rest[n:]
	return v
}

// text reads a UTF-8 string and says what else was seen in it.
func (b *body) text() ([]byte, textFaults) {
	s := b.binary()
	faults := scanText(s)
	if err := textError(faults, b.version); err != nil {
		b.fail(err)
	}
	return s, faults
}

func (b *body) string() []byte {
	s, _ := b.text()
	return s
}

// topicName reads a topic that messages are published to: not empty
// [MQTT-4.7.3-1] and without wildcards [MQTT-3.3.2-2].
func (b *body) topicName() []byte {
	s, faults := b.text()
	if b.err == nil && len(s) == 0 {
		b.fail(errEmptyTopic)
	}
	if faults&hasWildcard != 0 {
		b.fail(errWildcardTopic)
	}
	return s
}

var (
	errEmptyTopic    = violation("empty topic name [MQTT-4.7.3-1]")
	errWildcardTopic = &ProtocolError{Code: TopicNameInvalid, Text: "wildcard in topic name [MQTT-3.3.2-2]"}
)

// properties reads a length and that many bytes of properties; in 3.1.1 there
// are none and p is left empty.
func (b *body) properties(p *Properties, allowed, repeats PropertySet) {
	p.reset()
	if b.version != V5 || b.err != nil {
		return
	}
	n, size := readVarint(b.rest)
	switch {
	case size == 0:
		b.fail(errEndsEarly)
		return
	case size < 0:
		b.fail(malformed("property length of more than four bytes"))
		return
	case size != varintSize(n):
		b.fail(malformed("property length not in its shortest form [MQTT-1.5.5-1]"))
		return
	case int(n) > len(b.rest)-size:
		b.fail(malformed("property length exceeds the packet"))
		return
	}
	end := size + int(n)
	if err := p.decode(b.rest[size:end], allowed, repeats); err != nil {
		b.fail(err)
		return
	}
	b.rest = b.rest[end:]
}

// end returns the first error, or complains about bytes after the packet.
func (b *body) end() error {
	if b.err == nil && len(b.rest) != 0 {
		b.err = malformed("bytes after the end of the packet")
	}
	return b.err
}

func appendString(dst []byte, s string) []byte {
	assert(len(s) <= 0xFFFF, "string over 65,535 bytes")
	return append(binary.BigEndian.AppendUint16(dst, uint16(len(s))), s...)
}

func appendBytes(dst, s []byte) []byte {
	assert(len(s) <= 0xFFFF, "string or binary data over 65,535 bytes")
	return append(binary.BigEndian.AppendUint16(dst, uint16(len(s))), s...)
}
