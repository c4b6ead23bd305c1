package e2e

import (
	"testing"

	. "emanet/e2e/harness"
)

// Tests of this file look at the broker from below: what it asks of the kernel before it answers.

func TestEveryLoneAcknowledgedDurablePublishHasItsFlush(t *testing.T) {
	OnlyEmanet(t) // Mosquitto makes none
	t.Parallel()
	b := Start(t)
	keeper := Open(t, b.Addr(), Persistent(4, "keeper"))
	keeper.Subscribe(To("durable", 2))
	keeper.Disconnect()
	probe := Open(t, b.Addr(), Clean(4, "probe"))
	flushes := WatchFlushes(t, b)
	for _, qos := range []byte{1, 2} {
		for i := range 20 {
			before := flushes.Journal()
			probe.Publish("durable", "x", qos)
			if after := flushes.Journal(); after <= before {
				t.Fatalf("publish %d at QoS %d was acknowledged without a flush", i, qos)
			}
		}
	}
	for range 20 {
		before := flushes.Journal()
		probe.PublishPacket(Packet{Topic: "kept", Payload: []byte("x"), QoS: 1, Retain: true})
		if flushes.Journal() <= before {
			t.Fatal("a retained value was acknowledged without a flush")
		}
	}
}

func TestAPublishWithoutDurableRecipientMakesNoFlush(t *testing.T) {
	t.Parallel()
	b := Start(t)
	listener := Open(t, b.Addr(), Clean(4, "listener"))
	listener.Subscribe(To("passing", 1))
	probe := Open(t, b.Addr(), Clean(4, "probe"))
	flushes := WatchFlushes(t, b)
	probe.Publish("nobody", "x", 1)
	before := flushes.Journal()
	for range 200 {
		probe.Publish("passing", "x", 1)
		listener.Ack(listener.ExpectPublish("passing", "x"))
		probe.Publish("nobody", "x", 1)
	}
	if n := flushes.Journal() - before; n != 0 {
		t.Errorf("%d flushes of the journal for 400 messages without a durable recipient", n)
	}
}

func TestTheSessionIsOnDiskBeforeItsCONNACKAndItsSUBACK(t *testing.T) {
	OnlyEmanet(t)
	t.Parallel()
	b := Start(t)
	flushes := WatchFlushes(t, b)
	before := flushes.Journal()
	keeper := Open(t, b.Addr(), Persistent(5, "keeper"))
	connected := flushes.Journal()
	if connected == before {
		t.Error("CONNACK of a new persistent session without a flush")
	}
	keeper.Subscribe(To("a", 1))
	subscribed := flushes.Journal()
	if subscribed == connected {
		t.Error("SUBACK of a persistent session without a flush")
	}
	keeper.Write(UnsubscribeBytes(5, keeper.NextID(), "a"))
	keeper.Expect(UNSUBACK)
	if flushes.Journal() == subscribed {
		t.Error("UNSUBACK of a persistent session without a flush")
	}
}
