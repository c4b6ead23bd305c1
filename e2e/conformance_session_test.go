package e2e

import (
	"testing"

	. "emanet/e2e/harness"
)

func TestASessionKeepsAllThatItConsistsOf(t *testing.T) { // [MQTT-3.1.2-5] [MQTT-3.1.2-23] [MQTT311-3.1.2-4] [MQTT311-4.1.0-1]
	bothVersions(t, func(t *testing.T, b *Broker, version byte) {
		topic, session := Name("topic"), Persistent(version, Name("c"))
		c := Open(t, b.Addr(), session)
		c.Subscribe(To(topic, 2))
		p := Open(t, b.Addr(), Clean(version, Name("p")))
		p.Publish(topic, "sent", 1)
		sent := c.ExpectPublish(topic, "sent")
		s := Open(t, b.Addr(), Clean(version, Name("s")))
		s.Subscribe(To(topic+"/own", 1))
		c.Send(Packet{Type: PUBLISH, QoS: 2, ID: 77, Topic: topic + "/own", Payload: []byte("mine")})
		c.Expect(PUBREC)
		c.Drop()

		p.Publish(topic, "queued at 1", 1) // [MQTT-4.5.0-1] [MQTT311-3.1.2-5] [MQTT311-4.5.0-1]
		p.Publish(topic, "queued at 2", 2)
		c = Open(t, b.Addr(), session)
		if again := c.ExpectPublish(topic, "sent"); again.ID != sent.ID || !again.Dup {
			t.Errorf("%v came again as %v", sent, again)
		}
		c.Ack(sent)
		c.Ack(c.ExpectPublish(topic, "queued at 1"))
		finish(c, c.ExpectPublish(topic, "queued at 2"))
		c.Send(Packet{Type: PUBLISH, QoS: 2, ID: 77, Dup: true, Topic: topic + "/own", Payload: []byte("mine")})
		c.Expect(PUBREC) // the identifier is known: the message does not come a second time
		c.Send(Packet{Type: PUBREL, ID: 77})
		c.Expect(PUBCOMP)
		s.Ack(s.ExpectPublish(topic+"/own", "mine"))
		s.Ack(expectNothingBefore(t, b, s, topic+"/own"))
		c.Ack(expectNothingBefore(t, b, c, topic)) // and the subscription is there
	})
}

func TestAMessageIsKeptForEverySessionThatSubscribes(t *testing.T) { // [MQTT-4.5.0-1] [MQTT311-4.5.0-1]
	bothVersions(t, func(t *testing.T, b *Broker, version byte) {
		topic := Name("topic")
		var sessions []Connect
		for _, filter := range []string{topic + "/a", topic + "/+", topic + "/#", topic + "/b"} {
			session := Persistent(version, Name("c"))
			c := Open(t, b.Addr(), session)
			c.Subscribe(To(filter, 1))
			c.Disconnect()
			sessions = append(sessions, session)
		}
		Open(t, b.Addr(), Clean(version, Name("p"))).Publish(topic+"/a", "x", 1)
		for i, session := range sessions {
			c := Open(t, b.Addr(), session)
			if i < 3 {
				c.Ack(c.ExpectPublish(topic+"/a", "x"))
			}
			c.Ping()
		}
	})
}

