package mqttwire

import (
	"bytes"
	"testing"
)

func TestSubscribeBothWays(t *testing.T) {
	t.Parallel()
	user := prop(38, str("k"), str("v"))
	testBothWays(t, []acceptance{
		{"three filters", V311, pkt(0x82, raw(0, 7), str("a/#"), raw(0), str("+"), raw(1), str("b"), raw(2)),
			&Subscribe{PacketID: 7, Subscriptions: []Subscription{
				{Filter: []byte("a/#")}, {Filter: []byte("+"), QoS: 1}, {Filter: []byte("b"), QoS: 2},
			}}},
		{"every option", V5, pkt(0x82, raw(0, 7), props(), str("a"), raw(0b101110), str("b"), raw(0b010101), str("c"), raw(0)),
			&Subscribe{PacketID: 7, Subscriptions: []Subscription{
				{Filter: []byte("a"), QoS: 2, NoLocal: true, RetainAsPublished: true, RetainHandling: RetainDoNotSend},
				{Filter: []byte("b"), QoS: 1, NoLocal: true, RetainHandling: RetainSendIfNew},
				{Filter: []byte("c")},
			}}},
		{"a subscription identifier of four bytes", V5,
			pkt(0x82, raw(0, 7), props(prop(11, raw(0xFF, 0xFF, 0xFF, 0x7F)), user), str("a"), raw(0)),
			&Subscribe{PacketID: 7, Subscriptions: []Subscription{{Filter: []byte("a")}}, Props: Properties{
				Present: HasSubscriptionID | HasUser, SubscriptionIDs: SubscriptionIDs(nil).Append(268_435_455), User: user,
			}}},
		{"filters are not judged here, so that SUBACK can name the bad one", V5,
			pkt(0x82, raw(0, 7), props(), str("a#/b"), raw(0), str(""), raw(0)),
			&Subscribe{PacketID: 7, Subscriptions: []Subscription{{Filter: []byte("a#/b")}, {Filter: []byte{}}}}},
	})
}

func TestSubscribeRefused(t *testing.T) {
	t.Parallel()
	v5 := func(parts ...[]byte) []byte { return pkt(0x82, raw(0, 7), props(parts...), str("a"), raw(0)) }
	var cases []refusal
	both := func(name string, code ReasonCode, says string, id []byte, rest ...[]byte) {
		cases = append(cases, refusal{name, V311, pkt(0x82, append([][]byte{id}, rest...)...), code, says},
			refusal{name, V5, pkt(0x82, append([][]byte{id, props()}, rest...)...), code, says})
	}
	both("no filter [MQTT-3.8.3-2] [MQTT311-3.8.3-3]", ProtocolViolation, "[MQTT-3.8.3-2]", raw(0, 7))
	// A broker of another make died of these bytes.
	both("a filter without its options byte", MalformedPacket, "ends early", raw(0, 7), str("a"))
	both("a second filter without its options byte", MalformedPacket, "ends early", raw(0, 7), str("a"), raw(0), str("b"))
	both("packet identifier 0 [MQTT-2.2.1-3] [MQTT311-2.3.1-1]", ProtocolViolation, "packet identifier 0", raw(0, 0), str("a"), raw(0))
	both("QoS 3 [MQTT311-3.8.3-4]", ProtocolViolation, "QoS 3", raw(0, 7), str("a"), raw(3))
	both("reserved option bit 6 [MQTT-3.8.3-5] [MQTT311-3.8.3-4]", MalformedPacket, "reserved", raw(0, 7), str("a"), raw(0x40))
	both("reserved option bit 7 [MQTT-3.8.3-5] [MQTT311-3.8.3-4]", MalformedPacket, "reserved", raw(0, 7), str("a"), raw(0x80))
	both("half a filter length", MalformedPacket, "ends early", raw(0, 7), raw(0))
	both("a filter longer than the packet", MalformedPacket, "ends early", raw(0, 7), raw(0xFF, 0xFF, 'a', 0))
	both("a filter with U+0000 [MQTT-3.8.3-1] [MQTT311-3.8.3-1]", MalformedPacket, "U+0000", raw(0, 7), str("a\x00"), raw(0))
	both("a filter that is not UTF-8 [MQTT-3.8.3-1] [MQTT311-3.8.3-1]", MalformedPacket, "not well-formed", raw(0, 7), str("\xF8"), raw(0))
	cases = append(cases,
		refusal{"no local, an option of MQTT 5 [MQTT311-3.8.3-4]", V311, pkt(0x82, raw(0, 7), str("a"), raw(4)), MalformedPacket, "reserved"},
		refusal{"retain handling 3", V5, pkt(0x82, raw(0, 7), props(), str("a"), raw(0x30)), ProtocolViolation, "retain handling 3"},
		refusal{"subscription identifier 0", V5, v5(prop(11, raw(0))), ProtocolViolation, "subscription identifier 0"},
		refusal{"two subscription identifiers", V5, v5(prop(11, raw(1)), prop(11, raw(2))), ProtocolViolation, "twice"},
		refusal{"a reason string", V5, v5(prop(31, str("x"))), MalformedPacket, "not allowed"},
		refusal{"no property length", V5, pkt(0x82, raw(0, 7)), MalformedPacket, "ends early"},
	)
	testRefused(t, cases)
}

