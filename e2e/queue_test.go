package e2e

import (
	"fmt"
	"testing"

	. "emanet/e2e/harness"
)

// Faults that brokers in the field were reported for, where a queue is full or a session comes back.

func TestAPublisherIsToldThatAQueueIsFull(t *testing.T) {
	OnlyEmanet(t)
	t.Parallel()
	b := Start(t, "--mqtt-max-queued", "3", "--mqtt-overflow", "reject-new")
	keeper := Open(t, b.Addr(), Persistent(5, "keeper"))
	keeper.Subscribe(To("t", 2))
	keeper.Disconnect()
	p := Open(t, b.Addr(), Clean(5, "p"))
	var kept []string
	for i := range 8 {
		payload := fmt.Sprint(i)
		switch ack := p.Publish("t", payload, byte(1+i%2)); ack.Code {
		case 0:
			kept = append(kept, payload)
		case 0x97:
		default:
			t.Errorf("message %d was answered by %v", i, ack)
		}
	}
	if len(kept) != 3 {
		t.Errorf("%q were acknowledged with success, of which 3 have room", kept)
	}
	old := Open(t, b.Addr(), Clean(4, "old")) // 3.1.1 has no word for it: no acknowledgement then
	old.Send(Packet{Type: PUBLISH, QoS: 1, ID: 1, Topic: "t", Payload: []byte("old")})
	old.ExpectClosed()
	b.Kill9()
	b.Restart()
	keeper = Open(t, b.Addr(), Persistent(5, "keeper"))
	for _, payload := range kept { // what was acknowledged is there, what was refused is not
		keeper.ExpectPublish("t", payload)
	}
	keeper.Ping()
}

func TestAMessageThatIsDroppedForWantOfRoomIsCounted(t *testing.T) {
	OnlyEmanet(t)
	t.Parallel()
	b := Start(t, "--mqtt-max-queued", "3")
	keeper := Open(t, b.Addr(), Persistent(5, "keeper"))
	keeper.Subscribe(To("t", 1))
	keeper.Disconnect()
	const dropped = `emanet_dropped_total{reason="overflow"}`
	before := b.Metrics()[dropped]
	p := Open(t, b.Addr(), Clean(5, "p"))
	for i := range 8 {
		p.Publish("t", fmt.Sprint(i), 1)
	}
	if n := b.Metrics()[dropped] - before; n != 5 {
		t.Errorf("5 messages were dropped and %v are counted", n)
	}
}

// A control packet must not wait behind a window or a queue that is full of messages, nor fall with them.
func TestAFullQueueHoldsNoControlPacketBack(t *testing.T) {
	bothVersions(t, func(t *testing.T, b *Broker, version byte) {
		topic := Name("topic")
		c := Open(t, b.Addr(), Persistent(version, Name("c")))
		c.Subscribe(To(topic, 1), To(topic+"/other", 0))
		p := Open(t, b.Addr(), Clean(version, Name("p")))
		for i := range 2000 { // far more than a window, none of them acknowledged
			p.Publish(topic, fmt.Sprint(i), byte(i&1))
		}
		c.Write(UnsubscribeBytes(version, 4711, topic))
		c.Write(SubscribeBytes(version, 4712, nil, To(topic+"/new", 0)))
		c.Send(Packet{Type: PUBLISH, QoS: 2, ID: 4713, Topic: topic + "/own"})
		c.Send(Packet{Type: PINGREQ})
		awaited := map[byte]uint16{UNSUBACK: 4711, SUBACK: 4712, PUBREC: 4713, PINGRESP: 0}
		for len(awaited) > 0 {
			m := c.Read()
			if m.Type == PUBLISH {
				continue
			}
			if id, ok := awaited[m.Type]; !ok || m.ID != id {
				t.Fatalf("unexpected %v", m)
			}
			delete(awaited, m.Type)
		}
	})
}

// What was on its way to a receiver goes to the receiver again, and not to who published it.
func TestMessagesInFlightAtACrashGoBackToTheirReceiver(t *testing.T) {
	for _, version := range []byte{4, 5} {
		t.Run(fmt.Sprintf("MQTT version %d", version), func(t *testing.T) {
			t.Parallel()
			b := Start(t)
			receiver, publisher := Persistent(version, "receiver"), Persistent(version, "publisher")
			r := Open(t, b.Addr(), receiver)
			r.Subscribe(To("t", 2))
			p := Open(t, b.Addr(), publisher)
			p.Subscribe(To("answers", 1))
			p.Publish("t", "one", 1)
			p.Publish("t", "two", 2)
			one, two := r.ExpectPublish("t", "one"), r.ExpectPublish("t", "two")
			b.Kill9()
			b.Restart()
			p = Open(t, b.Addr(), publisher)
			p.Ping()
			r = Open(t, b.Addr(), receiver)
			for _, was := range []Packet{one, two} {
				if again := r.ExpectPublish("t", string(was.Payload)); again.ID != was.ID || !again.Dup || again.QoS != was.QoS {
					t.Errorf("%v came back as %v", was, again)
				}
			}
			p.Ping()
			r.Send(Packet{Type: PUBLISH, Topic: "answers", Payload: []byte("thanks")})
			p.ExpectPublish("answers", "thanks")
		})
	}
}
