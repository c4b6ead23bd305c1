package e2e

import (
	"slices"
	"strings"
	"testing"

	. "emanet/e2e/harness"
)

func TestARetainedMessageIsReplacedWithItsQoS(t *testing.T) {
	bothVersions(t, func(t *testing.T, b *Broker, version byte) {
		topic := Name("topic")
		p := Open(t, b.Addr(), Clean(version, Name("p")))
		for _, kept := range []struct {
			payload string
			qos     byte
		}{{"first", 1}, {"second", 2}, {"third", 0}} {
			p.PublishPacket(Packet{Topic: topic, Payload: []byte(kept.payload), QoS: kept.qos, Retain: true})
			p.Ping()
			s := Open(t, b.Addr(), Clean(version, Name("s")))
			s.Subscribe(To(topic, 2))
			m := s.ExpectPublish(topic, kept.payload) // [MQTT-3.3.1-5] [MQTT311-3.3.1-6], at QoS 0 [MQTT311-3.3.1-7]
			if m.QoS != kept.qos || !m.Retain {
				t.Errorf("kept at QoS %d and sent as %v [MQTT-3.3.1-5] [MQTT311-3.3.1-5] [MQTT311-3.3.1-8]", kept.qos, m)
			}
			s.Drop()
		}
	})
}

func TestAnEmptyRetainedMessageIsDeliveredAndRemovesWhatWasKept(t *testing.T) {
	bothVersions(t, func(t *testing.T, b *Broker, version byte) {
		topic := Name("topic")
		live := Open(t, b.Addr(), Clean(version, Name("live")))
		live.Subscribe(To(topic, 1))
		p := Open(t, b.Addr(), Clean(version, Name("p")))
		for _, payload := range []string{"kept", ""} {
			p.PublishPacket(Packet{Topic: topic, Payload: []byte(payload), QoS: 1, Retain: true})
			m := live.ExpectPublish(topic, payload) // [MQTT-3.3.1-6] [MQTT311-3.3.1-10]
			if m.Retain {
				t.Errorf("%v for an existing subscription [MQTT-3.3.1-12] [MQTT311-3.3.1-9]", m)
			}
			live.Ack(m)
		}
		late := Open(t, b.Addr(), Clean(version, Name("late")))
		late.Subscribe(To(topic, 1))
		late.Ping() // neither the old value nor the empty one [MQTT-3.3.1-6] [MQTT-3.3.1-7] [MQTT311-3.3.1-10] [MQTT311-3.3.1-11]
	})
}

func TestAMessageWithoutRetainLeavesTheKeptOneAlone(t *testing.T) { // [MQTT-3.3.1-8] [MQTT311-3.3.1-12]
	bothVersions(t, func(t *testing.T, b *Broker, version byte) {
		for _, recipient := range []Connect{{}, Clean(version, Name("r")), Persistent(version, Name("r"))} {
			topic, other := Name("topic"), Name("topic")
			if recipient.Version != 0 { // what is written for a recipient must not be kept for others
				r := Open(t, b.Addr(), recipient)
				r.Subscribe(To(topic, 1), To(other, 1))
				r.Disconnect()
			}
			p := Open(t, b.Addr(), Clean(version, Name("p")))
			p.PublishPacket(Packet{Topic: topic, Payload: []byte("kept"), QoS: 1, Retain: true})
			for _, payload := range []string{"passing", ""} {
				p.Publish(topic, payload, 1)
				p.Publish(other, payload, 1)
			}
			p.Publish(other, "passing", 2)
			s := Open(t, b.Addr(), Clean(version, Name("s")))
			s.Subscribe(To(topic, 1), To(other, 1))
			s.Ack(s.ExpectPublish(topic, "kept"))
			s.Ping()
		}
	})
}

func TestRetainedMessagesAreNoPartOfASession(t *testing.T) { // [MQTT311-3.1.2-7]
	bothVersions(t, func(t *testing.T, b *Broker, version byte) {
		topic, id := Name("topic"), Name("p")
		p := Open(t, b.Addr(), Clean(version, id))
		p.PublishPacket(Packet{Topic: topic, Payload: []byte("kept"), QoS: 1, Retain: true})
		p.Disconnect()
		Open(t, b.Addr(), Clean(version, id)).Disconnect()
		s := Open(t, b.Addr(), Clean(version, Name("s")))
		s.Subscribe(To(topic, 0))
		s.ExpectPublish(topic, "kept")
	})
}

