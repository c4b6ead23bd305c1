package e2e

import (
	"fmt"
	"strings"
	"testing"

	. "emanet/e2e/harness"
)

func TestTheBrokerKeepsToTheClientsReceiveMaximum(t *testing.T) {
	t.Parallel()
	b, topic := Shared(t), Name("topic")
	connect := Clean(5, Name("c"))
	connect.Props = Props{Num(ReceiveMaximum, 2)}
	c := Open(t, b.Addr(), connect)
	c.Subscribe(To(topic, 2))
	p := Open(t, b.Addr(), Clean(5, Name("p")))
	for i := range 5 {
		p.Publish(topic, fmt.Sprint(i), byte(1+i%2))
	}
	first, second := c.ExpectPublish(topic, "0"), c.ExpectPublish(topic, "1")
	c.Ping() // the third waits [MQTT-3.3.4-9]
	p.Publish(topic, "unlimited", 0)
	c.ExpectPublish(topic, "unlimited") // QoS 0 is not counted

	c.Ack(first)
	third := c.ExpectPublish(topic, "2")
	c.Send(Packet{Type: PUBREC, ID: second.ID})
	c.Expect(PUBREL)
	c.Ping() // a PUBREC gives no credit back, only the PUBCOMP does
	c.Send(Packet{Type: PUBCOMP, ID: second.ID})
	fourth := c.ExpectPublish(topic, "3")
	c.Ack(third)
	c.ExpectPublish(topic, "4")
	c.Send(Packet{Type: PUBREC, ID: fourth.ID, Code: 0x80}) // a refusal ends the handshake and gives credit back
	p.Publish(topic, "5", 1)
	c.ExpectPublish(topic, "5")
}

func TestMoreThanTheBrokersReceiveMaximumEndsTheConnection(t *testing.T) {
	t.Parallel()
	b, topic := Shared(t), Name("topic")
	c := Open(t, b.Addr(), Clean(5, Name("c")))
	limit, ok := c.Connack.Props.Find(ReceiveMaximum)
	if !ok {
		if IsEmanet() {
			t.Fatal("CONNACK announces no receive maximum")
		}
		t.Skip("this broker announces no receive maximum")
	}
	for i := range limit.Int + 1 {
		c.Send(Packet{Type: PUBLISH, QoS: 2, ID: uint16(i + 1), Topic: topic, Payload: []byte("x")})
	}
	if last := c.ExpectClosed(); last.Type != DISCONNECT || last.Code != 0x93 {
		t.Errorf("%d unreleased messages of %d ended with %v, not 0x93 [MQTT-3.3.4-7]", limit.Int+1, limit.Int, last)
	}
}

func TestTheBrokerSendsNothingLargerThanTheClientsMaximumPacketSize(t *testing.T) {
	t.Parallel()
	b, topic := Shared(t), Name("topic")
	connect := Clean(5, Name("c"))
	connect.Props = Props{Num(MaximumPacketSize, 200), Num(ReceiveMaximum, 1)}
	c := Open(t, b.Addr(), connect)
	c.Subscribe(To(topic, 1))
	p := Open(t, b.Addr(), Clean(5, Name("p")))
	for range 3 {
		p.Publish(topic, strings.Repeat("x", 300), 1)
	}
	p.Publish(topic, "small", 1)
	c.ExpectPublish(topic, "small") // [MQTT-3.1.2-24], [MQTT-3.1.2-25]: as if the large ones had been delivered
}

func TestAPacketLargerThanTheBrokersMaximumEndsTheConnectionBeforeItIsRead(t *testing.T) { // [MQTT-3.2.2-15]
	OnlyEmanet(t)
	t.Parallel()
	b := Shared(t)
	c := Open(t, b.Addr(), Clean(5, Name("c")))
	limit, ok := c.Connack.Props.Find(MaximumPacketSize)
	if !ok {
		t.Fatal("CONNACK announces no maximum packet size")
	}
	header := []byte{PUBLISH << 4}
	for n := limit.Int; ; n >>= 7 { // remaining length = the limit, so that the packet is larger
		if n < 128 {
			header = append(header, byte(n))
			break
		}
		header = append(header, byte(n)|128)
	}
	c.Write(header)
	if last := c.ExpectClosed(); last.Code != 0x95 {
		t.Errorf("ended with %v, not 0x95", last)
	}
}

func TestAMessageOfTheLargestSizeGoesThrough(t *testing.T) {
	OnlyEmanet(t)
	t.Parallel()
	b := Start(t)
	keeper := Open(t, b.Addr(), Persistent(5, "keeper"))
	keeper.Subscribe(To("t", 1))
	limit, _ := keeper.Connack.Props.Find(MaximumPacketSize)
	keeper.Disconnect()
	payload := strings.Repeat("0123456789abcdef", int(limit.Int)/16-16)
	p := Open(t, b.Addr(), Clean(5, "p"))
	if ack := p.Publish("t", payload, 1); ack.Code != 0 {
		t.Fatalf("a message just below the limit was answered by %v", ack)
	}
	b.Kill9()
	b.Restart()
	keeper = Open(t, b.Addr(), Persistent(5, "keeper"))
	if m := keeper.Expect(PUBLISH); string(m.Payload) != payload {
		t.Errorf("%d bytes came back of %d", len(m.Payload), len(payload))
	}
}

