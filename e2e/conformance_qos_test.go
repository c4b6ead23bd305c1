package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	. "emanet/e2e/harness"
)

func TestAPubackFreesThePacketIDForANewMessage(t *testing.T) {
	bothVersions(t, func(t *testing.T, b *Broker, version byte) {
		topic := Name("topic")
		s := Open(t, b.Addr(), Clean(version, Name("s")))
		s.Subscribe(To(topic, 0))
		p := Open(t, b.Addr(), Clean(version, Name("p")))
		for i, dup := range []bool{false, true, false} {
			m := Packet{Type: PUBLISH, QoS: 1, ID: 4711, Dup: dup, Topic: topic, Payload: fmt.Append(nil, i)}
			p.Send(m)
			if ack := p.Expect(PUBACK); ack.ID != 4711 {
				t.Errorf("%v for identifier 4711 [MQTT-2.2.1-5] [MQTT-3.3.4-1] [MQTT-4.3.2-4] [MQTT311-2.3.1-6] [MQTT311-3.3.4-1]", ack)
			}
			s.ExpectPublish(topic, fmt.Sprint(i)) // a new message each time, whatever DUP says [MQTT-4.3.2-5] [MQTT311-4.3.2-2]
		}
	})
}

func TestAPubcompFreesThePacketIDForANewMessage(t *testing.T) {
	OnlyEmanet(t) // Mosquitto 2.0.11 ends the connection at the third
	bothVersions(t, func(t *testing.T, b *Broker, version byte) {
		topic := Name("topic")
		s := Open(t, b.Addr(), Clean(version, Name("s")))
		s.Subscribe(To(topic, 2))
		p := Open(t, b.Addr(), Clean(version, Name("p")))
		m := Packet{Type: PUBLISH, QoS: 2, ID: 815, Topic: topic}
		for _, payload := range []string{"one", "two"} {
			m.Payload = []byte(payload)
			for i := range 3 { // sent three times, it is one message [MQTT-4.3.3-10] [MQTT311-4.3.3-2]
				m.Dup = i > 0
				p.Send(m)
				if rec := p.Expect(PUBREC); rec.ID != 815 || rec.Code != 0 {
					t.Errorf("%v for identifier 815 [MQTT-2.2.1-5] [MQTT-3.3.4-1] [MQTT-4.3.3-8] [MQTT311-2.3.1-6] [MQTT311-4.3.3-2]", rec)
				}
			}
			p.Send(Packet{Type: PUBREL, ID: 815})
			if comp := p.Expect(PUBCOMP); comp.ID != 815 || comp.Code != 0 {
				t.Errorf("%v for identifier 815 [MQTT-2.2.1-5] [MQTT-4.3.3-11] [MQTT311-4.3.3-2]", comp)
			}
			got := s.ExpectPublish(topic, payload) // after PUBCOMP the identifier means the next message [MQTT-4.3.3-12]
			finish(s, got)
		}
		s.Ping()
	})
}

// finish acknowledges a delivery of QoS 2 to its end.
func finish(c *Client, p Packet) {
	c.Send(Packet{Type: PUBREC, ID: p.ID})
	c.Expect(PUBREL)
	c.Send(Packet{Type: PUBCOMP, ID: p.ID})
}

func TestAfterARefusedPublishItsPacketIDMeansANewMessage(t *testing.T) { // [MQTT-4.3.3-9]
	OnlyEmanet(t)
	t.Parallel()
	b, topic := Shared(t), Name("topic")
	s := Open(t, b.Addr(), Clean(5, Name("s")))
	s.Subscribe(To(topic, 0))
	p := Open(t, b.Addr(), Clean(5, Name("p")))
	p.Send(Packet{Type: PUBLISH, QoS: 2, ID: 5, Topic: "$SYS/mine", Payload: []byte("refused")})
	if rec := p.Expect(PUBREC); rec.Code < 0x80 {
		t.Fatalf("%v for a topic of the server's own", rec)
	}
	p.Send(Packet{Type: PUBLISH, QoS: 2, ID: 5, Topic: topic, Payload: []byte("new")})
	if rec := p.Expect(PUBREC); rec.ID != 5 || rec.Code != 0 {
		t.Errorf("%v for a new message", rec)
	}
	s.ExpectPublish(topic, "new")
}