// Spellings that a careless broker takes for one another.
var alike = []string{"a/b", "A/b", "a//b", "/a/b", "a/b/", " a/b", "a/b ", "\uFEFFa/b", "caf\u00e9", "cafe\u0301", "a/\u212b", "a/\u00c5", "a\\b"}

func TestTopicsAreMatchedAndForwardedAsTheyAre(t *testing.T) {
	bothVersions(t, func(t *testing.T, b *Broker, version byte) {
		base := Name("topic")
		subscribers := map[string]*Client{}
		for _, name := range alike {
			s := Open(t, b.Addr(), Clean(version, Name("s")))
			s.Subscribe(To(base+"/"+name, 0))
			subscribers[name] = s
		}
		p := Open(t, b.Addr(), Clean(version, Name("p")))
		for _, name := range alike {
			p.Publish(base+"/"+name, name, 1)
		}
		for name, s := range subscribers {
			// Each gets its own, to the byte, and no other [MQTT-4.7.3-4] [MQTT-3.3.2-1] [MQTT-3.3.2-3] [MQTT311-4.7.3-4]
			// [MQTT311-3.3.2-1] [MQTT311-3.3.2-3], the mark at its front included [MQTT-1.5.4-3] [MQTT311-1.5.3-3]
			s.ExpectPublish(base+"/"+name, name)
			s.Ping()
		}
	})
}

func TestWildcardsMatchWholeLevels(t *testing.T) { // [MQTT-3.3.2-3] [MQTT311-3.3.2-3]
	bothVersions(t, func(t *testing.T, b *Broker, version byte) {
		base := Name("w")
		topics := []string{base, base + "/", base + "/a", base + "/a/b", base + "x", base + "/a/", "/" + base}
		p := Open(t, b.Addr(), Clean(version, Name("p")))
		for filter, want := range map[string][]string{
			base + "/#":   {base, base + "/", base + "/a", base + "/a/b", base + "/a/"},
			base + "/+":   {base + "/", base + "/a"},
			base + "/+/+": {base + "/a/b", base + "/a/"},
			"+/" + base:   {"/" + base},
			base + "/+/b": {base + "/a/b"},
		} {
			s := Open(t, b.Addr(), Clean(version, Name("s")))
			s.Subscribe(To(filter, 0))
			for _, topic := range topics {
				p.Publish(topic, topic, 1)
			}
			for _, topic := range want {
				if m := s.Expect(PUBLISH); m.Topic != topic || string(m.Payload) != topic {
					t.Errorf("%s got %v, not %s", filter, m, topic)
				}
			}
			s.Ping()
			s.Drop()
		}
	})
}

func TestATopicOfTheGreatestLengthGoesThrough(t *testing.T) { // [MQTT-4.7.3-3] [MQTT311-4.7.3-3]
	bothVersions(t, func(t *testing.T, b *Broker, version byte) {
		topic := Name("long")
		topic += strings.Repeat("x", 65_535-len(topic))
		s := Open(t, b.Addr(), Clean(version, Name("s")))
		if got := s.Subscribe(To(topic, 0)); got[0] != 0 {
			t.Fatalf("granted %x", got)
		}
		Open(t, b.Addr(), Clean(version, Name("p"))).Publish(topic, "whole", 1)
		s.ExpectPublish(topic, "whole")
	})
}

