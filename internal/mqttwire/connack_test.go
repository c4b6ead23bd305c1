package mqttwire

import (
	"bytes"
	"testing"
)

func TestConnackBothWays(t *testing.T) {
	t.Parallel()
	user := prop(38, str("k"), str("v"))
	testBothWays(t, []acceptance{
		{"accepted", V311, raw(0x20, 2, 0, 0), &Connack{}},
		{"session present", V311, raw(0x20, 2, 1, 0), &Connack{SessionPresent: true}},
		{"return code 1, unacceptable version", V311, raw(0x20, 2, 0, 1), &Connack{Code: UnsupportedProtocolVersion}},
		{"return code 2, identifier rejected", V311, raw(0x20, 2, 0, 2), &Connack{Code: ClientIDNotValid}},
		{"return code 3, server unavailable", V311, raw(0x20, 2, 0, 3), &Connack{Code: ServerUnavailable}},
		{"return code 4, bad user name or password", V311, raw(0x20, 2, 0, 4), &Connack{Code: BadUserNameOrPassword}},
		{"return code 5, not authorized", V311, raw(0x20, 2, 0, 5), &Connack{Code: NotAuthorized}},
		{"accepted", V5, raw(0x20, 3, 0, 0, 0), &Connack{}},
		{"refused with 0x84", V5, raw(0x20, 3, 0, 0x84, 0), &Connack{Code: UnsupportedProtocolVersion}},
		{"every property of CONNACK", V5,
			pkt(0x20, raw(1, 0), props(
				prop(17, raw(0, 0, 0, 9)), prop(18, str("assigned")), prop(19, raw(0, 30)), prop(21, str("m")), prop(22, str("d")),
				prop(26, str("info")), prop(28, str("other")), prop(31, str("why")), prop(33, raw(0, 20)), prop(34, raw(0, 10)),
				prop(36, raw(1)), prop(37, raw(1)), prop(39, raw(0, 16, 0, 0)), prop(40, raw(1)), prop(41, raw(1)), prop(42, raw(0)), user)),
			&Connack{SessionPresent: true, Props: Properties{
				Present: connackProperties, SessionExpiry: 9, AssignedClientID: []byte("assigned"), ServerKeepAlive: 30,
				AuthMethod: []byte("m"), AuthData: []byte("d"), ResponseInfo: []byte("info"), ServerReference: []byte("other"),
				ReasonString: []byte("why"), ReceiveMaximum: 20, TopicAliasMaximum: 10, MaximumQoS: 1, RetainAvailable: 1,
				MaximumPacketSize: 1 << 20, WildcardAvailable: 1, SubscriptionIDAvailable: 1, User: user,
			}}},
	})
}

func TestConnackRefused(t *testing.T) {
	t.Parallel()
	testRefused(t, []refusal{
		{"reserved acknowledge flag", V311, raw(0x20, 2, 2, 0), MalformedPacket, "[MQTT-3.2.2-1]"},
		{"reserved acknowledge flag", V5, raw(0x20, 3, 0x80, 0, 0), MalformedPacket, "[MQTT-3.2.2-1]"},
		{"session present with a refusal", V311, raw(0x20, 2, 1, 5), ProtocolViolation, "session present"},
		{"session present with a refusal", V5, raw(0x20, 3, 1, 0x87, 0), ProtocolViolation, "session present"},
		{"return code 6", V311, raw(0x20, 2, 0, 6), MalformedPacket, "return code"},
		{"a reason code of SUBACK", V5, raw(0x20, 3, 0, 1, 0), ProtocolViolation, "reason code"},
		{"one byte only", V311, raw(0x20, 1, 0), MalformedPacket, "ends early"},
		{"properties in 3.1.1", V311, raw(0x20, 3, 0, 0, 0), MalformedPacket, "after the end"},
		{"maximum QoS 2", V5, pkt(0x20, raw(0, 0), props(prop(36, raw(2)))), ProtocolViolation, "0 or 1"},
		{"shared available 2", V5, pkt(0x20, raw(0, 0), props(prop(42, raw(2)))), ProtocolViolation, "0 or 1"},
	})
}

// What 3.1.1 has no word for must be said by closing the connection, except
// where the client should come again later or was plainly not let in.
func TestReturnCodeOf311ForEveryReason(t *testing.T) {
	t.Parallel()
	for code, want := range map[ReasonCode]byte{
		Success: 0, UnsupportedProtocolVersion: 1, ClientIDNotValid: 2, ServerUnavailable: 3, ServerBusy: 3,
		QuotaExceeded: 3, ConnectionRateExceeded: 3, UseAnotherServer: 3, ServerMoved: 3, UnspecifiedError: 3,
		ImplementationSpecific: 3, BadUserNameOrPassword: 4, NotAuthorized: 5, Banned: 5, BadAuthenticationMethod: 5,
	} {
		if rc, ok := ReturnCode(code); !ok || rc != want {
			t.Errorf("%s: return code %d, %v; want %d", code, rc, ok, want)
		}
		if got := AppendConnack(nil, &Connack{Code: code}, V311); !bytes.Equal(got, raw(0x20, 2, 0, want)) {
			t.Errorf("%s: CONNACK % x", code, got)
		}
	}
	for _, code := range []ReasonCode{MalformedPacket, ProtocolViolation, TopicNameInvalid, PacketTooLarge, PayloadFormatInvalid, RetainNotSupported, QoSNotSupported} {
		if rc, ok := ReturnCode(code); ok {
			t.Errorf("%s has return code %d", code, rc)
		}
		mustPanic(t, "CONNACK of 3.1.1 with "+code.String(), func() { AppendConnack(nil, &Connack{Code: code}, V311) })
	}
	mustPanic(t, "session present with a refusal [MQTT-3.2.2-6]", func() {
		AppendConnack(nil, &Connack{SessionPresent: true, Code: Banned}, V5)
	})
}
