package e2e

import (
	"fmt"
	"testing"

	. "emanet/e2e/harness"
)

func TestMessagesDroppedByTheBoundDoNotComeBackAfterACrash(t *testing.T) {
	OnlyEmanet(t) // Mosquitto drops the newest
	t.Parallel()
	const bound, published = 10, 25
	b := Start(t, "--mqtt-max-queued", fmt.Sprint(bound))
	keeper := Open(t, b.Addr(), Persistent(4, "keeper"))
	keeper.Subscribe(To("t", 1))
	keeper.Disconnect()
	probe := Open(t, b.Addr(), Clean(4, "probe"))
	for i := range published {
		probe.Publish("t", fmt.Sprint(i), 1)
	}
	b.Kill9()
	b.Restart()
	if _, pending, _ := b.Recovered(); pending != bound {
		t.Errorf("the log says %d pending messages, not %d", pending, bound)
	}
	keeper = Open(t, b.Addr(), Persistent(4, "keeper"))
	for i := published - bound; i < published; i++ {
		keeper.Ack(keeper.ExpectPublish("t", fmt.Sprint(i)))
	}
	expectNothingBefore(t, b, keeper, "t")
}

// An outgoing packet id is the entry's seq mod 65535, plus 1: ids that go on tell of seqs that go on.
func TestAMailboxEmptiedBeforeACrashContinuesItsSeq(t *testing.T) {
	OnlyEmanet(t)
	t.Parallel()
	b := Start(t)
	keeper := Open(t, b.Addr(), Persistent(4, "keeper"))
	keeper.Subscribe(To("t", 1))
	probe := Open(t, b.Addr(), Clean(4, "probe"))
	var first uint16
	for i := range 3 {
		probe.Publish("t", fmt.Sprint(i), 1)
		p := keeper.ExpectPublish("t", fmt.Sprint(i))
		if i == 0 {
			first = p.ID
		} else if p.ID != first+uint16(i) {
			t.Fatalf("ids are not dense: %d is the %d. after %d", p.ID, i, first)
		}
		keeper.Ack(p)
	}
	for crash := range 2 {
		keeper.Ping()
		b.Flush()
		b.Kill9()
		b.Restart()
		keeper = Open(t, b.Addr(), Persistent(4, "keeper"))
		p := expectNothingBefore(t, b, keeper, "t")
		if want := first + 3 + uint16(crash); p.ID != want {
			t.Errorf("after crash %d the id is %d, not %d", crash+1, p.ID, want)
		}
		keeper.Ack(p)
	}
}

// The id of a message that is still in flight must not be given to another one, 65,535 messages later.
func TestPacketIDsWrapAroundOneThatIsStillInFlight(t *testing.T) {
	OnlyEmanet(t)
	t.Parallel()
	const ids, published = 65_535, 65_600
	b := Start(t)
	keeper := Open(t, b.Addr(), Persistent(4, "keeper"))
	keeper.Subscribe(To("t", 1))
	publishAll(t, b, "t", published)

	first := keeper.ExpectPublish("t", "0")
	for i := 1; i < ids; i++ {
		p := keeper.ExpectPublish("t", fmt.Sprint(i))
		if p.ID == first.ID {
			t.Fatalf("message %d took id %d, which is in flight [MQTT311-2.3.1-4]", i, p.ID)
		}
		keeper.Ack(p)
	}
	for range 3 { // the next message's id is taken: only the answers may come
		keeper.Ping()
	}
	keeper.Ack(first)
	for i := ids; i < published; i++ {
		p := keeper.ExpectPublish("t", fmt.Sprint(i))
		if i == ids && p.ID != first.ID {
			t.Errorf("after the wrap the id is %d, not %d again", p.ID, first.ID)
		}
		keeper.Ack(p)
	}
}

// publishAll publishes "0", "1", … at QoS 1, 500 in flight, and waits for all acknowledgements.
func publishAll(t *testing.T, b *Broker, topic string, count int) {
	t.Helper()
	probe := Open(t, b.Addr(), Clean(4, Name("probe")))
	acked := 0
	for i := range count {
		probe.Send(Packet{Type: PUBLISH, Topic: topic, Payload: fmt.Append(nil, i), QoS: 1, ID: uint16(i%65_535) + 1})
		for ; i-acked >= 500; acked++ {
			probe.Expect(PUBACK)
		}
	}
	for ; acked < count; acked++ {
		probe.Expect(PUBACK)
	}
	probe.Disconnect()
}
