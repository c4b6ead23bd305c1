package e2e

import (
	"fmt"
	"slices"
	"testing"

	. "emanet/e2e/harness"
)

func TestOneSubackAnswersEveryFilterInTheirOrder(t *testing.T) {
	OnlyEmanet(t) // others end the connection for the invalid one
	bothVersions(t, func(t *testing.T, b *Broker, version byte) {
		topic := Name("topic")
		c := Open(t, b.Addr(), Clean(version, Name("c")))
		c.Write(SubscribeBytes(version, 4711, nil, To(topic+"/2", 2), To(topic+"/#/x", 1), To(topic+"/0", 0), To(topic+"/1", 1)))
		ack := c.Expect(SUBACK) // [MQTT-3.8.4-1] [MQTT311-3.8.4-1]
		if ack.ID != 4711 {
			t.Errorf("%v for SUBSCRIBE 4711 [MQTT-2.2.1-6] [MQTT-3.8.4-2] [MQTT311-2.3.1-7] [MQTT311-3.8.4-2]", ack)
		}
		failed := map[byte]byte{4: 0x80, 5: 0x8F}[version]
		// [MQTT-3.8.4-6] [MQTT-3.8.4-7] [MQTT-3.9.3-1] [MQTT-3.9.3-2] [MQTT311-3.8.4-5] [MQTT311-3.9.3-1] [MQTT311-3.9.3-2]
		if want := []byte{2, failed, 0, 1}; !slices.Equal(ack.Codes, want) {
			t.Errorf("granted %x, not %x", ack.Codes, want)
		}
		c.Ping() // there is one answer to all of them [MQTT-3.8.4-5] [MQTT311-3.8.4-4]
		p := Open(t, b.Addr(), Clean(version, Name("p")))
		for granted := range byte(3) {
			for qos := range byte(3) {
				p.Publish(fmt.Sprintf("%s/%d", topic, granted), "x", qos)
				m := c.Expect(PUBLISH)
				if m.QoS != min(granted, qos) {
					t.Errorf("QoS %d to a subscription of %d came as %v [MQTT-3.8.4-8] [MQTT311-3.8.4-6]", qos, granted, m)
				}
				switch m.QoS {
				case 1:
					c.Ack(m)
				case 2:
					finish(c, m)
				}
			}
		}
		p.Publish(topic+"/x/x", "x", 1)
		c.Ping() // a filter that failed is none
	})
}

func TestTheSameFilterTwiceInOneSubscribeIsOneSubscription(t *testing.T) { // [MQTT-3.8.4-5] [MQTT311-3.8.4-4]
	bothVersions(t, func(t *testing.T, b *Broker, version byte) {
		topic := Name("topic")
		c := Open(t, b.Addr(), Clean(version, Name("c")))
		if got := c.Subscribe(To(topic, 0), To(topic, 1)); !slices.Equal(got, []byte{0, 1}) {
			t.Errorf("granted %x", got)
		}
		Open(t, b.Addr(), Clean(version, Name("p"))).Publish(topic, "x", 2)
		if m := c.ExpectPublish(topic, "x"); m.QoS != 1 {
			t.Errorf("the later one counts, yet %v", m)
		}
		c.Ping()
	})
}

func TestASubscriptionIsReplacedWithoutLosingAMessage(t *testing.T) {
	bothVersions(t, func(t *testing.T, b *Broker, version byte) {
		const messages = 200
		topic := Name("topic")
		p := Open(t, b.Addr(), Clean(version, Name("p")))
		p.PublishPacket(Packet{Topic: topic, Payload: []byte("kept"), QoS: 1, Retain: true})
		c := Open(t, b.Addr(), Clean(version, Name("c")))
		c.Subscribe(To(topic, 0))
		c.ExpectPublish(topic, "kept")
		// Another QoS replaces it: one copy, at that QoS [MQTT-3.8.4-3] [MQTT311-3.8.4-3]
		c.Subscribe(To(topic, 1))
		again := c.ExpectPublish(topic, "kept") // [MQTT-3.8.4-4] [MQTT311-3.8.4-3]
		if !again.Retain {
			t.Errorf("the retained message came again as %v", again)
		}
		c.Ack(again)
		if m := expectNothingBefore(t, b, c, topic); m.QoS != 1 {
			t.Errorf("after replacing QoS 0 by 1: %v", m)
		} else {
			c.Ack(m)
		}
		// And while messages come, none is lost by it [MQTT-3.8.4-4] [MQTT311-3.8.4-3]
		go func() {
			for i := range messages {
				p.Send(Packet{Type: PUBLISH, QoS: 1, ID: uint16(i + 1), Topic: topic, Payload: fmt.Append(nil, i)})
			}
		}()
		for next := 0; next < messages; {
			m := c.Read()
			if m.Type != PUBLISH || m.Retain {
				c.Ack(m)
				continue // the answers to subscribing, and the retained message
			}
			if string(m.Payload) != fmt.Sprint(next) {
				t.Fatalf("waiting for %d, got %v", next, m)
			}
			c.Ack(m)
			if next++; next%20 == 0 {
				c.Write(SubscribeBytes(version, uint16(1000+next), nil, To(topic, byte(1+next/20%2))))
			}
		}
	})
}