// brokenRules are packets behind CONNECT that break a rule of both versions, and the code that MQTT 5 has for it.
func brokenRules(version byte) []attack {
	none := properties(version)
	subscribe := func(filter string, options byte) []byte {
		return Frame(0x82, join(id7, none, text(filter), []byte{options}))
	}
	publish := func(topic string) []byte { return Frame(0x30, join(text(topic), none)) }
	either := []byte{0x81, 0x82}
	return []attack{
		{"PUBREL with flags 0000", Frame(0x60, id7), malformed},                                               // [MQTT-3.6.1-1] [MQTT311-3.6.1-1]
		{"SUBSCRIBE with flags 0000", Frame(0x80, join(id7, none, text("a"), []byte{0})), malformed},          // [MQTT-3.8.1-1] [MQTT311-3.8.1-1]
		{"SUBSCRIBE with flags 0011", Frame(0x83, join(id7, none, text("a"), []byte{0})), malformed},          // [MQTT-3.8.1-1] [MQTT311-3.8.1-1]
		{"UNSUBSCRIBE with flags 0000", Frame(0xA0, join(id7, none, text("a"))), malformed},                   // [MQTT-3.10.1-1] [MQTT311-3.10.1-1]
		{"DISCONNECT with flags 0001", []byte{0xE1, 0}, malformed},                                            // [MQTT-3.14.1-1] [MQTT311-3.14.1-1]
		{"PINGREQ with flags 1000", []byte{0xC8, 0}, malformed},                                               // [MQTT-2.1.3-1] [MQTT311-2.2.2-1] [MQTT311-2.2.2-2]
		{"PUBACK with flags 0010", Frame(0x42, id7), malformed},                                               // [MQTT-2.1.3-1] [MQTT311-2.2.2-1] [MQTT311-2.2.2-2]
		{"PUBLISH at QoS 3", Frame(0x36, join(text("a"), id7, none)), malformed},                              // [MQTT-3.3.1-4] [MQTT311-3.3.1-4]
		{"PUBLISH with DUP at QoS 0", Frame(0x38, join(text("a"), none)), either},                             // [MQTT-3.3.1-2] [MQTT311-3.3.1-2]
		{"PUBLISH to +", publish("a/+"), []byte{0x90}},                                                        // [MQTT-3.3.2-2] [MQTT-4.7.0-1] [MQTT311-3.3.2-2] [MQTT311-4.7.1-1]
		{"PUBLISH to #", publish("a/#"), []byte{0x90}},                                                        // [MQTT-3.3.2-2] [MQTT-4.7.0-1] [MQTT311-3.3.2-2] [MQTT311-4.7.1-1]
		{"PUBLISH to nothing", publish(""), either},                                                           // [MQTT-4.7.3-1] [MQTT311-4.7.3-1]
		{"PUBLISH to U+0000", publish("a\x00"), malformed},                                                    // [MQTT-1.5.4-2] [MQTT-4.7.3-2] [MQTT311-1.5.3-2] [MQTT311-4.7.3-2]
		{"PUBLISH to a surrogate", publish("\xed\xa0\x80"), malformed},                                        // [MQTT-1.5.4-1] [MQTT-3.3.2-1] [MQTT311-1.5.3-1] [MQTT311-3.3.2-1]
		{"PUBLISH under identifier 0", Frame(0x32, join(text("a"), []byte{0, 0}, none)), either},              // [MQTT-2.2.1-3] [MQTT311-2.3.1-1]
		{"SUBSCRIBE under identifier 0", Frame(0x82, join([]byte{0, 0}, none, text("a"), []byte{0})), either}, // [MQTT-2.2.1-3] [MQTT311-2.3.1-1]
		{"SUBSCRIBE to nothing at all", Frame(0x82, join(id7, none)), either},                                 // [MQTT-3.8.3-2] [MQTT311-3.8.3-3]
		{"SUBSCRIBE to U+0000", subscribe("a\x00", 0), malformed},                                             // [MQTT-3.8.3-1] [MQTT-4.7.3-2] [MQTT311-3.8.3-1] [MQTT311-4.7.3-2]
		{"SUBSCRIBE to an overlong spelling", subscribe("\xc0\xaf", 0), malformed},                            // [MQTT-1.5.4-1] [MQTT311-1.5.3-1]
		{"SUBSCRIBE with reserved bits", subscribe("a", 0xC0), malformed},                                     // [MQTT-3.8.3-5] [MQTT311-3.8.3-4]
		{"SUBSCRIBE at QoS 3", subscribe("a", 3), []byte{0x82}},                                               // [MQTT311-3.8.3-4]
		{"UNSUBSCRIBE of nothing at all", Frame(0xA2, join(id7, none)), either},                               // [MQTT-3.10.3-2] [MQTT311-3.10.3-2]
		{"UNSUBSCRIBE of what is not UTF-8", Frame(0xA2, join(id7, none, text("\xff"))), malformed},           // [MQTT-3.10.3-1] [MQTT311-3.10.3-1]
		{"UNSUBSCRIBE under identifier 0", Frame(0xA2, join([]byte{0, 0}, none, text("a"))), either},          // [MQTT-2.2.1-3] [MQTT311-2.3.1-1]
		{"a packet that only a server sends", Frame(0x90, join(id7, none, []byte{0})), either},                // [MQTT-4.13.1-1] [MQTT311-4.8.0-1]
		{"a length of five bytes", []byte{0x30, 0x80, 0x80, 0x80, 0x80, 1, 0, 1, 'a'}, malformed},             // [MQTT-4.13.1-1] [MQTT311-4.8.0-1]
		{"SUBSCRIBE with half an identifier", Frame(0x82, []byte{0}), malformed},                              // [MQTT-4.13.1-1] [MQTT311-4.8.0-1]
		{"PUBLISH whose topic is longer than it", Frame(0x30, []byte{0, 9, 'a'}), malformed},                  // [MQTT-4.13.1-1] [MQTT311-4.8.0-1]
		{"SUBSCRIBE whose last filter has no options", Frame(0x82, join(id7, none, text("a"))), either},       // [MQTT-4.13.1-1] [MQTT311-4.8.0-1]
	}
}