func TestWhatWasNotAcknowledgedComesAgainWhenTheSessionIsResumedAndAtNoOtherTime(t *testing.T) {
	bothVersions(t, func(t *testing.T, b *Broker, version byte) {
		session, topic := Persistent(version, Name("s")), Name("topic")
		s := Open(t, b.Addr(), session)
		s.Subscribe(To(topic, 2))
		p := Open(t, b.Addr(), Clean(version, Name("p")))
		p.Publish(topic, "one", 1)
		p.Publish(topic, "two", 2)
		p.Publish(topic, "released", 2)
		one, two, released := s.ExpectPublish(topic, "one"), s.ExpectPublish(topic, "two"), s.ExpectPublish(topic, "released")
		for _, m := range []Packet{one, two, released} {
			if m.Dup {
				t.Errorf("sent for the first time with DUP: %v [MQTT-4.3.2-2] [MQTT-4.3.3-2] [MQTT311-4.3.2-1] [MQTT311-4.3.3-1]", m)
			}
		}
		s.Send(Packet{Type: PUBREC, ID: released.ID})
		if rel := s.Expect(PUBREL); rel.ID != released.ID {
			t.Errorf("%v for PUBREC %d [MQTT-4.3.3-4] [MQTT-2.2.1-5] [MQTT311-4.3.3-1] [MQTT311-2.3.1-6]", rel, released.ID)
		}
		for range 4 {
			pass(500 * time.Millisecond)
			s.Ping() // nothing comes by itself [MQTT-4.4.0-1]
		}
		s.Drop()
		s = Open(t, b.Addr(), session)
		// [MQTT-4.4.0-1] [MQTT-4.3.2-3] [MQTT-4.3.3-3] [MQTT311-4.4.0-1] [MQTT311-4.3.2-1], in their order [MQTT311-4.6.0-6]
		for _, was := range []Packet{one, two} {
			again := s.ExpectPublish(topic, string(was.Payload))
			if again.ID != was.ID || again.QoS != was.QoS || !again.Dup {
				t.Errorf("%v came again as %v [MQTT-3.3.1-1] [MQTT-4.4.0-1] [MQTT311-3.3.1-1]", was, again)
			}
		}
		// The release comes again, and not its PUBLISH [MQTT-4.3.3-5] [MQTT-4.3.3-6] [MQTT311-4.3.3-1]
		if rel := s.Expect(PUBREL); rel.ID != released.ID {
			t.Errorf("%v instead of PUBREL %d", rel, released.ID)
		}
		s.Ping()
	})
}

func TestOutgoingPacketIDsAreNotZeroAndNotInUse(t *testing.T) { // [MQTT-2.2.1-4] [MQTT-4.3.2-1] [MQTT-4.3.3-1] [MQTT311-2.3.1-4] [MQTT311-4.3.2-1] [MQTT311-4.3.3-1]
	bothVersions(t, func(t *testing.T, b *Broker, version byte) {
		topic := Name("topic")
		s := Open(t, b.Addr(), Clean(version, Name("s")))
		s.Subscribe(To(topic, 2))
		p := Open(t, b.Addr(), Clean(version, Name("p")))
		inUse := map[uint16]bool{}
		for i := range 90 {
			p.Publish(topic, "x", byte(1+i%2))
			m := s.ExpectPublish(topic, "x")
			if inUse[m.ID] || m.ID == 0 {
				t.Fatalf("%v takes an identifier that is in use", m)
			}
			if i%3 == 0 && m.QoS == 1 { // most of them stay unacknowledged
				s.Ack(m)
			} else {
				inUse[m.ID] = true
			}
		}
	})
}

func TestARefusedDeliveryIsNotSentAgain(t *testing.T) { // [MQTT-4.4.0-2]
	t.Parallel()
	b, topic, session := Shared(t), Name("topic"), Persistent(5, Name("s"))
	s := Open(t, b.Addr(), session)
	s.Subscribe(To(topic, 2))
	p := Open(t, b.Addr(), Clean(5, Name("p")))
	p.Publish(topic, "one", 1)
	p.Publish(topic, "two", 2)
	s.Send(Packet{Type: PUBACK, ID: s.ExpectPublish(topic, "one").ID, Code: 0x83})
	s.Send(Packet{Type: PUBREC, ID: s.ExpectPublish(topic, "two").ID, Code: 0x83})
	s.Ping() // no PUBREL
	s.Drop()
	expectNothingBefore(t, b, Open(t, b.Addr(), session), topic)
}

func TestAMessageThatWasSentDoesNotExpire(t *testing.T) { // [MQTT-4.3.3-7]
	t.Parallel()
	b, topic, session := Shared(t), Name("topic"), Persistent(5, Name("s"))
	s := Open(t, b.Addr(), session)
	s.Subscribe(To(topic, 2))
	p := Open(t, b.Addr(), Clean(5, Name("p")))
	p.PublishPacket(Packet{Topic: topic, Payload: []byte("sent"), QoS: 2, Props: Props{Num(MessageExpiry, 1)}})
	sent := s.ExpectPublish(topic, "sent")
	s.Drop()
	pass(1600 * time.Millisecond)
	s = Open(t, b.Addr(), session)
	if again := s.ExpectPublish(topic, "sent"); again.ID != sent.ID || !again.Dup {
		t.Errorf("%v came again as %v", sent, again)
	}
	finish(s, sent)
}