func TestSubscribeStructIsReusedWithoutTraces(t *testing.T) {
	t.Parallel()
	var s Subscribe
	long := pkt(0x82, raw(0, 7), props(prop(11, raw(1))), str("a"), raw(1), str("b"), raw(1))
	short := pkt(0x82, raw(0, 8), str("c"), raw(0))
	if err := DecodeSubscribe(mustFrame(t, long, V5), V5, &s); err != nil {
		t.Fatal(err)
	}
	room := &s.Subscriptions[0]
	if err := DecodeSubscribe(mustFrame(t, short, V311), V311, &s); err != nil {
		t.Fatal(err)
	}
	if len(s.Subscriptions) != 1 || string(s.Subscriptions[0].Filter) != "c" || s.Props.SubscriptionIDs.First() != 0 || s.Props.Present != 0 {
		t.Errorf("got %+v", s)
	}
	if room != &s.Subscriptions[0] {
		t.Error("the list was allocated anew")
	}
}

func TestSubackBothWays(t *testing.T) {
	t.Parallel()
	testBothWays(t, []acceptance{
		{"the four return codes", V311, pkt(0x90, raw(0, 7, 0, 1, 2, 0x80)),
			&Suback{PacketID: 7, Codes: []ReasonCode{Success, GrantedQoS1, GrantedQoS2, UnspecifiedError}}},
		{"reasons", V5, pkt(0x90, raw(0, 7), props(prop(31, str("why"))), raw(1, 0x8F, 0x9E)),
			&Suback{PacketID: 7, Codes: []ReasonCode{GrantedQoS1, TopicFilterInvalid, SharedSubscriptionsNotSupported},
				Props: Properties{Present: HasReasonString, ReasonString: []byte("why")}}},
	})
	testRefused(t, []refusal{
		{"no return code", V311, pkt(0x90, raw(0, 7)), MalformedPacket, "without a reason code"},
		{"no reason code", V5, pkt(0x90, raw(0, 7), props()), MalformedPacket, "without a reason code"},
		{"reserved return code 3", V311, pkt(0x90, raw(0, 7, 3)), ProtocolViolation, "reason code"},
		{"a reason of MQTT 5", V311, pkt(0x90, raw(0, 7, 0x87)), ProtocolViolation, "reason code"},
		{"a code of UNSUBACK", V5, pkt(0x90, raw(0, 7), props(), raw(0x11)), ProtocolViolation, "reason code"},
		{"packet identifier 0", V5, pkt(0x90, raw(0, 0), props(), raw(0)), ProtocolViolation, "packet identifier 0"},
	})
}

func TestEveryFailureInSubackIs0x80In311(t *testing.T) {
	t.Parallel()
	s := &Suback{PacketID: 7, Codes: []ReasonCode{GrantedQoS2, TopicFilterInvalid, NotAuthorized}}
	if got := AppendSuback(nil, s, V311); !bytes.Equal(got, raw(0x90, 5, 0, 7, 2, 0x80, 0x80)) {
		t.Errorf("got % x", got)
	}
}