// brokenProperties are the same for what only MQTT 5 can say.
var brokenProperties = []attack{
	{"a response topic that is not UTF-8", publishWith(ResponseTopic, "\xff"), malformed},                     // [MQTT-3.3.2-13]
	{"a response topic with a wildcard", publishWith(ResponseTopic, "a/+"), []byte{0x82, 0x90}},               // [MQTT-3.3.2-14]
	{"a content type that is not UTF-8", publishWith(ContentType, "\xed\xa0\x80"), malformed},                 // [MQTT-3.3.2-19]
	{"a content type with U+0000", publishWith(ContentType, "a\x00"), malformed},                              // [MQTT-1.5.4-2] [MQTT-3.3.2-19]
	{"a user property with a bad key", publishWith(UserProperty, "\xff", "v"), malformed},                     // [MQTT-1.5.7-1]
	{"a user property with a bad value", publishWith(UserProperty, "k", "v\x00"), malformed},                  // [MQTT-1.5.7-1]
	{"a subscription identifier", Frame(0x30, join(text("a"), []byte{2, 0x0B, 1})), []byte{0x82}},             // [MQTT-3.3.4-6]
	{"a property length in two bytes for one", Frame(0x30, join(text("a"), []byte{0x80, 0})), malformed},      // [MQTT-1.5.5-1]
	{"a remaining length in two bytes for one", join([]byte{0x30, 0x84, 0}, text("a"), []byte{0}), malformed}, // [MQTT-1.5.5-1]
	{"no property length", Frame(0x30, text("a")), malformed},                                                 // [MQTT-2.2.2-1]
	{"a filter without a property length", Frame(0x82, join(id7, []byte{0xFF, 0xFF, 0xFF, 0xFF})), malformed}, // [MQTT-2.2.2-1]
	{"an acknowledgement with a code of another", Frame(0x40, join(id7, []byte{0x8E})), []byte{0x82}},         // [MQTT-3.4.2-1]
	{"a release with a code of another", Frame(0x62, join(id7, []byte{0x10})), []byte{0x82}},                  // [MQTT-3.6.2-1]
	{"DISCONNECT with a code of another", Frame(0xE0, []byte{0x10}), []byte{0x82}},                            // [MQTT-3.14.2-1]
}

func publishWith(id byte, strings ...string) []byte {
	props := []byte{id}
	for _, s := range strings {
		props = append(props, text(s)...)
	}
	return Frame(0x30, join(text("a"), []byte{byte(len(props))}, props))
}

func TestTheFirstPacketMustBeConnect(t *testing.T) { // [MQTT-3.1.0-1] [MQTT311-3.1.0-1]
	bothVersions(t, func(t *testing.T, b *Broker, version byte) {
		topic := Name("topic")
		s := Open(t, b.Addr(), Clean(version, Name("s")))
		s.Subscribe(To(topic, 0))
		publish := Packet{Type: PUBLISH, Topic: topic, Payload: []byte("uninvited")}.Bytes(version)
		for _, first := range [][]byte{publish, {0xC0, 0}, {0xE0, 0}, SubscribeBytes(version, 1, nil, To(topic, 0)), Frame(0x40, id7)} {
			c := Dial(t, b.Addr(), version)
			c.Write(join(first, Clean(version, Name("c")).Bytes()))
			if last := c.ExpectClosed(); last.Type != 0 {
				t.Errorf("%x as the first packet was answered by %v", first, last)
			}
		}
		expectNothingBefore(t, b, s, topic)
	})
}

