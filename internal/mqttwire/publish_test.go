package mqttwire

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
)

func TestPublishBothWays(t *testing.T) {
	t.Parallel()
	user := bytes.Join([][]byte{prop(38, str("b"), str("1")), prop(38, str("a"), str("")), prop(38, str("b"), str("1"))}, nil)
	ids := append(prop(11, raw(1)), prop(11, raw(0xFF, 0xFF, 0xFF, 0x7F))...)
	testBothWays(t, []acceptance{
		{"QoS 0 has no packet identifier [MQTT311-2.3.1-5]", V311, pkt(0x30, str("a/b"), []byte("hi")),
			&Publish{Topic: []byte("a/b"), Payload: []byte("hi")}},
		{"QoS 1, retained, sent again", V311, pkt(0x3B, str("a"), raw(0xFF, 0xFF), []byte("hi")),
			&Publish{Dup: true, Retain: true, QoS: 1, PacketID: 65_535, Topic: []byte("a"), Payload: []byte("hi")}},
		{"QoS 2 with an empty payload", V311, pkt(0x34, str("a"), raw(0, 1)),
			&Publish{QoS: 2, PacketID: 1, Topic: []byte("a"), Payload: []byte{}}},
		{"a topic of levels that are empty, with a space and outside ASCII", V311, pkt(0x30, str("/ //ışık/😀"), []byte{0}),
			&Publish{Topic: []byte("/ //ışık/😀"), Payload: []byte{0}}},
		{"a byte order mark stays where it is [MQTT-1.5.4-3]", V5, pkt(0x30, str("\uFEFFa"), props()),
			&Publish{Topic: []byte("\uFEFFa"), Payload: []byte{}}},
		{"no properties are a length of 0 [MQTT-2.2.2-1]", V5, pkt(0x32, str("a"), raw(0, 1), props(), []byte("hi")),
			&Publish{QoS: 1, PacketID: 1, Topic: []byte("a"), Payload: []byte("hi")}},
		{"every property, user properties in order and with duplicates [MQTT-3.3.2-18]", V5,
			pkt(0x30, str("a"), props(prop(1, raw(1)), prop(2, raw(0, 0, 1, 0)), prop(3, str("text/plain")), prop(8, str("re/ply")),
				prop(9, raw(0, 3, 0, 1, 2)), prop(35, raw(0, 7)), ids, user), []byte("hi")),
			&Publish{Topic: []byte("a"), Payload: []byte("hi"), Props: Properties{
				Present: publishProperties, PayloadFormat: 1, MessageExpiry: 256, ContentType: []byte("text/plain"),
				ResponseTopic: []byte("re/ply"), CorrelationData: []byte{0, 1, 2}, TopicAlias: 7, SubscriptionIDs: ids, User: user,
			}}},
		{"an empty content type, alone", V5, pkt(0x30, str("a"), props(prop(3, str("")))),
			&Publish{Topic: []byte("a"), Payload: []byte{}, Props: Properties{Present: HasContentType, ContentType: []byte{}}}},
		{"a user property without letters", V5, pkt(0x30, str("a"), props(prop(38, str(""), str("")))),
			&Publish{Topic: []byte("a"), Payload: []byte{}, Props: Properties{Present: HasUser, User: prop(38, str(""), str(""))}}},
		{"a topic of 65,535 bytes, the longest", V311, pkt(0x30, str(strings.Repeat("t", 65_535))),
			&Publish{Topic: bytes.Repeat([]byte("t"), 65_535), Payload: []byte{}}},
		{"an alias in the topic's place [MQTT-3.3.2-8]", V5, pkt(0x30, str(""), props(prop(35, raw(0, 7)))),
			&Publish{Topic: []byte{}, Payload: []byte{}, Props: Properties{Present: HasTopicAlias, TopicAlias: 7}}},
	})
}

