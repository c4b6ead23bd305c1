package mqttwire

import (
	"errors"
	"testing"
)

func TestConnectBothWays(t *testing.T) {
	t.Parallel()
	user := append(prop(38, str("k"), str("1")), prop(38, str("k"), str("2"))...)
	testBothWays(t, []acceptance{
		{"the smallest: clean, no client id", V311,
			pkt(0x10, str("MQTT"), raw(4, 0x02, 0, 0), str("")),
			&Connect{Version: V311, CleanStart: true, ClientID: []byte{}}},
		{"an empty client id without clean session is the server's to answer [MQTT311-3.1.3-8]", V311,
			pkt(0x10, str("MQTT"), raw(4, 0x00, 0, 0), str("")),
			&Connect{Version: V311, ClientID: []byte{}}},
		{"everything: will QoS 1 retained, user name, password", V311,
			pkt(0x10, str("MQTT"), raw(4, 0xEC, 0x01, 0x2C), str("probe"), str("w/t"), str("gone"), str("u"), str("p\x00")),
			&Connect{
				Version: V311, KeepAlive: 300, ClientID: []byte("probe"),
				HasWill: true, Will: Will{QoS: 1, Retain: true, Topic: []byte("w/t"), Payload: []byte("gone")},
				HasUsername: true, Username: []byte("u"), HasPassword: true, Password: []byte("p\x00"),
			}},
		{"user name without password [MQTT311-3.1.2-19]", V311,
			pkt(0x10, str("MQTT"), raw(4, 0x82, 0, 0), str("c"), str("")),
			&Connect{Version: V311, CleanStart: true, ClientID: []byte("c"), HasUsername: true, Username: []byte{}}},
		{"password alone, a token", V5,
			pkt(0x10, str("MQTT"), raw(5, 0x42, 0, 0), props(), str("c"), str("tok")),
			&Connect{Version: V5, CleanStart: true, ClientID: []byte("c"), HasPassword: true, Password: []byte("tok")}},
		{"every property of CONNECT", V5,
			pkt(0x10, str("MQTT"), raw(5, 0x02, 0, 9),
				props(prop(17, raw(0xFF, 0xFF, 0xFF, 0xFF)), prop(21, str("m")), prop(22, raw(0, 2, 0, 0xFF)), prop(23, raw(0)),
					prop(25, raw(1)), prop(33, raw(0, 5)), prop(34, raw(0, 0)), prop(39, raw(0, 0, 1, 0)), user),
				str("c")),
			&Connect{
				Version: V5, CleanStart: true, KeepAlive: 9, ClientID: []byte("c"),
				Props: Properties{
					Present: connectProperties, SessionExpiry: 0xFFFFFFFF, AuthMethod: []byte("m"),
					AuthData: []byte{0, 0xFF}, RequestResponseInfo: 1, ReceiveMaximum: 5, MaximumPacketSize: 256, User: user,
				},
			}},
		{"every property of a will", V5,
			pkt(0x10, str("MQTT"), raw(5, 0x14, 0, 0), props(), str("c"),
				props(prop(1, raw(1)), prop(2, raw(0, 0, 0, 9)), prop(3, str("text/plain")), prop(8, str("re/ply")),
					prop(9, raw(0, 1, 0)), prop(24, raw(0, 0, 0, 5)), user),
				str("w"), str("")),
			&Connect{
				Version: V5, ClientID: []byte("c"), HasWill: true,
				Will: Will{QoS: 2, Topic: []byte("w"), Payload: []byte{}, Props: Properties{
					Present: willProperties, PayloadFormat: 1, MessageExpiry: 9, ContentType: []byte("text/plain"),
					ResponseTopic: []byte("re/ply"), CorrelationData: []byte{0}, WillDelay: 5, User: user,
				}},
			}},
	})
}

