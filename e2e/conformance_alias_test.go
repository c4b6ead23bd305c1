package e2e

import (
	"fmt"
	"testing"

	. "emanet/e2e/harness"
)

func TestEveryTopicAliasUpToTheServersMaximumIsTaken(t *testing.T) {
	OnlyEmanet(t)
	t.Parallel()
	b, base := Shared(t), Name("alias")
	s := Open(t, b.Addr(), Clean(5, Name("s")))
	s.Subscribe(To(base+"/#", 0))
	connect := Persistent(5, Name("p"))
	p := Open(t, b.Addr(), connect)
	limit, ok := p.Connack.Props.Find(TopicAliasMaximum)
	if !ok || limit.Int == 0 {
		t.Fatal("CONNACK offers no topic aliases")
	}
	used := []uint32{1, 2, limit.Int - 1, limit.Int} // [MQTT-3.3.2-12]
	for _, alias := range used {
		p.Send(Packet{Type: PUBLISH, Topic: fmt.Sprint(base, "/", alias), Props: Props{Num(TopicAlias, alias)}})
		s.ExpectPublish(fmt.Sprint(base, "/", alias), "")
	}
	for _, alias := range used {
		p.Send(Packet{Type: PUBLISH, Payload: []byte("by its alias"), Props: Props{Num(TopicAlias, alias)}})
		s.ExpectPublish(fmt.Sprint(base, "/", alias), "by its alias")
	}
	p.Send(Packet{Type: PUBLISH, Topic: base, Props: Props{Num(TopicAlias, limit.Int+1)}})
	if last := p.ExpectClosed(); limit.Int < 65_535 && last.Code != 0x94 {
		t.Errorf("an alias above the maximum ended with %v, not 0x94 [MQTT-3.2.2-17] [MQTT-3.3.2-9]", last)
	}
	p = Open(t, b.Addr(), connect) // the session goes on, its aliases do not [MQTT-3.3.2-7]
	p.Send(Packet{Type: PUBLISH, Payload: []byte("by a stale alias"), Props: Props{Num(TopicAlias, 1)}})
	if last := p.ExpectClosed(); last.Code != 0x82 {
		t.Errorf("an alias of the connection before ended with %v, not 0x82 [MQTT-3.3.2-7]", last)
	}
	expectNothingBefore(t, b, s, base+"/end")
}

func TestTheServersTopicAliasesKeepToTheClientsMaximum(t *testing.T) {
	t.Parallel()
	b, base := Shared(t), Name("alias")
	clients := map[uint32]*Client{}
	for _, most := range []uint32{0, 1, 3} {
		connect := Clean(5, Name("s"))
		if most > 0 {
			connect.Props = Props{Num(TopicAliasMaximum, most)}
		}
		clients[most] = Open(t, b.Addr(), connect)
		clients[most].Subscribe(To(base+"/#", 0))
	}
	p := Open(t, b.Addr(), Clean(5, Name("p")))
	var topics []string
	for round := range 8 {
		for n := range 5 {
			topic := fmt.Sprint(base, "/", n, "/of a name worth an alias")
			p.Publish(topic, fmt.Sprint(round), 1)
			topics = append(topics, topic)
		}
	}
	for most, c := range clients {
		known, aliases := map[uint32]string{}, 0
		for i, want := range topics {
			m := c.Expect(PUBLISH)
			topic := m.Topic
			if alias, ok := m.Props.Find(TopicAlias); ok {
				if aliases++; alias.Int > most {
					t.Fatalf("alias %d for a client that takes %d [MQTT-3.1.2-26] [MQTT-3.1.2-27] [MQTT-3.3.2-11]", alias.Int, most)
				}
				if topic == "" {
					topic = known[alias.Int]
				}
				known[alias.Int] = topic
			}
			if topic != want {
				t.Fatalf("message %d came under %q, not %q", i, topic, want)
			}
		}
		if most > 0 && aliases == 0 && IsEmanet() {
			t.Errorf("no alias was used of %d", most)
		}
	}
}
