package mqttwire

import (
	"bytes"
	"testing"
)

// An identifier whose wire form and whose field disagree would corrupt packets
// silently, so each is set, sent and read back on its own.
func TestEveryPropertyHasAFieldOfItsOwn(t *testing.T) {
	t.Parallel()
	count := 0
	for id := byte(1); id < idLimit; id++ {
		if propertyKinds[id] == kindNone || repeatable&(1<<id) != 0 {
			continue
		}
		count++
		var p, back Properties
		p.Present = 1 << id
		switch propertyKinds[id] {
		case kindByte:
			*p.byteField(id) = 1
		case kindUint16:
			*p.uint16Field(id) = 0x0102
		case kindUint32:
			*p.uint32Field(id) = 0x01020304
		default:
			*p.bytesField(id) = []byte("x")
		}
		block := p.appendBare(nil, ^PropertySet(0))
		if block[0] != id || len(block) != p.size() {
			t.Errorf("property %d encoded as % x, size %d", id, block, p.size())
		}
		if err := back.decode(block, ^PropertySet(0), 0); err != nil {
			t.Errorf("property %d: %v", id, err)
		}
		if again := back.appendBare(nil, ^PropertySet(0)); !bytes.Equal(again, block) {
			t.Errorf("property %d: % x became % x", id, block, again)
		}
		for other := byte(1); other < idLimit; other++ {
			if other != id && sameField(&p, id, other) {
				t.Errorf("properties %d and %d share a field", id, other)
			}
		}
	}
	if count != 25 { // 27 in table 2-4, less the two that repeat
		t.Errorf("%d properties", count)
	}
}

func sameField(p *Properties, a, b byte) bool {
	if propertyKinds[b] == kindNone || repeatable&(1<<b) != 0 {
		return false
	}
	return fieldOf(p, a) == fieldOf(p, b)
}

func fieldOf(p *Properties, id byte) any {
	switch propertyKinds[id] {
	case kindByte:
		return p.byteField(id)
	case kindUint16:
		return p.uint16Field(id)
	case kindUint32:
		return p.uint32Field(id)
	default:
		return p.bytesField(id)
	}
}
