package e2e

import (
	"fmt"
	"testing"

	. "emanet/e2e/harness"
)

// arrived reads all that the broker has sent to a client up to now.
func arrived(c *Client) (got []Packet) {
	c.Send(Packet{Type: PINGREQ})
	for {
		p := c.Read()
		if p.Type == PINGRESP {
			return got
		}
		got = append(got, p)
	}
}

// chosen waits until one of two members has got the one message that is on its way.
func chosen(t *testing.T, members [2]*Client) (who int, m Packet) {
	t.Helper()
	Eventually(t, "a member gets the message", func() bool {
		for i, c := range members {
			if got := arrived(c); len(got) > 0 {
				who, m = i, got[0]
				return true
			}
		}
		return false
	})
	if m.Type != PUBLISH {
		t.Fatalf("unexpected %v", m)
	}
	if more := arrived(members[1-who]); len(more) > 0 {
		t.Fatalf("both got it: %v and %v", m, more)
	}
	return who, m
}

// group makes two members of a group, both of which keep their sessions, and have a will at goneTopic.
func group(t *testing.T, b *Broker, topic string) (connects [2]Connect, members [2]*Client) {
	for i := range members {
		connects[i] = Persistent(5, Name("member"))
		connects[i].Will = &Will{Topic: goneTopic(topic)}
		members[i] = Open(t, b.Addr(), connects[i])
		if got := members[i].Subscribe(To("$share/g/"+topic, 2)); got[0] != 2 {
			t.Fatalf("granted %x", got)
		}
	}
	return connects, members
}

func goneTopic(topic string) string { return topic + "/gone" }

// onlyTheNextComesTo publishes until the member gets a message, which must be the first that it gets.
func onlyTheNextComesTo(t *testing.T, p *Client, topic string, members [2]*Client, which int) {
	t.Helper()
	for range 10 {
		p.Publish(topic, "next", 2)
		who, m := chosen(t, members)
		if string(m.Payload) != "next" {
			t.Errorf("a member got %v", m)
		}
		finish(members[who], m)
		if who == which {
			return
		}
	}
	t.Error("ten messages went to the other member")
}

func TestAMemberGetsNoMoreThanTheQoSItWasGranted(t *testing.T) { // [MQTT-4.8.2-3] [MQTT-3.8.4-8]
	OnlyEmanet(t)
	t.Parallel()
	b, topic := Shared(t), Name("topic")
	var members [3]*Client
	for qos := range members {
		members[qos] = Open(t, b.Addr(), Clean(5, Name("member")))
		members[qos].Subscribe(To("$share/g/"+topic, byte(qos)))
	}
	p := Open(t, b.Addr(), Clean(5, Name("p")))
	const messages = 12
	for i := range messages {
		p.Publish(topic, fmt.Sprint(i), 2)
	}
	seen := map[string]bool{}
	Eventually(t, "every message reaches a member", func() bool {
		for granted, c := range members {
			for _, m := range arrived(c) {
				if m.QoS != byte(granted) || seen[string(m.Payload)] {
					t.Errorf("%v came to a member that was granted QoS %d", m, granted)
				}
				seen[string(m.Payload)] = true
			}
		}
		return len(seen) == messages
	})
}

func TestAQoS2DeliveryThatWasCutOffIsTheSameMembersAlone(t *testing.T) {
	OnlyEmanet(t)
	t.Parallel()
	b, topic := Shared(t), Name("topic")
	connects, members := group(t, b, topic)
	p, watcher := Open(t, b.Addr(), Clean(5, Name("p"))), Open(t, b.Addr(), Clean(5, Name("watcher")))
	watcher.Subscribe(To(goneTopic(topic), 0))

	p.Publish(topic, "completed", 2)
	who, m := chosen(t, members)
	members[who].Drop()
	watcher.ExpectPublish(goneTopic(topic), "")
	p.Publish(topic, "next", 2)
	finish(members[1-who], members[1-who].ExpectPublish(topic, "next"))
	members[who] = Open(t, b.Addr(), connects[who])
	again := members[who].ExpectPublish(topic, "completed") // [MQTT-4.8.2-4]
	if again.ID != m.ID || !again.Dup {
		t.Errorf("%v came again as %v", m, again)
	}
	finish(members[who], again)

	p.Publish(topic, "given up", 2)
	who, _ = chosen(t, members)
	members[who].Drop()
	clean := connects[who]
	clean.Clean = true
	Open(t, b.Addr(), clean).Disconnect() // its session ends
	p.Publish(topic, "next", 2)
	members[1-who].ExpectPublish(topic, "next") // and not what was another's [MQTT-4.8.2-5]
}

func TestAMessageThatAMemberRefusesGoesToNoOther(t *testing.T) { // [MQTT-4.8.2-6] [MQTT-4.4.0-2]
	OnlyEmanet(t)
	t.Parallel()
	b, topic := Shared(t), Name("topic")
	connects, members := group(t, b, topic)
	p := Open(t, b.Addr(), Clean(5, Name("p")))
	for _, qos := range []byte{1, 2} {
		p.Publish(topic, "refused", qos)
		who, m := chosen(t, members)
		kind := map[byte]byte{1: PUBACK, 2: PUBREC}[qos]
		members[who].Send(Packet{Type: kind, ID: m.ID, Code: 0x83})
		members[who].Ping()
		onlyTheNextComesTo(t, p, topic, members, 1-who)
		members[who].Drop()
		members[who] = Open(t, b.Addr(), connects[who])
		members[who].Ping()
	}
}

func TestASharedSubscriptionNeedsANameAndAFilter(t *testing.T) {
	OnlyEmanet(t)
	t.Parallel()
	b := Shared(t)
	c := Open(t, b.Addr(), Clean(5, Name("c")))
	// [MQTT-4.8.2-1] [MQTT-4.8.2-2]
	for _, filter := range []string{"$share/", "$share//a", "$share/g", "$share/g/", "$share/+/a", "$share/#/a", "$share/g+/a", "$share/g#/a", "$share/g/a/#/b"} {
		if got := c.Subscribe(To(filter, 0)); got[0] < 0x80 {
			t.Errorf("%q was granted %x", filter, got)
		}
	}
	c.Write(SubscribeBytes(5, 9, nil, To("$share/g/a", NoLocal)))
	if last := c.ExpectClosed(); last.Code != 0x82 {
		t.Errorf("no-local on a shared subscription ended with %v, not 0x82 [MQTT-3.8.3-4]", last)
	}
}