func TestWhatComesBehindDisconnectIsNotActedUpon(t *testing.T) { // [MQTT-3.14.4-1] [MQTT311-3.14.4-2]
	bothVersions(t, func(t *testing.T, b *Broker, version byte) {
		topic := Name("topic")
		s := Open(t, b.Addr(), Clean(version, Name("s")))
		s.Subscribe(To(topic, 0))
		c := Open(t, b.Addr(), Clean(version, Name("c")))
		publish := func(payload string) []byte {
			return Packet{Type: PUBLISH, Topic: topic, Payload: []byte(payload)}.Bytes(version)
		}
		c.Write(join(publish("before"), []byte{0xE0, 0}, publish("behind")))
		c.ExpectClosed()
		s.ExpectPublish(topic, "before")
		expectNothingBefore(t, b, s, topic)
	})
}

func TestAPublishThatIsNotAllowedIsAcknowledgedOrEndsTheConnection(t *testing.T) { // [MQTT311-3.3.5-2]
	t.Parallel()
	b := Shared(t)
	for _, qos := range []byte{1, 2} {
		c := Open(t, b.Addr(), Clean(4, Name("c")))
		c.Send(Packet{Type: PUBLISH, QoS: qos, ID: 3, Topic: "$SYS/broker/uptime", Payload: []byte("forged")})
		p, err := c.TryRead(Patience)
		if err == nil && (p.ID != 3 || p.Type != PUBACK && p.Type != PUBREC) {
			t.Errorf("answered by %v", p)
		}
	}
	s := Open(t, b.Addr(), Clean(4, Name("s")))
	s.Subscribe(To("$SYS/broker/uptime", 0))
	if p := s.Expect(PUBLISH); string(p.Payload) == "forged" {
		t.Errorf("%v was routed", p)
	}
}

func TestABrokenRuleEndsTheConnectionItCameOn(t *testing.T) {
	OnlyEmanet(t) // Mosquitto 2.0.11 takes some of these
	bothVersions(t, func(t *testing.T, b *Broker, version byte) {
		topic := Name("behind")
		s := Open(t, b.Addr(), Clean(version, Name("s")))
		s.Subscribe(To(topic, 0))
		rules := brokenRules(version)
		if version == 5 {
			rules = append(rules, brokenProperties...)
		}
		for _, rule := range rules {
			c := Open(t, b.Addr(), Clean(version, Name("c")))
			c.Write(join(rule.bytes, Packet{Type: PUBLISH, Topic: topic, Payload: []byte("behind")}.Bytes(version)))
			last := c.ExpectClosed() // [MQTT-4.13.1-1] [MQTT-4.13.2-1] [MQTT-3.14.4-1] [MQTT-3.14.4-2] [MQTT311-2.2.2-2] [MQTT311-4.8.0-1]
			if version == 5 && (last.Type != DISCONNECT || !slices.Contains(rule.codes, last.Code)) {
				t.Errorf("%s ended with %v, not with one of %x", rule.name, last, rule.codes)
			}
		}
		expectNothingBefore(t, b, s, topic)
	})
}

func TestARetainedMessageCarriesTheIdentifierOfItsSubscription(t *testing.T) { // [MQTT-3.3.4-3]
	t.Parallel()
	b, topic := Shared(t), Name("topic")
	retain(t, b, topic, "kept")
	c := Open(t, b.Addr(), Clean(5, Name("c")))
	c.SubscribeWith(Props{Num(SubscriptionID, 268_435_455)}, To(topic, 0))
	if ids := c.ExpectPublish(topic, "kept").Props.All(SubscriptionID); len(ids) != 1 || ids[0].Int != 268_435_455 {
		t.Errorf("identifiers %v, not 268435455", ids)
	}
}

func TestAWillWithoutPayloadRemovesWhatWasKept(t *testing.T) { // [MQTT-3.3.1-7] [MQTT311-3.3.1-11]
	bothVersions(t, func(t *testing.T, b *Broker, version byte) {
		topic := Name("will")
		retain(t, b, topic, "alive")
		m := Open(t, b.Addr(), Clean(version, Name("m")))
		m.Subscribe(To(topic, 0))
		m.ExpectPublish(topic, "alive")
		connect := Clean(version, Name("c"))
		connect.Will = &Will{Topic: topic, Retain: true}
		Open(t, b.Addr(), connect).Drop()
		m.ExpectPublish(topic, "")
		late := Open(t, b.Addr(), Clean(version, Name("late")))
		late.Subscribe(To(topic, 0))
		late.Ping()
	})
}