func TestUnsubscribeBothWays(t *testing.T) {
	t.Parallel()
	user := prop(38, str("k"), str("v"))
	testBothWays(t, []acceptance{
		{"two filters", V311, pkt(0xA2, raw(0, 7), str("a/#"), str("b")),
			&Unsubscribe{PacketID: 7, Filters: [][]byte{[]byte("a/#"), []byte("b")}}},
		{"with a user property", V5, pkt(0xA2, raw(0, 7), props(user), str("a")),
			&Unsubscribe{PacketID: 7, Filters: [][]byte{[]byte("a")}, Props: Properties{Present: HasUser, User: user}}},
	})
	testRefused(t, []refusal{
		{"no filter [MQTT311-3.10.3-2]", V311, pkt(0xA2, raw(0, 7)), ProtocolViolation, "[MQTT-3.10.3-2]"},
		{"no filter [MQTT-3.10.3-2]", V5, pkt(0xA2, raw(0, 7), props()), ProtocolViolation, "[MQTT-3.10.3-2]"},
		{"packet identifier 0", V311, pkt(0xA2, raw(0, 0), str("a")), ProtocolViolation, "packet identifier 0"},
		{"a filter with U+0000 [MQTT-3.10.3-1]", V5, pkt(0xA2, raw(0, 7), props(), str("\x00")), MalformedPacket, "U+0000"},
		{"a second filter cut off", V311, pkt(0xA2, raw(0, 7), str("a"), raw(0, 5, 'b')), MalformedPacket, "ends early"},
		{"a subscription identifier", V5, pkt(0xA2, raw(0, 7), props(prop(11, raw(1))), str("a")), MalformedPacket, "not allowed"},
	})
}

func TestUnsubackBothWays(t *testing.T) {
	t.Parallel()
	testBothWays(t, []acceptance{
		{"no codes", V311, raw(0xB0, 2, 0, 7), &Unsuback{PacketID: 7}},
		{"a code for each filter", V5, pkt(0xB0, raw(0, 7), props(), raw(0, 0x11, 0x87)),
			&Unsuback{PacketID: 7, Codes: []ReasonCode{Success, NoSubscriptionExisted, NotAuthorized}}},
	})
	testRefused(t, []refusal{
		{"a code", V311, raw(0xB0, 3, 0, 7, 0), MalformedPacket, "after the end"},
		{"no code", V5, pkt(0xB0, raw(0, 7), props()), MalformedPacket, "without a reason code"},
		{"a code of SUBACK", V5, pkt(0xB0, raw(0, 7), props(), raw(1)), ProtocolViolation, "reason code"},
	})
}

func TestSubscriptionEncodersPanicOnWhatNoPeerCouldRead(t *testing.T) {
	t.Parallel()
	a := []Subscription{{Filter: []byte("a")}}
	mustPanic(t, "SUBSCRIBE without a filter", func() { AppendSubscribe(nil, &Subscribe{PacketID: 1}, V5) })
	mustPanic(t, "SUBSCRIBE of packet identifier 0", func() { AppendSubscribe(nil, &Subscribe{Subscriptions: a}, V5) })
	mustPanic(t, "SUBSCRIBE with QoS 3", func() {
		AppendSubscribe(nil, &Subscribe{PacketID: 1, Subscriptions: []Subscription{{QoS: 3}}}, V5)
	})
	mustPanic(t, "SUBACK without codes", func() { AppendSuback(nil, &Suback{PacketID: 1}, V5) })
	mustPanic(t, "SUBACK with a code of PUBREL", func() {
		AppendSuback(nil, &Suback{PacketID: 1, Codes: []ReasonCode{PacketIDNotFound}}, V5)
	})
	mustPanic(t, "UNSUBSCRIBE without a filter", func() { AppendUnsubscribe(nil, &Unsubscribe{PacketID: 1}, V5) })
	mustPanic(t, "UNSUBACK without codes", func() { AppendUnsuback(nil, &Unsuback{PacketID: 1}, V5) })
	mustPanic(t, "UNSUBACK with a subscription identifier", func() {
		u := &Unsuback{PacketID: 1, Codes: []ReasonCode{Success}}
		u.Props.SubscriptionIDs = u.Props.SubscriptionIDs.Append(1)
		AppendUnsuback(nil, u, V5)
	})
}