func TestConnectRefused(t *testing.T) {
	t.Parallel()
	head := func(level, flags byte) []byte { return append(str("MQTT"), level, flags, 0, 60) }
	v5 := func(parts ...[]byte) []byte { // CONNECT of MQTT 5 with these properties
		return pkt(0x10, head(5, 2), props(parts...), str("c"))
	}
	var cases []refusal
	both := func(name string, code ReasonCode, says string, flags byte, payload ...[]byte) {
		for _, v := range []Version{V311, V5} {
			parts := [][]byte{head(byte(v), flags)}
			if v == V5 {
				parts = append(parts, props())
			}
			cases = append(cases, refusal{name, v, pkt(0x10, append(parts, payload...)...), code, says})
		}
	}
	both("reserved flag set [MQTT-3.1.2-3] [MQTT311-3.1.2-3]", MalformedPacket, "[MQTT-3.1.2-3]", 0x03, str("c"))
	both("will QoS 3 [MQTT-3.1.2-12] [MQTT311-3.1.2-14]", MalformedPacket, "will QoS 3", 0x1C, str("c"), str("w"), str("p"))
	both("will QoS without will [MQTT-3.1.2-11] [MQTT311-3.1.2-11] [MQTT311-3.1.2-13]", MalformedPacket, "[MQTT-3.1.2-11]", 0x08, str("c"))
	both("will retain without will [MQTT-3.1.2-13] [MQTT311-3.1.2-15]", MalformedPacket, "[MQTT-3.1.2-13]", 0x20, str("c"))
	both("no client id", MalformedPacket, "ends early", 0x02)
	both("client id longer than the packet", MalformedPacket, "ends early", 0x02, raw(0xFF, 0xFF, 'c'))
	both("bytes after the end", MalformedPacket, "after the end", 0x02, str("c"), raw(0))
	both("user name promised but missing [MQTT-3.1.2-17] [MQTT311-3.1.2-19]", MalformedPacket, "ends early", 0x80, str("c"))
	both("password promised but missing [MQTT-3.1.2-19] [MQTT311-3.1.2-21]", MalformedPacket, "ends early", 0xC0, str("c"), str("u"))
	both("client id with U+0000", MalformedPacket, "U+0000", 0x02, str("c\x00"))
	both("client id with a surrogate", MalformedPacket, "not well-formed", 0x02, str("\xED\xA0\x80"))
	both("user name that is not UTF-8 [MQTT-3.1.3-12] [MQTT311-3.1.3-11]", MalformedPacket, "not well-formed", 0x80, str("c"), str("\xFF"))
	cases = append(cases,
		refusal{"empty will topic [MQTT311-4.7.3-1]", V311, pkt(0x10, head(4, 4), str("c"), str(""), str("p")), ProtocolViolation, "[MQTT-4.7.3-1]"},
		refusal{"wildcard in the will topic", V311, pkt(0x10, head(4, 4), str("c"), str("w/#"), str("p")), TopicNameInvalid, "wildcard"},
		refusal{"wildcard in the will topic", V5, pkt(0x10, head(5, 4), props(), str("c"), props(), str("w/+"), str("p")), TopicNameInvalid, "wildcard"},
		refusal{"will topic with U+0000 [MQTT-3.1.3-11]", V5, pkt(0x10, head(5, 4), props(), str("c"), props(), str("w\x00"), str("p")), MalformedPacket, "[MQTT-1.5.4-2]"},
		refusal{"will payload missing [MQTT311-3.1.2-9]", V311, pkt(0x10, head(4, 4), str("c"), str("w")), MalformedPacket, "ends early"},
		refusal{"password without user name [MQTT311-3.1.2-22]", V311, pkt(0x10, head(4, 0x40), str("c"), str("p")), MalformedPacket, "[MQTT311-3.1.2-22]"},
		refusal{"protocol name HTTP [MQTT-3.1.2-1]", 0, pkt(0x10, str("HTTP"), raw(4, 2, 0, 0), str("c")), MalformedPacket, "protocol name"},
		refusal{"protocol name mqtt in small letters [MQTT-3.1.2-1]", 0, pkt(0x10, str("mqtt"), raw(4, 2, 0, 0), str("c")), MalformedPacket, "protocol name"},
		refusal{"empty body", 0, pkt(0x10), MalformedPacket, "ends early"},
		refusal{"ends after the level", 0, pkt(0x10, str("MQTT"), raw(4)), MalformedPacket, "ends early"},
		refusal{"no property length", V5, pkt(0x10, head(5, 2)), MalformedPacket, "ends early"},
		refusal{"receive maximum 0", V5, v5(prop(33, raw(0, 0))), ProtocolViolation, "receive maximum 0"},
		refusal{"maximum packet size 0", V5, v5(prop(39, raw(0, 0, 0, 0))), ProtocolViolation, "maximum packet size 0"},
		refusal{"request problem information 2", V5, v5(prop(23, raw(2))), ProtocolViolation, "0 or 1"},
		refusal{"request response information 2", V5, v5(prop(25, raw(2))), ProtocolViolation, "0 or 1"},
		refusal{"authentication data without method", V5, v5(prop(22, str("d"))), ProtocolViolation, "authentication"},
		refusal{"session expiry twice", V5, v5(prop(17, raw(0, 0, 0, 1)), prop(17, raw(0, 0, 0, 1))), ProtocolViolation, "twice"},
		refusal{"will delay outside the will", V5, v5(prop(24, raw(0, 0, 0, 1))), MalformedPacket, "not allowed"},
		refusal{"topic alias in a will", V5, pkt(0x10, head(5, 4), props(), str("c"), props(prop(35, raw(0, 1))), str("w"), str("")), MalformedPacket, "not allowed"},
	)
	testRefused(t, cases)
}

