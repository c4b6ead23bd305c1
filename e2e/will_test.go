package e2e

import (
	"testing"
	"time"

	. "emanet/e2e/harness"
)

func mourner(t *testing.T, b *Broker, topic string) *Client {
	t.Helper()
	c := Open(t, b.Addr(), Clean(5, Name("mourner")))
	c.Subscribe(To(topic, 1))
	return c
}

func TestAWillIsSentWhenTheConnectionIsLostAndNotAfterDisconnect(t *testing.T) {
	t.Parallel()
	for _, version := range []byte{4, 5} {
		b, topic := Shared(t), Name("will")
		m := mourner(t, b, topic)
		connect := Clean(version, Name("c"))
		connect.Will = &Will{Topic: topic, Payload: "gone", QoS: 1, Retain: true}
		Open(t, b.Addr(), connect).Disconnect() // [MQTT-3.14.4-3] [MQTT311-3.14.4-3]
		expectNothingBefore(t, b, m, topic)
		Open(t, b.Addr(), connect).Drop()
		m.ExpectPublish(topic, "gone") // [MQTT-3.1.2-8] [MQTT311-3.1.2-8]
		v := Open(t, b.Addr(), Clean(version, Name("v")))
		v.Subscribe(To(topic, 0))
		if p := v.ExpectPublish(topic, "gone"); !p.Retain {
			t.Errorf("a retained will is not retained: %v [MQTT-3.1.2-15] [MQTT311-3.1.2-17]", p)
		}
	}
}

func TestDisconnectWithWillSendsTheWill(t *testing.T) { // [MQTT-3.1.2-8] [MQTT-3.1.3-10]
	t.Parallel()
	b, topic := Shared(t), Name("will")
	m := mourner(t, b, topic)
	connect := Clean(5, Name("c"))
	connect.Will = &Will{Topic: topic, Payload: "gone", Props: everyProperty}
	c := Open(t, b.Addr(), connect)
	c.Send(Packet{Type: DISCONNECT, Code: 0x04})
	c.ExpectClosed()
	expectEveryProperty(t, m.ExpectPublish(topic, "gone"))
}

func TestAWillWaitsForItsDelayOrForTheEndOfItsSession(t *testing.T) {
	t.Parallel()
	b, topic := Shared(t), Name("will")
	m := mourner(t, b, topic)
	delayed := func(payload string, session uint32) Connect {
		c := expiring(Name("c"), session)
		c.Will = &Will{Topic: topic, Payload: payload, Props: Props{Num(WillDelay, 1)}}
		return c
	}
	// A client that is back before the delay is over is not mourned [MQTT-3.1.3-9].
	back := delayed("back", 100)
	Open(t, b.Addr(), back).Drop()
	returned := back
	returned.Will = nil
	Open(t, b.Addr(), returned)

	began := time.Now()
	Open(t, b.Addr(), delayed("delayed", 100)).Drop()
	Open(t, b.Addr(), delayed("at once", 0)).Drop()
	m.ExpectPublish(topic, "at once") // the session ends with the connection
	if took := time.Since(began); took > 900*time.Millisecond {
		t.Errorf("the will of a session that had ended took %v", took)
	}
	m.ExpectPublish(topic, "delayed")
	if took := time.Since(began); took < 900*time.Millisecond {
		t.Errorf("a will with a delay of 1 s came after %v", took)
	}
	expectNothingBefore(t, b, m, topic)
}

func TestAWillIsSentWhenTheBrokerWasKilledWithTheClientConnected(t *testing.T) { // [MQTT-3.1.2-7]
	OnlyEmanet(t)
	t.Parallel()
	b := Start(t)
	keeper := Open(t, b.Addr(), Persistent(5, "keeper"))
	keeper.Subscribe(To("will/#", 1))
	keeper.Disconnect()
	left := Persistent(5, "left")
	left.Will = &Will{Topic: "will/left", Payload: "gone", QoS: 1}
	Open(t, b.Addr(), left).Disconnect()
	clean := Clean(4, "clean")
	clean.Will = &Will{Topic: "will/clean", Payload: "gone", QoS: 1}
	Open(t, b.Addr(), clean)
	persistent := Persistent(5, "persistent")
	persistent.Will = &Will{Topic: "will/persistent", Payload: "gone", QoS: 1}
	Open(t, b.Addr(), persistent)
	b.Flush()
	b.Kill9()
	b.Restart()
	keeper = Open(t, b.Addr(), Persistent(5, "keeper"))
	got := map[string]bool{}
	for range 2 {
		p := keeper.Expect(PUBLISH)
		keeper.Ack(p)
		if got[p.Topic] {
			t.Errorf("%v came twice", p)
		}
		got[p.Topic] = true
	}
	if !got["will/clean"] || !got["will/persistent"] {
		t.Errorf("wills after the crash: %v", got)
	}
	expectNothingBefore(t, b, keeper, "will/end")
}
