package e2e

import (
	"slices"
	"testing"
	"time"

	. "emanet/e2e/harness"
)

// everyProperty is all that a publisher can say about a message and that a subscriber must see as it was said.
var everyProperty = Props{
	Num(PayloadFormat, 1), Text(ContentType, "text/plain"), Text(ResponseTopic, "answers/here"),
	Text(CorrelationData, "\x00\x01\xff"), User("a", "1"), User("b", "2"), User("a", "3"),
}

func expectEveryProperty(t *testing.T, p Packet) {
	t.Helper()
	for _, want := range everyProperty {
		if want.ID != UserProperty && !slices.Contains(p.Props, want) {
			t.Errorf("property %+v is missing in %+v", want, p.Props)
		}
	}
	if got, want := p.Props.All(UserProperty), everyProperty.All(UserProperty); !slices.Equal(got, want) {
		t.Errorf("user properties %v, not %v in this order [MQTT-3.3.2-18]", got, want)
	}
}

func TestPropertiesOfAMessageAreForwardedUnaltered(t *testing.T) { // [MQTT-3.3.2-4] [MQTT-3.3.2-15] [MQTT-3.3.2-16] [MQTT-3.3.2-17] [MQTT-3.3.2-20]
	t.Parallel()
	b, topic := Shared(t), Name("topic")
	c := Open(t, b.Addr(), Clean(5, Name("c")))
	c.Subscribe(To(topic, 1))
	old := Open(t, b.Addr(), Clean(4, Name("old")))
	old.Subscribe(To(topic, 1))
	p := Open(t, b.Addr(), Clean(5, Name("p")))
	p.PublishPacket(Packet{Topic: topic, Payload: []byte("x"), QoS: 1, Props: everyProperty})
	expectEveryProperty(t, c.ExpectPublish(topic, "x"))
	old.ExpectPublish(topic, "x") // and a client of 3.1.1 gets the message without them
}

func TestPropertiesSurviveAKilledBroker(t *testing.T) {
	t.Parallel()
	b := Start(t)
	c := Open(t, b.Addr(), Persistent(5, "c"))
	c.Subscribe(To("t", 2))
	c.Disconnect()
	p := Open(t, b.Addr(), Clean(5, "p"))
	p.PublishPacket(Packet{Topic: "t", Payload: []byte("queued"), QoS: 2, Props: everyProperty})
	p.PublishPacket(Packet{Topic: "r", Payload: []byte("kept"), QoS: 1, Retain: true, Props: everyProperty})
	b.Kill9()
	b.Restart()
	c = Open(t, b.Addr(), Persistent(5, "c"))
	expectEveryProperty(t, c.ExpectPublish("t", "queued"))
	v := Open(t, b.Addr(), Clean(5, "v"))
	v.Subscribe(To("r", 0))
	expectEveryProperty(t, v.ExpectPublish("r", "kept"))
}

// pass lets real time go by, for what is promised in seconds, and for nothing else.
func pass(d time.Duration) { <-time.After(d) }

func TestMessageExpiryArrivesAsTheTimeThatIsLeft(t *testing.T) {
	t.Parallel()
	b, topic := Shared(t), Name("topic")
	session := Persistent(5, Name("c"))
	c := Open(t, b.Addr(), session)
	c.Subscribe(To(topic, 1))
	c.Disconnect()
	p := Open(t, b.Addr(), Clean(5, Name("p")))
	p.PublishPacket(Packet{Topic: topic, Payload: []byte("short"), QoS: 1, Props: Props{Num(MessageExpiry, 1)}})
	p.PublishPacket(Packet{Topic: topic, Payload: []byte("long"), QoS: 1, Props: Props{Num(MessageExpiry, 100)}})
	p.PublishPacket(Packet{Topic: topic, Payload: []byte("kept"), QoS: 1, Retain: true, Props: Props{Num(MessageExpiry, 1)}})
	pass(2100 * time.Millisecond)
	c = Open(t, b.Addr(), session)
	m := c.ExpectPublish(topic, "long") // "short" has expired [MQTT-3.3.2-5]
	if left, ok := m.Props.Find(MessageExpiry); !ok || left.Int < 90 || left.Int > 98 {
		t.Errorf("after two seconds of 100, %v s are left [MQTT-3.3.2-6]", left.Int)
	}
	v := Open(t, b.Addr(), Clean(5, Name("v")))
	v.Subscribe(To(topic, 0))
	expectNothingBefore(t, b, v, topic) // the retained value has expired as well
}

func TestMessageExpiryGoesOnWhileTheBrokerIsDown(t *testing.T) {
	OnlyEmanet(t)
	t.Parallel()
	b := Start(t)
	c := Open(t, b.Addr(), Persistent(5, "c"))
	c.Subscribe(To("t", 1))
	c.Disconnect()
	p := Open(t, b.Addr(), Clean(5, "p"))
	p.PublishPacket(Packet{Topic: "t", Payload: []byte("short"), QoS: 1, Props: Props{Num(MessageExpiry, 1)}})
	p.PublishPacket(Packet{Topic: "t", Payload: []byte("long"), QoS: 1, Props: Props{Num(MessageExpiry, 100)}})
	b.Kill9()
	pass(1500 * time.Millisecond)
	b.Restart()
	c = Open(t, b.Addr(), Persistent(5, "c"))
	m := c.ExpectPublish("t", "long")
	if left, _ := m.Props.Find(MessageExpiry); left.Int > 99 || left.Int < 80 {
		t.Errorf("%d s are left of 100", left.Int)
	}
}