func TestOtherProtocolVersionsAreRecognisedSoThatTheyCanBeToldSo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		protocol string
		level    byte
		answer   Version
	}{
		{"MQTT 3.1 gets return code 1", "MQIsdp", 3, V311},
		{"level 3 under the new name", "MQTT", 3, V311},
		{"level 0", "MQTT", 0, V311},
		{"a bridge's level 4 with the top bit", "MQTT", 0x84, V311},
		{"a bridge's MQTT 3.1", "MQIsdp", 0x83, V311},
		{"level 6 gets reason code 0x84 [MQTT-3.1.2-2]", "MQTT", 6, V5},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := Connect{ClientID: []byte("stale")}
			// The rest of the packet may have any shape: it is not looked at.
			err := DecodeConnect(mustFrame(t, pkt(0x10, str(c.protocol), raw(c.level, 0xFF)), 0), &got)
			var unsupported *UnsupportedVersionError
			if !errors.As(err, &unsupported) || !errors.Is(err, UnsupportedProtocolVersion) {
				t.Fatalf("got %v", err)
			}
			if unsupported.Protocol != c.protocol || unsupported.Level != c.level || unsupported.AnswerIn() != c.answer {
				t.Errorf("got %+v, answer in %s", unsupported, unsupported.AnswerIn())
			}
			if got.Version != 0 || got.ClientID != nil {
				t.Errorf("contents left behind: %+v", got)
			}
		})
	}
}

func TestVersionIsKnownEvenWhenTheRestOfConnectIsBad(t *testing.T) {
	t.Parallel()
	for _, v := range []Version{V311, V5} {
		var c Connect
		err := DecodeConnect(mustFrame(t, pkt(0x10, str("MQTT"), raw(byte(v), 0x01, 0, 0)), 0), &c)
		if !errors.Is(err, MalformedPacket) || c.Version != v {
			t.Errorf("version %s: %v, Version %s", v, err, c.Version)
		}
	}
}

func TestVersionsHaveTheNamesPeopleUse(t *testing.T) {
	t.Parallel()
	for v, want := range map[Version]string{0: "unknown", 3: "3.1", V311: "3.1.1", V5: "5", 6: "level 6"} {
		if v.String() != want {
			t.Errorf("%q, want %q", v, want)
		}
	}
	err := &UnsupportedVersionError{Protocol: "MQIsdp", Level: 3}
	if err.Error() != "unsupported protocol version: MQIsdp level 3" {
		t.Error(err)
	}
}

func TestConnectEncoderPanicsOnFlagsThatContradict(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]*Connect{
		"no version":                 {},
		"password alone in 3.1.1":    {Version: V311, HasPassword: true},
		"will QoS 3":                 {Version: V5, HasWill: true, Will: Will{QoS: 3}},
		"a property of PUBLISH":      {Version: V5, Props: Properties{Present: HasTopicAlias, TopicAlias: 1}},
		"client id over 65,535 long": {Version: V5, ClientID: make([]byte, 65_536)},
	} {
		mustPanic(t, name, func() { AppendConnect(nil, c) })
	}
}