func TestOverlappingSubscriptionsGetTheHighestQoS(t *testing.T) { // [MQTT-3.3.4-2] [MQTT311-3.3.5-1]
	OnlyEmanet(t) // others send a copy for each
	bothVersions(t, func(t *testing.T, b *Broker, version byte) {
		topic := Name("topic")
		c := Open(t, b.Addr(), Clean(version, Name("c")))
		c.Subscribe(To(topic+"/#", 1), To(topic+"/+", 2), To(topic+"/a", 0))
		p := Open(t, b.Addr(), Clean(version, Name("p")))
		p.Publish(topic+"/a", "x", 2)
		m := c.ExpectPublish(topic+"/a", "x")
		if m.QoS != 2 {
			t.Errorf("subscriptions of 1, 2 and 0 got %v", m)
		}
		finish(c, m)
		c.Ping() // once
	})
}

func TestUnsubscribeEndsTheSubscriptionOfThatVeryFilter(t *testing.T) {
	bothVersions(t, func(t *testing.T, b *Broker, version byte) {
		topic := Name("topic")
		c := Open(t, b.Addr(), Clean(version, Name("c")))
		c.Subscribe(To(topic+"/+", 1), To(topic+"/b", 1))
		p := Open(t, b.Addr(), Clean(version, Name("p")))
		for id, filter := range []string{topic + "/#", topic + "/a", topic + "/B", topic} {
			c.Write(UnsubscribeBytes(version, uint16(id+100), filter))
			ack := c.Expect(UNSUBACK) // also when there is nothing to end [MQTT-3.10.4-4] [MQTT-3.10.4-5] [MQTT311-3.10.4-4] [MQTT311-3.10.4-5]
			if int(ack.ID) != id+100 {
				t.Errorf("%v for UNSUBSCRIBE %d [MQTT-2.2.1-6] [MQTT-3.10.4-5] [MQTT311-2.3.1-7] [MQTT311-3.10.4-4]", ack, id+100)
			}
		}
		p.Publish(topic+"/a", "still", 1) // [MQTT-3.10.4-1] [MQTT311-3.10.4-1]
		c.Ack(c.ExpectPublish(topic+"/a", "still"))
		c.Write(UnsubscribeBytes(version, 200, topic+"/+"))
		c.Expect(UNSUBACK)
		p.Publish(topic+"/a", "no more", 1) // [MQTT-3.10.4-1] [MQTT-3.10.4-2] [MQTT311-3.10.4-1] [MQTT311-3.10.4-2]
		p.Publish(topic+"/b", "the other one", 1)
		c.Ack(c.ExpectPublish(topic+"/b", "the other one"))
	})
}

func TestOneUnsubackAnswersEveryFilter(t *testing.T) { // [MQTT-3.10.4-6] [MQTT311-3.10.4-6]
	bothVersions(t, func(t *testing.T, b *Broker, version byte) {
		topic := Name("topic")
		c := Open(t, b.Addr(), Clean(version, Name("c")))
		c.Subscribe(To(topic+"/1", 0), To(topic+"/3", 0))
		c.Write(UnsubscribeBytes(version, 7, topic+"/1", topic+"/2", topic+"/3", topic+"/1"))
		ack := c.Expect(UNSUBACK)
		if want := []byte{0, 0x11, 0, 0x11}; version == 5 && !slices.Equal(ack.Codes, want) {
			t.Errorf("codes %x, not %x [MQTT-3.11.3-1] [MQTT-3.11.3-2]", ack.Codes, want)
		}
		p := Open(t, b.Addr(), Clean(version, Name("p")))
		p.Publish(topic+"/1", "x", 1)
		p.Publish(topic+"/3", "x", 1)
		c.Ping()
	})
}

func TestWhatIsOnItsWayIsDeliveredAfterUnsubscribe(t *testing.T) { // [MQTT-3.10.4-3] [MQTT311-3.10.4-3]
	bothVersions(t, func(t *testing.T, b *Broker, version byte) {
		topic, session := Name("topic"), Persistent(version, Name("c"))
		c := Open(t, b.Addr(), session)
		c.Subscribe(To(topic, 2))
		p := Open(t, b.Addr(), Clean(version, Name("p")))
		p.Publish(topic, "one", 1)
		p.Publish(topic, "two", 2)
		one, two := c.ExpectPublish(topic, "one"), c.ExpectPublish(topic, "two")
		c.Write(UnsubscribeBytes(version, 9, topic))
		c.Expect(UNSUBACK)
		finish(c, two)
		c.Ping()
		c.Drop()
		c = Open(t, b.Addr(), session)
		if again := c.ExpectPublish(topic, "one"); again.ID != one.ID || !again.Dup {
			t.Errorf("%v came again as %v", one, again)
		}
		c.Ack(one)
		c.Ping()
	})
}