func TestPublishRefused(t *testing.T) {
	t.Parallel()
	v5 := func(parts ...[]byte) []byte { return pkt(0x30, str("a"), props(parts...), []byte("hi")) }
	pair := func(key, value string) []byte { return prop(38, str(key), str(value)) }
	var cases []refusal
	both := func(name string, code ReasonCode, says string, first byte, parts ...[]byte) {
		for _, v := range []Version{V311, V5} {
			cases = append(cases, refusal{name, v, pkt(first, parts...), code, says})
		}
	}
	both("empty body", MalformedPacket, "ends early", 0x30)
	both("half a topic length", MalformedPacket, "ends early", 0x30, raw(0))
	both("topic longer than the packet", MalformedPacket, "ends early", 0x30, raw(0, 9, 'a'))
	both("wildcard + in the topic [MQTT-3.3.2-2] [MQTT311-3.3.2-2]", TopicNameInvalid, "[MQTT-3.3.2-2]", 0x30, str("a/+"), raw(0))
	both("wildcard # in a long topic [MQTT-4.7.0-1] [MQTT311-4.7.1-1]", TopicNameInvalid, "[MQTT-3.3.2-2]", 0x30, str("plant/7/line/#/alarm"), raw(0))
	both("empty topic [MQTT-4.7.3-1] [MQTT311-4.7.3-1]", ProtocolViolation, "[MQTT-4.7.3-1]", 0x30, str(""), raw(0))
	both("packet identifier 0 [MQTT-2.2.1-3] [MQTT311-2.3.1-1]", ProtocolViolation, "[MQTT-2.2.1-3]", 0x32, str("a"), raw(0, 0, 0))
	both("half a packet identifier", MalformedPacket, "ends early", 0x32, str("a"), raw(1))
	both("topic with an overlong form of /", MalformedPacket, "not well-formed", 0x30, str("a\xC0\xAF"), raw(0))
	cases = append(cases,
		refusal{"empty topic and nothing more [MQTT311-4.7.3-1]", V311, pkt(0x30, str("")), ProtocolViolation, "[MQTT-4.7.3-1]"},
		refusal{"topic with U+0000 [MQTT311-1.5.3-2]", V311, pkt(0x30, str("a\x00")), MalformedPacket, "[MQTT311-1.5.3-2]"},
		refusal{"topic with U+0000 [MQTT-1.5.4-2]", V5, pkt(0x30, str("a\x00"), props()), MalformedPacket, "[MQTT-1.5.4-2]"},
		refusal{"topic with a surrogate [MQTT311-1.5.3-1]", V311, pkt(0x30, str("\xED\xBF\xBF")), MalformedPacket, "[MQTT311-1.5.3-1]"},
		refusal{"topic with a surrogate [MQTT-1.5.4-1]", V5, pkt(0x30, str("\xED\xA0\x80"), props()), MalformedPacket, "[MQTT-1.5.4-1]"},
		refusal{"no property length", V5, pkt(0x30, str("a")), MalformedPacket, "ends early"},
		refusal{"property length beyond the packet", V5, pkt(0x30, str("a"), raw(5, 1, 1)), MalformedPacket, "exceeds"},
		refusal{"property length of five bytes", V5, pkt(0x30, str("a"), raw(0xFF, 0xFF, 0xFF, 0xFF, 1)), MalformedPacket, "four bytes"},
		refusal{"property length 0 in two bytes [MQTT-1.5.5-1]", V5, pkt(0x30, str("a"), raw(0x80, 0)), MalformedPacket, "[MQTT-1.5.5-1]"},
		refusal{"unknown property 4", V5, v5(prop(4, raw(0))), MalformedPacket, "not allowed"},
		refusal{"unknown property 43", V5, v5(prop(43, raw(0))), MalformedPacket, "not allowed"},
		refusal{"property identifier of two bytes", V5, v5(raw(0x81, 0, 1)), MalformedPacket, "not allowed"},
		refusal{"a property of CONNECT", V5, v5(prop(17, raw(0, 0, 0, 1))), MalformedPacket, "not allowed"},
		refusal{"a reason string", V5, v5(prop(31, str("why"))), MalformedPacket, "not allowed"},
		refusal{"payload format indicator 2", V5, v5(prop(1, raw(2))), ProtocolViolation, "0 or 1"},
		refusal{"topic alias 0 [MQTT-3.3.2-8]", V5, v5(prop(35, raw(0, 0))), TopicAliasInvalid, "[MQTT-3.3.2-8]"},
		refusal{"subscription identifier 0", V5, v5(prop(11, raw(0))), ProtocolViolation, "subscription identifier 0"},
		refusal{"subscription identifier in a long form [MQTT-1.5.5-1]", V5, v5(prop(11, raw(0x81, 0))), MalformedPacket, "[MQTT-1.5.5-1]"},
		refusal{"subscription identifier of five bytes", V5, v5(prop(11, raw(0xFF, 0xFF, 0xFF, 0xFF, 1))), MalformedPacket, "too long"},
		refusal{"subscription identifier cut off", V5, v5(prop(11, raw(0x81))), MalformedPacket, "ends early"},
		refusal{"response topic with a wildcard [MQTT-3.3.2-14]", V5, v5(prop(8, str("re/#"))), ProtocolViolation, "[MQTT-3.3.2-14]"},
		refusal{"empty response topic [MQTT-4.7.3-1]", V5, v5(prop(8, str(""))), ProtocolViolation, "response topic"},
		refusal{"response topic that is not UTF-8 [MQTT-3.3.2-13]", V5, v5(prop(8, str("\xFF"))), MalformedPacket, "[MQTT-1.5.4-1]"},
		refusal{"content type that is not UTF-8 [MQTT-3.3.2-19]", V5, v5(prop(3, str("\x80"))), MalformedPacket, "[MQTT-1.5.4-1]"},
		refusal{"user property with U+0000 in its key [MQTT-1.5.7-1]", V5, v5(pair("\x00", "v")), MalformedPacket, "[MQTT-1.5.4-2]"},
		refusal{"user property with a bad value [MQTT-1.5.7-1]", V5, v5(pair("k", "\xFF")), MalformedPacket, "[MQTT-1.5.4-1]"},
		refusal{"user property without a value", V5, v5(prop(38, str("k"))), MalformedPacket, "ends early"},
		refusal{"user property that ends in its key", V5, v5(prop(38, raw(0, 9, 'k'))), MalformedPacket, "ends early"},
		refusal{"correlation data cut off", V5, v5(prop(9, raw(0, 5, 1))), MalformedPacket, "ends early"},
		refusal{"message expiry cut off", V5, v5(prop(2, raw(0, 0, 0))), MalformedPacket, "ends early"},
		refusal{"payload format cut off", V5, v5(raw(1)), MalformedPacket, "ends early"},
	)
	for name, once := range map[string][]byte{
		"payload format": prop(1, raw(1)), "message expiry": prop(2, raw(0, 0, 0, 1)), "content type": prop(3, str("c")),
		"response topic": prop(8, str("r")), "correlation data": prop(9, str("d")), "topic alias": prop(35, raw(0, 1)),
	} {
		cases = append(cases, refusal{name + " twice", V5, v5(once, once), ProtocolViolation, "twice"})
	}
	testRefused(t, cases)
}

