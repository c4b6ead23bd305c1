package mqttwire

import (
	"bytes"
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
