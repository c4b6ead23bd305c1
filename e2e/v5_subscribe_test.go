package e2e

import (
	"testing"

	. "emanet/e2e/harness"
)

func retain(t *testing.T, b *Broker, topic, payload string) {
	t.Helper()
	c := Open(t, b.Addr(), Clean(5, Name("retainer")))
	c.PublishPacket(Packet{Topic: topic, Payload: []byte(payload), QoS: 1, Retain: true})
	c.Disconnect()
}

func TestRetainHandlingDecidesWhenRetainedMessagesAreSent(t *testing.T) {
	t.Parallel()
	b, topic := Shared(t), Name("topic")
	retain(t, b, topic, "kept")
	c := Open(t, b.Addr(), Clean(5, Name("c")))

	c.Subscribe(To(topic, RetainNever))
	c.Ping() // nothing came [MQTT-3.3.1-11]
	c.Write(UnsubscribeBytes(5, c.NextID(), topic))
	c.Expect(UNSUBACK)

	c.Subscribe(To(topic, RetainIfNew))
	c.ExpectPublish(topic, "kept") // [MQTT-3.3.1-10]
	c.Subscribe(To(topic, RetainIfNew))
	expectNothingBefore(t, b, c, topic)

	c.Subscribe(To(topic, 0))
	c.ExpectPublish(topic, "kept") // [MQTT-3.3.1-9], again for a subscription that exists
}

func TestRetainFlagIsClearedUnlessRetainAsPublished(t *testing.T) {
	t.Parallel()
	b, topic := Shared(t), Name("topic")
	plain := Open(t, b.Addr(), Clean(5, Name("plain")))
	plain.Subscribe(To(topic, 0))
	asPublished := Open(t, b.Addr(), Clean(5, Name("rap")))
	asPublished.Subscribe(To(topic, RetainAsPublished))
	retain(t, b, topic, "x")
	if plain.ExpectPublish(topic, "x").Retain {
		t.Error("RETAIN=1 on a live message [MQTT-3.3.1-12]")
	}
	if !asPublished.ExpectPublish(topic, "x").Retain {
		t.Error("RETAIN=0 although retain-as-published [MQTT-3.3.1-13]")
	}
}

func TestNoLocalKeepsOnesOwnMessagesAway(t *testing.T) {
	t.Parallel()
	b, topic := Shared(t), Name("topic")
	c := Open(t, b.Addr(), Clean(5, Name("c")))
	other := Open(t, b.Addr(), Clean(5, Name("other")))
	c.Subscribe(To(topic, NoLocal))
	c.Publish(topic, "mine", 0)
	c.Ping()
	other.Publish(topic, "theirs", 0)
	c.ExpectPublish(topic, "theirs") // [MQTT-3.8.3-3]
}

func TestOverlappingSubscriptionsGiveOneCopyWithAllIdentifiers(t *testing.T) {
	t.Parallel()
	b, topic := Shared(t), Name("topic")
	c := Open(t, b.Addr(), Clean(5, Name("c")))
	c.SubscribeWith(Props{Num(SubscriptionID, 7)}, To(topic+"/+", 0))
	c.SubscribeWith(Props{Num(SubscriptionID, 300)}, To(topic+"/#", 1))
	c.SubscribeWith(nil, To(topic+"/a", 0))
	Open(t, b.Addr(), Clean(5, Name("p"))).Publish(topic+"/a", "x", 2)
	p := c.ExpectPublish(topic+"/a", "x")
	if IsEmanet() {
		if p.QoS != 1 {
			t.Errorf("one copy at the highest granted QoS, got %d [MQTT-3.3.4-2]", p.QoS)
		}
		ids := map[uint32]bool{}
		for _, id := range p.Props.All(SubscriptionID) {
			ids[id.Int] = true
		}
		if len(ids) != 2 || !ids[7] || !ids[300] {
			t.Errorf("subscription identifiers %v, not 7 and 300 [MQTT-3.3.4-3] [MQTT-3.3.4-4]", p.Props.All(SubscriptionID))
		}
		c.Ack(p)
		expectNothingBefore(t, b, c, topic+"/a")
	}
}

func TestAnIdentifierIsReplacedWithItsSubscription(t *testing.T) {
	t.Parallel()
	b, topic := Shared(t), Name("topic")
	c := Open(t, b.Addr(), Clean(5, Name("c")))
	c.SubscribeWith(Props{Num(SubscriptionID, 1)}, To(topic, 0))
	c.SubscribeWith(Props{Num(SubscriptionID, 2)}, To(topic, 0))
	p := expectNothingBefore(t, b, c, topic)
	if ids := p.Props.All(SubscriptionID); len(ids) != 1 || ids[0].Int != 2 {
		t.Errorf("identifiers %v, not 2 alone", ids)
	}
}

func TestWhoNeverMatchesIsTold(t *testing.T) {
	t.Parallel()
	b, topic := Shared(t), Name("topic")
	c := Open(t, b.Addr(), Clean(5, Name("c")))
	for _, qos := range []byte{1, 2} {
		c.Send(Packet{Type: PUBLISH, QoS: qos, ID: uint16(qos), Topic: topic, Payload: []byte("x")})
		if p := c.Read(); p.Code != 0x10 {
			t.Errorf("nobody has subscribed, yet %v, not 0x10", p)
		}
	}
	c = Open(t, b.Addr(), Clean(5, Name("c")))
	c.Write(UnsubscribeBytes(5, c.NextID(), topic))
	if p := c.Expect(UNSUBACK); len(p.Codes) != 1 || p.Codes[0] != 0x11 {
		t.Errorf("no subscription existed, yet UNSUBACK says %x, not 0x11", p.Codes)
	}
}

func TestLeadingWildcardsDoNotMatchTopicsThatBeginWithADollar(t *testing.T) {
	bothVersions(t, func(t *testing.T, b *Broker, version byte) {
		topic := Name("topic")
		c := Open(t, b.Addr(), Clean(version, Name("c")))
		c.Subscribe(To("+/"+topic, 0), To("#", 0))
		p := Open(t, b.Addr(), Clean(version, Name("p")))
		p.Publish("$other/"+topic, "hidden", 0)
		p.Publish("seen/"+topic, "shown", 0)
		for { // others publish as well
			m := c.Expect(PUBLISH)
			if m.Topic[0] == '$' {
				t.Errorf("%v reached a leading wildcard [MQTT-4.7.2-1] [MQTT311-4.7.2-1]", m)
			}
			if string(m.Payload) == "shown" {
				return
			}
		}
	})
}

func TestAPersistentSessionKeepsItsSubscriptionOptionsAcrossAKill(t *testing.T) {
	t.Parallel()
	b := Start(t)
	c := Open(t, b.Addr(), Persistent(5, "c"))
	c.SubscribeWith(Props{Num(SubscriptionID, 42)}, To("a/#", 1|NoLocal|RetainAsPublished))
	b.Kill9()
	b.Restart()
	c = Open(t, b.Addr(), Persistent(5, "c"))
	c.Publish("a/own", "mine", 1)
	retain(t, b, "a/b", "x")
	p := c.ExpectPublish("a/b", "x")
	if id, ok := p.Props.Find(SubscriptionID); !ok || id.Int != 42 || !p.Retain || p.QoS != 1 {
		t.Errorf("got %v with %v", p, p.Props)
	}
}