// Frames come from Next, which has looked at the flags; a frame that was put
// together otherwise must not smuggle QoS 3 into the broker.
func TestPublishDecoderLooksAtTheFlagsItself(t *testing.T) {
	t.Parallel()
	for _, flags := range []byte{0b0110, 0b1000} {
		err := DecodePublish(Frame{Type: TypePublish, Flags: flags, Body: append(str("a"), 0, 1)}, V311, new(Publish))
		if CodeOf(err) != MalformedPacket {
			t.Errorf("flags %04b: %v", flags, err)
		}
	}
}

// The reader goroutine decodes into one struct over and over: nothing of the
// packet before may shine through.
func TestPublishStructIsReusedWithoutTraces(t *testing.T) {
	t.Parallel()
	before := map[string][]byte{
		"all kinds":       props(prop(1, raw(1)), prop(35, raw(0, 1)), prop(38, str("k"), str("v"))),
		"a number":        props(prop(2, raw(0, 0, 0, 9))),
		"user properties": props(prop(38, str("k"), str("v"))),
		"identifiers":     props(prop(11, raw(1))),
	}
	for name, block := range before {
		for v, bare := range map[Version][]byte{V311: pkt(0x30, str("b")), V5: pkt(0x30, str("b"), props())} {
			var p Publish
			full := pkt(0x3D, str("a"), raw(0, 1), block, []byte("hi"))
			if err := DecodePublish(mustFrame(t, full, V5), V5, &p); err != nil {
				t.Fatal(err)
			}
			if err := DecodePublish(mustFrame(t, bare, v), v, &p); err != nil {
				t.Fatal(err)
			}
			if want := (Publish{Topic: []byte("b"), Payload: []byte{}}); !reflect.DeepEqual(p, want) {
				t.Errorf("%s left behind in %s: %+v", name, v, p)
			}
		}
	}
}