// A subscriber that stops acknowledging gets as much as it said it takes and not one message more, and nobody else waits
// for it. When it acknowledges again everything comes, in order.
func TestASubscriberThatStopsAcknowledgingStopsTheFlowToItselfAlone(t *testing.T) { // [MQTT-3.3.4-9]
	OnlyEmanet(t) // Mosquitto 2.0 sends one too many at QoS 2
	t.Parallel()
	b, topic := Shared(t), Name("topic")
	const window, messages = 7, 200
	for _, qos := range []byte{1, 2} {
		connect := Persistent(5, Name("mute"))
		connect.Props = append(connect.Props, Num(ReceiveMaximum, window))
		mute, other := Open(t, b.Addr(), connect), Open(t, b.Addr(), Clean(5, Name("other")))
		mute.Subscribe(To(topic, qos))
		other.Subscribe(To(topic, qos))
		p := Open(t, b.Addr(), Clean(5, Name("p")))
		for i := range messages {
			p.Publish(topic, fmt.Sprint(i), qos)
			m := other.ExpectPublish(topic, fmt.Sprint(i))
			settle(t, other, m)
		}
		var unsettled []Packet
		for i := range window {
			unsettled = append(unsettled, mute.ExpectPublish(topic, fmt.Sprint(i)))
		}
		mute.Ping() // nothing is on its way
		for i := window; i < messages; i++ {
			settle(t, mute, unsettled[0])
			unsettled = append(unsettled[1:], mute.ExpectPublish(topic, fmt.Sprint(i)))
		}
		for _, m := range unsettled {
			settle(t, mute, m)
		}
		mute.Ping()
		mute.Disconnect()
		mute = Open(t, b.Addr(), connect)
		mute.Ping() // nothing is left
	}
}

// settle ends the handshake of a PUBLISH. Nothing else may come meanwhile.
func settle(t *testing.T, c *Client, m Packet) {
	t.Helper()
	switch m.QoS {
	case 1:
		c.Ack(m)
	case 2:
		c.Send(Packet{Type: PUBREC, ID: m.ID})
		if rel := c.Expect(PUBREL); rel.ID != m.ID {
			t.Fatalf("the PUBREL to PUBREC %d is %v", m.ID, rel)
		}
		c.Send(Packet{Type: PUBCOMP, ID: m.ID})
	}
}

// A PUBREC that refuses ends its handshake: the place is free for the next message, and the refused one never comes again.
func TestARefusingPubrecFreesItsPlace(t *testing.T) { // [MQTT-4.4.0-2]
	t.Parallel()
	b, topic := Shared(t), Name("topic")
	connect := Persistent(5, Name("c"))
	connect.Props = append(connect.Props, Num(ReceiveMaximum, 1))
	c := Open(t, b.Addr(), connect)
	c.Subscribe(To(topic, 2))
	p := Open(t, b.Addr(), Clean(5, Name("p")))
	for i := range 20 {
		p.Publish(topic, fmt.Sprint(i), 2)
	}
	for i, code := range []byte{0x80, 0x83, 0x87, 0x90, 0x97, 0x99} {
		m := c.ExpectPublish(topic, fmt.Sprint(i))
		c.Send(Packet{Type: PUBREC, ID: m.ID, Code: code})
	}
	last := c.ExpectPublish(topic, "6")
	c.Ping()
	c.Drop()
	c = Open(t, b.Addr(), connect)
	if m := c.ExpectPublish(topic, "6"); !m.Dup || m.ID != last.ID {
		t.Errorf("on the next connection %v comes first, not the one that was in flight", m)
	}
}

func TestMessagesAboveAClientsMaximumPacketSizeAreCounted(t *testing.T) { // [MQTT-3.1.2-25]
	OnlyEmanet(t)
	t.Parallel()
	b := Start(t)
	for _, qos := range []byte{0, 1, 2} {
		connect := Persistent(5, fmt.Sprint("c", qos))
		connect.Props = append(connect.Props, Num(MaximumPacketSize, 100), Num(ReceiveMaximum, 1))
		c, large := Open(t, b.Addr(), connect), Open(t, b.Addr(), Clean(5, fmt.Sprint("large", qos)))
		c.Subscribe(To("t", qos))
		large.Subscribe(To("t", qos))
		p := Open(t, b.Addr(), Clean(5, fmt.Sprint("p", qos)))
		for i := range 5 {
			p.Publish("t", strings.Repeat("x", 100), qos)
			p.Publish("t", fmt.Sprint(i), qos)
		}
		for i := range 5 {
			if m := large.Expect(PUBLISH); len(m.Payload) != 100 {
				t.Fatalf("others got %v", m)
			}
			large.ExpectPublish("t", fmt.Sprint(i))
			settle(t, c, c.ExpectPublish("t", fmt.Sprint(i)))
		}
		c.Ping()
		c.Disconnect()
		large.Disconnect()
		Eventually(t, "5 messages were counted as too large", func() bool {
			return b.Metrics()["emanet_mqtt_too_large_dropped_total"] == float64(5*(qos+1))
		})
		Open(t, b.Addr(), connect).Ping() // and none of them waits
		c = Open(t, b.Addr(), connect)
		c.Write(UnsubscribeBytes(5, c.NextID(), "t"))
		c.Expect(UNSUBACK)
	}
}
