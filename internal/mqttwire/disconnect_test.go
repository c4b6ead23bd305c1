package mqttwire

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestDisconnectAndAuthBothWays(t *testing.T) {
	t.Parallel()
	user := prop(38, str("k"), str("v"))
	testBothWays(t, []acceptance{
		{"a normal goodbye is two bytes", V311, raw(0xE0, 0), &Disconnect{}},
		{"a normal goodbye is two bytes", V5, raw(0xE0, 0), &Disconnect{}},
		{"goodbye, but send the will", V5, raw(0xE0, 1, 4), &Disconnect{Code: DisconnectWithWill}},
		{"taken over", V5, raw(0xE0, 1, 0x8E), &Disconnect{Code: SessionTakenOver}},
		{"every property of DISCONNECT", V5,
			pkt(0xE0, raw(0x9D), props(prop(17, raw(0, 0, 0, 0)), prop(28, str("there")), prop(31, str("why")), user)),
			&Disconnect{Code: ServerMoved, Props: Properties{
				Present: disconnectProperties, ServerReference: []byte("there"), ReasonString: []byte("why"), User: user,
			}}},
		{"AUTH of two bytes is success", V5, raw(0xF0, 0), &Auth{}},
		{"every property of AUTH", V5,
			pkt(0xF0, raw(0x18), props(prop(21, str("m")), prop(22, str("d")), prop(31, str("why")), user)),
			&Auth{Code: ContinueAuthentication, Props: Properties{
				Present: authProperties, AuthMethod: []byte("m"), AuthData: []byte("d"), ReasonString: []byte("why"), User: user,
			}}},
		{"PINGREQ", V311, raw(0xC0, 0), TypePingreq},
		{"PINGRESP", V5, raw(0xD0, 0), TypePingresp},
	})
	testRefused(t, []refusal{
		{"DISCONNECT with a body", V311, raw(0xE0, 1, 0), MalformedPacket, "after the end"},
		{"DISCONNECT with a code of PUBACK [MQTT-3.14.2-1]", V5, raw(0xE0, 1, 0x10), ProtocolViolation, "reason code"},
		{"DISCONNECT with a property of CONNECT", V5, pkt(0xE0, raw(0), props(prop(33, raw(0, 1)))), MalformedPacket, "not allowed"},
		{"DISCONNECT with bytes after the properties", V5, pkt(0xE0, raw(0), props(), raw(1)), MalformedPacket, "after the end"},
		{"AUTH with a code of DISCONNECT [MQTT-3.15.2-1]", V5, raw(0xF0, 1, 4), ProtocolViolation, "reason code"},
		{"AUTH without a method", V5, pkt(0xF0, raw(0x18), props(prop(22, str("d")))), ProtocolViolation, "without authentication method"},
		{"AUTH with a code and nothing more", V5, raw(0xF0, 1, 0x18), ProtocolViolation, "without authentication method"},
	})
}

func TestDisconnectEncoderSaysNothingIn311(t *testing.T) {
	t.Parallel()
	if got := AppendDisconnect(nil, &Disconnect{Code: ServerShuttingDown}, V311); !bytes.Equal(got, raw(0xE0, 0)) {
		t.Errorf("got % x", got)
	}
	mustPanic(t, "DISCONNECT with a code of SUBACK", func() { AppendDisconnect(nil, &Disconnect{Code: GrantedQoS1}, V5) })
	mustPanic(t, "AUTH without a method", func() { AppendAuth(nil, &Auth{Code: ReAuthenticate}) })
	mustPanic(t, "a decoder given another packet", func() { DecodeAuth(Frame{Type: TypeConnect}, V5, new(Auth)) })
}

func TestReasonCodesAreErrorsWithNames(t *testing.T) {
	t.Parallel()
	err := fmt.Errorf("reading SUBSCRIBE: %w", violation("x"))
	if !errors.Is(err, ProtocolViolation) || CodeOf(err) != ProtocolViolation || err.Error() != "reading SUBSCRIBE: protocol error: x" {
		t.Errorf("%v carries %v", err, CodeOf(err))
	}
	if CodeOf(errors.New("disk")) != UnspecifiedError || CodeOf(fmt.Errorf("x: %w", SessionTakenOver)) != SessionTakenOver {
		t.Error("CodeOf")
	}
	if CodeOf(&UnsupportedVersionError{}) != UnsupportedProtocolVersion {
		t.Error("CodeOf of an unsupported version")
	}
	if Success.Failed() || GrantedQoS2.Failed() || ReAuthenticate.Failed() || !UnspecifiedError.Failed() || !WildcardsNotSupported.Failed() {
		t.Error("Failed draws the line elsewhere than 0x80")
	}
	for _, codes := range reasonsOf {
		for _, code := range codes {
			if strings.Contains(code.String(), "0x") {
				t.Errorf("code %s has no name", code)
			}
		}
	}
	if got := ReasonCode(0x7F).Error(); got != "reason code 0x7F" {
		t.Error(got)
	}
}

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
