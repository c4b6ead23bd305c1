package e2e

import (
	"fmt"
	"testing"

	. "emanet/e2e/harness"
)

// The promise in one story: what was acknowledged before the power went is there after it came back.
func TestColdRoomAlarmsSurviveAKilledBroker(t *testing.T) {
	for _, version := range []byte{4, 5} {
		t.Run(fmt.Sprintf("MQTT version %d", version), func(t *testing.T) {
			t.Parallel()
			b := Start(t)
			keeper := Open(t, b.Addr(), Persistent(version, "keeper"))
			if got := keeper.Subscribe(To("plant/+/alarm", 1)); len(got) != 1 || got[0] != 1 {
				t.Fatalf("granted %v", got)
			}
			keeper.Disconnect()

			probe := Open(t, b.Addr(), Clean(version, "probe"))
			for i := range 3 {
				probe.Publish("plant/cold-room/alarm", fmt.Sprintf("alarm %d", i), 1)
			}
			probe.PublishPacket(Packet{Topic: "plant/cold-room/status", Payload: []byte("-11 C"), QoS: 1, Retain: true})
			b.Kill9()

			b.Restart()
			if IsEmanet() {
				if sessions, pending, _ := b.Recovered(); sessions != 1 || pending != 3 {
					t.Errorf("the log says %d sessions and %d pending messages, not 1 and 3", sessions, pending)
				}
			}
			keeper = Open(t, b.Addr(), Persistent(version, "keeper"))
			if !keeper.Connack.SessionPresent {
				t.Fatal("the session is gone [MQTT-3.1.2-5] [MQTT-3.2.2-3] [MQTT311-3.1.2-4] [MQTT311-3.2.2-2]")
			}
			for i := range 3 {
				p := keeper.ExpectPublish("plant/cold-room/alarm", fmt.Sprintf("alarm %d", i))
				if p.Dup || p.QoS != 1 || p.Retain {
					t.Errorf("never sent before, yet %v [MQTT-4.3.2-2] [MQTT311-3.1.2-5]", p)
				}
				keeper.Ack(p)
			}
			visitor := Open(t, b.Addr(), Clean(version, "visitor"))
			visitor.Subscribe(To("plant/#", 1))
			if p := visitor.ExpectPublish("plant/cold-room/status", "-11 C"); !p.Retain {
				t.Errorf("the retained value came as %v [MQTT-3.3.1-5] [MQTT311-3.3.1-8]", p)
			}

			keeper.Ping() // the three acknowledgements have been read …
			b.Flush()     // … and are on disk
			b.Kill9()
			b.Restart()
			if IsEmanet() {
				if _, pending, _ := b.Recovered(); pending != 0 {
					t.Errorf("%d messages are pending although all were acknowledged", pending)
				}
			}
			keeper = Open(t, b.Addr(), Persistent(version, "keeper"))
			expectNothingBefore(t, b, keeper, "plant/cold-room/alarm")
		})
	}
}

// expectNothingBefore publishes one more message and expects it to be the next that the subscriber gets.
func expectNothingBefore(t *testing.T, b *Broker, subscriber *Client, topic string) Packet {
	t.Helper()
	sentinel := Name("sentinel")
	Open(t, b.Addr(), Clean(4, Name("after"))).Publish(topic, sentinel, 1)
	return subscriber.ExpectPublish(topic, sentinel)
}

func TestTheSamePayloadTwiceAcknowledgedOnceLeavesExactlyOne(t *testing.T) {
	t.Parallel()
	b := Start(t)
	keeper := Open(t, b.Addr(), Persistent(4, "keeper"))
	keeper.Subscribe(To("same", 1))
	probe := Open(t, b.Addr(), Clean(4, "probe"))
	probe.Publish("same", "alike", 1)
	probe.Publish("same", "alike", 1)

	first := keeper.ExpectPublish("same", "alike")
	second := keeper.ExpectPublish("same", "alike")
	if first.ID == second.ID {
		t.Fatalf("two messages share packet id %d [MQTT311-2.3.1-4]", first.ID)
	}
	keeper.Ack(first)
	keeper.Ping()
	b.Flush()
	b.Kill9()
	b.Restart()

	keeper = Open(t, b.Addr(), Persistent(4, "keeper"))
	again := keeper.ExpectPublish("same", "alike")
	if again.ID != second.ID || !again.Dup {
		t.Errorf("expected id %d again with DUP=1, got %v [MQTT311-4.4.0-1] [MQTT311-3.3.1-1]", second.ID, again)
	}
	keeper.Ack(again)
	expectNothingBefore(t, b, keeper, "same")
}

func TestARetainedValueThatWasDeletedStaysDeleted(t *testing.T) {
	t.Parallel()
	b := Start(t)
	probe := Open(t, b.Addr(), Clean(4, "probe"))
	for _, topic := range []string{"kept", "deleted", "replaced"} {
		probe.PublishPacket(Packet{Topic: "r/" + topic, Payload: []byte("first"), QoS: 1, Retain: true})
	}
	probe.PublishPacket(Packet{Topic: "r/deleted", QoS: 1, Retain: true}) // [MQTT311-3.3.1-10] [MQTT311-3.3.1-11]
	probe.PublishPacket(Packet{Topic: "r/replaced", Payload: []byte("second"), QoS: 1, Retain: true})
	b.Kill9()
	b.Restart()

	got := map[string]string{}
	visitor := Open(t, b.Addr(), Clean(4, "visitor"))
	visitor.Subscribe(To("r/+", 0))
	for range 2 {
		p := visitor.Expect(PUBLISH)
		got[p.Topic] = string(p.Payload)
	}
	if got["r/kept"] != "first" || got["r/replaced"] != "second" {
		t.Errorf("retained values after the restart: %v", got)
	}
	expectNothingBefore(t, b, visitor, "r/other")
}

func TestATerminatedBrokerKeepsEverythingAsWell(t *testing.T) {
	t.Parallel()
	b := Start(t)
	keeper := Open(t, b.Addr(), Persistent(5, "keeper"))
	keeper.Subscribe(To("t", 2))
	keeper.Disconnect()
	probe := Open(t, b.Addr(), Clean(5, "probe"))
	probe.Publish("t", "one", 1)
	probe.Publish("t", "two", 2)
	b.Terminate()
	if last := probe.ExpectClosed(); IsEmanet() && last.Code != 0x8B {
		t.Errorf("a client of MQTT 5 is told that the server shuts down: 0x8B, got %v", last)
	}
	b.Restart()
	keeper = Open(t, b.Addr(), Persistent(5, "keeper"))
	keeper.ExpectPublish("t", "one")
	keeper.ExpectPublish("t", "two")
}