func TestPublishFieldsAliasTheBodyAndEndWhereTheyEnd(t *testing.T) {
	t.Parallel()
	packet := pkt(0x32, str("topic"), raw(0, 1), props(prop(9, str("corr"))), []byte("payload"))
	var p Publish
	if err := DecodePublish(mustFrame(t, packet, V5), V5, &p); err != nil {
		t.Fatal(err)
	}
	for name, field := range map[string][]byte{"topic": p.Topic, "corr": p.Props.CorrelationData, "payload": p.Payload} {
		if string(field) != name || cap(field) != len(field) {
			t.Errorf("%s: %q with capacity %d", name, field, cap(field))
		}
	}
	copy(packet[bytes.Index(packet, []byte("payload")):], "PAYLOAD")
	if string(p.Payload) != "PAYLOAD" {
		t.Error("the payload was copied")
	}
}

func TestPublishAllocatesNothingEitherWay(t *testing.T) {
	packet := pkt(0x32, str("plant/7/alarm"), raw(0, 1),
		props(prop(2, raw(0, 0, 0, 9)), prop(38, str("k"), str("v")), prop(38, str("k"), str("v")), prop(11, raw(3))), []byte("hi"))
	var p Publish
	forward, out := make([]byte, 0, 256), make([]byte, 0, 256)
	pairs, ids := 0, 0
	allocs := testing.AllocsPerRun(100, func() {
		f, _, _ := Next(packet, V5, 1000)
		if err := DecodePublish(f, V5, &p); err != nil {
			t.Fatal(err)
		}
		for range p.Props.User.All() {
			pairs++
		}
		for range p.Props.SubscriptionIDs.All() {
			ids++
		}
		forward = p.Props.AppendForward(forward[:0])
		out = AppendPublish(out[:0], &p, V5)
		out = AppendDelivery(out[:0], &Delivery{Topic: "a", Payload: p.Payload, Forward: forward, QoS: 1, PacketID: 1}, V5)
	})
	if allocs != 0 {
		t.Errorf("%v allocations per message", allocs)
	}
	if pairs != 2*101 || ids != 101 {
		t.Errorf("%d user properties and %d identifiers in 101 rounds", pairs, ids)
	}
}

func TestPublishEncoderPanicsOnWhatNoPeerCouldRead(t *testing.T) {
	t.Parallel()
	topic := []byte("a")
	for name, p := range map[string]*Publish{
		"QoS 3 [MQTT-3.3.1-4]":          {QoS: 3, PacketID: 1, Topic: topic},
		"DUP with QoS 0 [MQTT-3.3.1-2]": {Dup: true, Topic: topic},
		"packet identifier 0":           {QoS: 1, Topic: topic},
		"topic over 65,535 bytes":       {Topic: make([]byte, 65_536)},
		"a property of CONNACK":         {Topic: topic, Props: Properties{Present: HasAssignedClientID}},
	} {
		mustPanic(t, name, func() { AppendPublish(nil, p, V5) })
	}
}
