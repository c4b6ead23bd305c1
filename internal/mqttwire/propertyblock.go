package mqttwire

import (
	"encoding/binary"
	"math/bits"
)

// decode reads a property block (without its length) into p, which must be
// empty. Properties outside allowed make the packet malformed (section
// 2.2.2.2); repeated ones are a violation, but for those in repeats.
func (p *Properties) decode(block []byte, allowed, repeats PropertySet) error {
	firstUser, lastUser := -1, 0
	firstID, lastID := -1, 0
	for at := 0; at < len(block); {
		id := block[at]
		if id >= idLimit || allowed&(1<<id) == 0 {
			return malformed("property not allowed in this packet")
		}
		bit := PropertySet(1) << id
		if p.Present&bit != 0 && repeats&bit == 0 {
			return violation("property given twice")
		}
		p.Present |= bit
		size, err := p.decodeValue(id, block[at+1:])
		if err != nil {
			return err
		}
		end := at + 1 + size
		switch id {
		case idUser:
			if firstUser < 0 {
				firstUser = at
			}
			lastUser = end
		case idSubscriptionID:
			if firstID < 0 {
				firstID = at
			}
			lastID = end
		}
		at = end
	}
	if firstUser >= 0 {
		p.User = block[firstUser:lastUser:lastUser]
	}
	if firstID >= 0 {
		p.SubscriptionIDs = block[firstID:lastID:lastID]
	}
	return nil
}

// decodeValue reads one value, sets its field and returns its size.
func (p *Properties) decodeValue(id byte, b []byte) (size int, err error) {
	size = valueSize(id, b)
	if size < 0 {
		return 0, malformed("property ends early or its number is too long")
	}
	switch propertyKinds[id] {
	case kindByte:
		*p.byteField(id) = b[0]
		return size, checkNumber(id, uint32(b[0]))
	case kindUint16:
		v := binary.BigEndian.Uint16(b)
		*p.uint16Field(id) = v
		return size, checkNumber(id, uint32(v))
	case kindUint32:
		v := binary.BigEndian.Uint32(b)
		*p.uint32Field(id) = v
		return size, checkNumber(id, v)
	case kindVarint:
		v, _ := readVarint(b)
		if size != varintSize(v) {
			return 0, malformed("variable byte integer not in its shortest form [MQTT-1.5.5-1]")
		}
		return size, checkNumber(id, v)
	case kindString:
		s := b[2:size:size]
		*p.bytesField(id) = s
		faults := scanText(s)
		if id == idResponseTopic && (faults&hasWildcard != 0 || len(s) == 0) {
			// [MQTT-3.3.2-14] [MQTT-4.7.3-1]
			return 0, violation("response topic is not a topic name [MQTT-3.3.2-14]")
		}
		return size, textError(faults, V5)
	case kindPair:
		key, value := splitPair(b)
		// Both halves must be strings [MQTT-1.5.7-1].
		return size, textError(scanText(key)|scanText(value), V5)
	default: // kindBinary
		*p.bytesField(id) = b[2:size:size]
		return size, nil
	}
}

// valueSize is how many bytes the value of property id takes at the head of b,
// or -1 if b ends before it or its number has a fifth byte.
func valueSize(id byte, b []byte) int {
	var size int
	switch propertyKinds[id] {
	case kindByte:
		size = 1
	case kindUint16:
		size = 2
	case kindUint32:
		size = 4
	case kindVarint:
		_, size = readVarint(b)
		if size == 0 {
			return -1
		}
		return size
	case kindPair:
		if len(b) < 2 {
			return -1
		}
		size = 2 + int(binary.BigEndian.Uint16(b))
		if len(b) < size+2 {
			return -1
		}
		size += 2 + int(binary.BigEndian.Uint16(b[size:]))
	default:
		if len(b) < 2 {
			return -1
		}
		size = 2 + int(binary.BigEndian.Uint16(b))
	}
	if len(b) < size {
		return -1
	}
	return size
}

// size is the encoded length of p without the length prefix.
func (p *Properties) size() int {
	n := 0
	for set := p.Present &^ repeatable; set != 0; set &= set - 1 {
		id := byte(bits.TrailingZeros64(uint64(set)))
		switch propertyKinds[id] {
		case kindByte:
			n += 2
		case kindUint16:
			n += 3
		case kindUint32:
			n += 5
		default:
			n += 3 + len(*p.bytesField(id))
		}
	}
	return n + runSize(p.User, idUser) + runSize(p.SubscriptionIDs, idSubscriptionID)
}

// sizeWithPrefix is size and the length prefix.
func (p *Properties) sizeWithPrefix() int {
	n := p.size()
	return n + varintSize(uint32(n))
}

// append writes p with its length prefix. Order: by identifier, then the
// subscription identifiers, then the user properties as they came.
func (p *Properties) append(dst []byte, allowed PropertySet) []byte {
	assert(p.Present&^allowed == 0, "property not allowed in this packet")
	if p.Present == 0 && len(p.User) == 0 && len(p.SubscriptionIDs) == 0 {
		return append(dst, 0) // [MQTT-2.2.2-1]
	}
	assert(allowed&HasSubscriptionID != 0 || len(p.SubscriptionIDs) == 0, "subscription identifier not allowed in this packet")
	dst = appendVarint(dst, uint32(p.size()))
	return p.appendBare(dst, allowed)
}

// appendBare writes those properties of p that are in set, without a prefix.
func (p *Properties) appendBare(dst []byte, set PropertySet) []byte {
	for rest := p.Present & set &^ repeatable; rest != 0; rest &= rest - 1 {
		id := byte(bits.TrailingZeros64(uint64(rest)))
		dst = append(dst, id)
		switch propertyKinds[id] {
		case kindByte:
			dst = append(dst, *p.byteField(id))
		case kindUint16:
			dst = binary.BigEndian.AppendUint16(dst, *p.uint16Field(id))
		case kindUint32:
			dst = binary.BigEndian.AppendUint32(dst, *p.uint32Field(id))
		default:
			dst = appendBytes(dst, *p.bytesField(id))
		}
	}
	if set&HasSubscriptionID != 0 {
		dst = appendRun(dst, p.SubscriptionIDs, idSubscriptionID)
	}
	if set&HasUser != 0 {
		dst = appendRun(dst, p.User, idUser)
	}
	return dst
}

// AppendForward appends to dst the properties of a PUBLISH or of a will that
// travel with the message unaltered: payload format indicator, content type,
// response topic, correlation data and the user properties, in order and with
// duplicates. The result, in wire form without a length prefix, is what a
// broker keeps with the message and hands to Delivery.Forward; most messages
// have none and nothing is appended.
func (p *Properties) AppendForward(dst []byte) []byte {
	if p.Present&forwardable == 0 && len(p.User) == 0 {
		return dst
	}
	return p.appendBare(dst, forwardable)
}

// DecodeForward reads back what AppendForward wrote, for those who need the
// single properties: other protocols, a console. p aliases block.
func DecodeForward(block []byte, p *Properties) error {
	p.reset()
	return p.decode(block, forwardable, HasUser)
}