// The flags, codes, lengths and properties of every packet are held against their tables by the harness; this test
// brings them about [MQTT-2.1.3-1] [MQTT-2.2.2-1] [MQTT-1.5.5-1].
func TestCodesComeFromTheirTables(t *testing.T) {
	OnlyEmanet(t)
	t.Parallel()
	b, topic := Shared(t), Name("topic")
	c := Open(t, b.Addr(), Persistent(5, Name("c"))) // [MQTT-3.2.2-1] [MQTT-3.2.2-8]
	for _, qos := range []byte{1, 2} {               // [MQTT-3.4.2-1] [MQTT-3.5.2-1]
		for _, topic := range []string{"$SYS/x", topic} {
			c.Send(Packet{Type: PUBLISH, QoS: qos, ID: 5, Topic: topic})
			c.Read()
		}
	}
	c.Send(Packet{Type: PUBREL, ID: 5})
	if comp := c.Expect(PUBCOMP); comp.Code != 0 {
		t.Errorf("a known identifier: %v [MQTT-3.7.2-1]", comp)
	}
	c.Send(Packet{Type: PUBREL, ID: 6})
	if comp := c.Expect(PUBCOMP); comp.Code != 0x92 {
		t.Errorf("an unknown identifier: %v [MQTT-3.7.2-1]", comp)
	}
	c.Send(Packet{Type: PUBREC, ID: 8})
	if rel := c.Expect(PUBREL); rel.Code != 0x92 {
		t.Errorf("an unknown identifier: %v [MQTT-3.6.2-1]", rel)
	}
	c.Subscribe(To(topic, 0), To("a/#/b", 0), To("", 0)) // [MQTT-3.9.3-2]
	c.Write(UnsubscribeBytes(5, 7, topic, topic, "#/a")) // [MQTT-3.11.3-2]
	c.Expect(UNSUBACK)
	c.Disconnect()
	for _, a := range attacksAfterConnect { // [MQTT-3.14.2-1], without a session expiry [MQTT-3.14.2-2]
		c := Open(t, b.Addr(), Persistent(5, Name("c")))
		c.Write(a.bytes)
		if last := c.ExpectClosed(); last.Type != DISCONNECT {
			t.Errorf("%s: ended with %v", a.name, last)
		}
	}
}

func TestAWillIsSentAsItWasAnnounced(t *testing.T) {
	bothVersions(t, func(t *testing.T, b *Broker, version byte) {
		for qos := range byte(3) {
			for _, retain := range []bool{false, true} {
				topic := Name("will")
				m := Open(t, b.Addr(), Clean(version, Name("mourner")))
				m.Subscribe(To(topic, 2))
				connect := Clean(version, Name("c"))
				connect.Will = &Will{Topic: topic, Payload: "gone", QoS: qos, Retain: retain}
				Open(t, b.Addr(), connect).Drop()
				if p := m.ExpectPublish(topic, "gone"); p.QoS != qos { // [MQTT-3.1.2-8] [MQTT-3.1.2-9] [MQTT311-3.1.2-8] [MQTT311-3.1.2-9]
					t.Errorf("a will of QoS %d came as %v", qos, p)
				}
				late := Open(t, b.Addr(), Clean(version, Name("late")))
				late.Subscribe(To(topic, 0))
				if retain { // [MQTT-3.1.2-15] [MQTT311-3.1.2-17]
					late.ExpectPublish(topic, "gone")
				}
				late.Ping() // [MQTT-3.1.2-14] [MQTT311-3.1.2-16]
			}
		}
	})
}

func TestAWillIsForgottenOnceItWasSentOrTheClientTookLeave(t *testing.T) { // [MQTT-3.1.2-10] [MQTT311-3.1.2-10] [MQTT311-3.1.2-12]
	bothVersions(t, func(t *testing.T, b *Broker, version byte) {
		topic := Name("will")
		m := Open(t, b.Addr(), Clean(version, Name("mourner")))
		m.Subscribe(To(topic, 0))
		with := Persistent(version, Name("c"))
		without := with
		with.Will = &Will{Topic: topic, Payload: "gone"}
		Open(t, b.Addr(), with).Drop()
		m.ExpectPublish(topic, "gone")
		Open(t, b.Addr(), without).Drop()
		expectNothingBefore(t, b, m, topic) // it was sent once
		Open(t, b.Addr(), with).Disconnect()
		Open(t, b.Addr(), without).Drop()
		expectNothingBefore(t, b, m, topic) // and DISCONNECT removed it
	})
}
