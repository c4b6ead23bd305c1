package mqttwire

import (
	"bytes"
	"testing"
)

func TestAcksBothWays(t *testing.T) {
	t.Parallel()
	var cases []acceptance
	firsts := map[PacketType]byte{TypePuback: 0x40, TypePubrec: 0x50, TypePubrel: 0x62, TypePubcomp: 0x70}
	for typ, first := range firsts {
		failure := UnspecifiedError
		if typ == TypePubrel || typ == TypePubcomp {
			failure = PacketIDNotFound
		}
		ack := func(code ReasonCode, p Properties) *typedAck {
			return &typedAck{typ, Ack{PacketID: 0x0102, Code: code, Props: p}}
		}
		user := prop(38, str("k"), str("v"))
		cases = append(cases,
			acceptance{typ.String() + " is four bytes", V311, raw(first, 2, 1, 2), ack(Success, Properties{})},
			acceptance{typ.String() + " is four bytes when all is well", V5, raw(first, 2, 1, 2), ack(Success, Properties{})},
			acceptance{typ.String() + " with a failure is five", V5, raw(first, 3, 1, 2, byte(failure)), ack(failure, Properties{})},
			acceptance{typ.String() + " with reason string and user property", V5,
				pkt(first, raw(1, 2, byte(failure)), props(prop(31, str("why")), user)),
				ack(failure, Properties{Present: HasReasonString | HasUser, ReasonString: []byte("why"), User: user})},
		)
	}
	cases = append(cases, acceptance{"PUBACK, nobody matched", V5, raw(0x40, 3, 0, 1, 0x10),
		&typedAck{TypePuback, Ack{PacketID: 1, Code: NoMatchingSubscribers}}})
	testBothWays(t, cases)
}

// Lengths 3 and 4 may both say "success" in full; clients do send them.
func TestAckWithSuccessSpelledOutIsAccepted(t *testing.T) {
	t.Parallel()
	for _, b := range [][]byte{raw(0x40, 3, 0, 1, 0), raw(0x40, 4, 0, 1, 0, 0)} {
		got, err := decodeAny(b, V5)
		if err != nil || got.(*typedAck).Code != Success || got.(*typedAck).PacketID != 1 {
			t.Errorf("% x: %+v, %v", b, got, err)
		}
	}
}

func TestAckRefused(t *testing.T) {
	t.Parallel()
	testRefused(t, []refusal{
		{"PUBACK of packet identifier 0", V311, raw(0x40, 2, 0, 0), ProtocolViolation, "packet identifier 0"},
		{"PUBREL of packet identifier 0", V5, raw(0x62, 2, 0, 0), ProtocolViolation, "packet identifier 0"},
		{"PUBREC with half an identifier", V5, raw(0x50, 1, 1), MalformedPacket, "ends early"},
		{"PUBCOMP without a body", V311, raw(0x70, 0), MalformedPacket, "ends early"},
		{"PUBACK with a reason code", V311, raw(0x40, 3, 0, 1, 0), MalformedPacket, "after the end"},
		{"PUBACK with a code of DISCONNECT [MQTT-3.4.2-1]", V5, raw(0x40, 3, 0, 1, 0x8E), ProtocolViolation, "reason code"},
		{"PUBREL with a code of PUBREC [MQTT-3.6.2-1]", V5, raw(0x62, 3, 0, 1, 0x10), ProtocolViolation, "reason code"},
		{"PUBCOMP with an unknown code [MQTT-3.7.2-1]", V5, raw(0x70, 3, 0, 1, 0xFF), ProtocolViolation, "reason code"},
		{"PUBACK with a property of PUBLISH", V5, pkt(0x40, raw(0, 1, 0), props(prop(3, str("c")))), MalformedPacket, "not allowed"},
		{"PUBACK with two reason strings", V5, pkt(0x40, raw(0, 1, 0), props(prop(31, str("a")), prop(31, str("b")))), ProtocolViolation, "twice"},
		{"PUBACK with bytes after the properties", V5, pkt(0x40, raw(0, 1, 0), props(), raw(9)), MalformedPacket, "after the end"},
	})
}

func TestReasonOfAnAckIsLostIn311(t *testing.T) {
	t.Parallel()
	a := &Ack{PacketID: 1, Code: QuotaExceeded, Props: Properties{Present: HasReasonString, ReasonString: []byte("full")}}
	if got := AppendAck(nil, TypePuback, a, V311); !bytes.Equal(got, raw(0x40, 2, 0, 1)) {
		t.Errorf("got % x", got)
	}
}

func TestAckEncoderPanicsOnWhatNoPeerCouldRead(t *testing.T) {
	t.Parallel()
	mustPanic(t, "packet identifier 0", func() { AppendAckCode(nil, TypePuback, 0, Success, V5) })
	mustPanic(t, "not an acknowledgement", func() { AppendAckCode(nil, TypePublish, 1, Success, V5) })
	mustPanic(t, "a code of SUBACK", func() { AppendAckCode(nil, TypePuback, 1, GrantedQoS1, V5) })
	mustPanic(t, "a property of PUBLISH", func() {
		AppendAck(nil, TypePuback, &Ack{PacketID: 1, Props: Properties{Present: HasContentType}}, V5)
	})
}