func TestAHandshakeGoesOnAlthoughItsMessageHasExpired(t *testing.T) { // [MQTT-4.3.3-13]
	t.Parallel()
	b, topic := Shared(t), Name("topic")
	keeper := Open(t, b.Addr(), Persistent(5, Name("keeper")))
	keeper.Subscribe(To(topic, 2))
	keeper.Disconnect()
	p := Open(t, b.Addr(), Clean(5, Name("p")))
	m := Packet{Type: PUBLISH, QoS: 2, ID: 3, Topic: topic, Payload: []byte("short"), Props: Props{Num(MessageExpiry, 1)}}
	p.Send(m)
	p.Expect(PUBREC)
	pass(1600 * time.Millisecond)
	m.Dup = true
	p.Send(m)
	if rec := p.Expect(PUBREC); rec.Code != 0 {
		t.Errorf("sent again after its expiry it was answered by %v", rec)
	}
	p.Send(Packet{Type: PUBREL, ID: 3})
	if comp := p.Expect(PUBCOMP); comp.ID != 3 || comp.Code != 0 {
		t.Errorf("released after its expiry it was answered by %v", comp)
	}
}

func TestDupIsNotForwarded(t *testing.T) { // [MQTT-3.3.1-3] [MQTT-3.3.1-2] [MQTT-4.3.1-1] [MQTT311-3.3.1-3] [MQTT311-3.3.1-2] [MQTT311-4.3.1-1]
	bothVersions(t, func(t *testing.T, b *Broker, version byte) {
		topic := Name("topic")
		p := Open(t, b.Addr(), Clean(version, Name("p")))
		for qos := range byte(3) {
			s := Open(t, b.Addr(), Clean(version, Name("s")))
			s.Subscribe(To(topic, qos))
			p.PublishPacket(Packet{Topic: topic, Payload: []byte("x"), QoS: max(1, qos), Dup: true})
			// Were there an identifier at QoS 0, it would stand before the payload [MQTT-2.2.1-2] [MQTT311-2.3.1-5]
			if m := s.ExpectPublish(topic, "x"); m.Dup || m.QoS != qos {
				t.Errorf("forwarded as %v at QoS %d", m, qos)
			}
			s.Drop()
		}
	})
}

func TestMessagesOfOneTopicAndQoSKeepTheirOrder(t *testing.T) { // [MQTT-4.6.0-5] [MQTT-4.6.0-6] [MQTT311-4.6.0-5] [MQTT311-4.6.0-6]
	bothVersions(t, func(t *testing.T, b *Broker, version byte) {
		const messages = 300
		topic, session := Name("topic"), Persistent(version, Name("s"))
		s := Open(t, b.Addr(), session)
		s.Subscribe(To(topic, 2))
		p := Open(t, b.Addr(), Clean(version, Name("p")))
		go func() {
			for i := range messages {
				qos := byte(i % 3)
				p.Send(Packet{Type: PUBLISH, QoS: qos, ID: uint16(i + 1), Topic: topic, Payload: fmt.Append(nil, i)})
				if qos == 2 {
					p.Send(Packet{Type: PUBREL, ID: uint16(i + 1)})
				}
			}
		}()
		var got [3][]int
		for len(got[0])+len(got[1])+len(got[2]) < messages {
			m := s.Read()
			switch m.Type {
			case PUBREL:
				s.Send(Packet{Type: PUBCOMP, ID: m.ID})
				continue
			case PUBLISH:
			default:
				t.Fatalf("unexpected %v", m)
			}
			var n int
			if _, err := fmt.Sscan(string(m.Payload), &n); err != nil {
				t.Fatal(err)
			}
			got[m.QoS] = append(got[m.QoS], n)
			switch m.QoS {
			case 1:
				s.Ack(m)
			case 2:
				s.Send(Packet{Type: PUBREC, ID: m.ID})
			}
		}
		for qos, order := range got {
			if len(order) != messages/3 || !slices.IsSorted(order) {
				t.Errorf("at QoS %d: %v", qos, order)
			}
		}
	})
}

func TestAtAFullWindowEverythingButPublishGoesOn(t *testing.T) {
	t.Parallel()
	b, topic := Shared(t), Name("topic")
	connect := Clean(5, Name("c"))
	connect.Props = Props{Num(ReceiveMaximum, 1)}
	c := Open(t, b.Addr(), connect)
	c.Subscribe(To(topic, 2))
	p := Open(t, b.Addr(), Clean(5, Name("p")))
	p.Publish(topic, "one", 2)
	p.Publish(topic, "two", 1)
	one := c.ExpectPublish(topic, "one") // the quota begins at 1, not at 0 [MQTT-4.9.0-1]
	c.Ping()                             // and "two" waits, while this is answered [MQTT-4.9.0-2] [MQTT-4.9.0-3] [MQTT-3.3.4-10]
	c.Subscribe(To(topic+"/other", 0))
	c.Write(UnsubscribeBytes(5, c.NextID(), topic+"/other"))
	c.Expect(UNSUBACK)
	c.Publish(topic+"/other", "x", 1)
	c.Publish(topic+"/other", "x", 2)
	c.Send(Packet{Type: PUBREC, ID: one.ID})
	c.Expect(PUBREL)
	c.Ping()
	c.Send(Packet{Type: PUBCOMP, ID: one.ID})
	c.ExpectPublish(topic, "two")
}
