package mqttserver

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"emanet/internal/mqttwire"
)

func withAliases(n int) func(*rig) { return func(r *rig) { r.opt.TopicAliasMax = n } }

// aliased is a PUBLISH with a topic alias.
func aliased(qos int, id uint16, topic, payload string, alias int) []byte {
	return publish(qos, id, topic, payload, cat(0x23, uint16(alias)))
}

func TestATopicAliasStandsForTheTopicItWasGivenLast(t *testing.T) { // [MQTT-3.3.2-12]
	r := start(t, withAliases(2))
	sub, p := r.connect(v5live("s")), r.dial()
	sub.subscribe(5, "#", 0)
	if ack := p.greet(v5live("p")); !strings.Contains(string(ack), string(cat(0x22, uint16(2)))) {
		t.Fatalf("no topic alias maximum in %s", show(ack))
	}
	p.send(aliased(0, 0, "one", "1", 1), aliased(0, 0, "two", "2", 2), aliased(0, 0, "", "3", 1), aliased(0, 0, "", "4", 2),
		aliased(0, 0, "three", "5", 1), aliased(1, 7, "", "6", 1), aliased(2, 8, "", "7", 2), pub5(0, 0, "one", "8"), aliased(0, 0, "", "9", 1))
	for _, want := range []string{"one1", "two2", "one3", "two4", "three5", "three6", "two7", "one8", "three9"} {
		topic, payload := want[:len(want)-1], want[len(want)-1:]
		sub.expect(pub5(0, 0, topic, payload)) // the publisher's alias is not forwarded
	}
}

func TestAliasesThatCannotBeEndTheConnection(t *testing.T) {
	for _, test := range []struct {
		name string
		most int
		send []byte
		code int
	}{
		{"an alias where none is allowed", 0, aliased(0, 0, "t", "", 1), 0x94},                  // [MQTT-3.2.2-18] [MQTT-3.3.2-9]
		{"an alias alone where none is allowed", 0, aliased(0, 0, "", "", 1), 0x94},             // the same
		{"an alias above the maximum", 2, aliased(0, 0, "t", "", 3), 0x94},                      // the same
		{"alias 0", 2, aliased(0, 0, "t", "", 0), 0x94},                                         // [MQTT-3.3.2-8]
		{"an alias without a topic", 2, aliased(0, 0, "", "", 2), 0x82},                         // 3.3.2.3.4
		{"two aliases", 2, publish(0, 0, "t", "", cat(0x23, uint16(1), 0x23, uint16(1))), 0x82}, // 3.3.2.3.4
		{"a wildcard with an alias", 2, aliased(0, 0, "t/+", "", 1), 0x90},                      // [MQTT-3.3.2-2]
	} {
		t.Run(test.name, func(t *testing.T) {
			r := start(t, withAliases(test.most))
			p := r.connect(v5live("p"))
			p.send(test.send)
			p.goodbye(test.code)
		})
	}
}

func TestAliasesEndWithTheConnection(t *testing.T) { // [MQTT-3.3.2-7]
	r := start(t, withAliases(2))
	p := r.connect(v5("p"))
	p.send(aliased(1, 1, "t", "", 1))
	p.expect(ack(0x40, 1, 0x10))
	_ = p.nc.Close()
	p = r.connect(v5("p"))
	p.send(aliased(1, 1, "", "", 1))
	p.goodbye(0x82)
}

// A publish that is refused has given its alias a topic all the same: the client cannot take it back.
func TestAnAliasGivenByARefusedPublishIsKnown(t *testing.T) {
	r := start(t, withAliases(2))
	p := r.connect(v5live("p"))
	p.send(aliased(1, 1, "$SYS/a", "", 1), aliased(1, 2, "", "", 1))
	p.expect(ack(0x40, 1, 0x87), ack(0x40, 2, 0x87))
}

func TestPublishesByAliasThatWaitForRoomKeepTheirTopics(t *testing.T) {
	r := start(t, withAliases(1), crowded)
	keep(r, 1)
	p := r.connect(v5live("p"))
	release := r.holdFlushes()
	const n = 400 // with their payloads more than the journal takes before a flush
	go func() {
		for i := range n {
			topic := fmt.Sprintf("t/%d", i/2)
			if i%2 == 1 {
				topic = ""
			}
			if _, err := p.nc.Write(aliased(1, uint16(i+1), topic, kilobyte, 1)); err != nil {
				t.Error(err)
			}
		}
	}()
	r.eventually("a publish that waits", func() bool { return r.stats().StalledPublishes.Load() > 0 })
	release()
	for i := range n {
		p.expect(ack(0x40, uint16(i+1)))
	}
	sub := r.connect(v5("keeper"))
	for i := range n {
		got := sub.next()
		if want := fmt.Sprintf("t/%d", i/2); !strings.Contains(string(got), string(str(want))) {
			t.Fatalf("message %d is not on %s: %s", i, want, show(got[:20]))
		}
	}
}

func TestWhatAClientsAliasesRememberIsBounded(t *testing.T) {
	var a inboundAliases
	a.max = 100
	p := mqttwire.Publish{Topic: []byte(strings.Repeat("x", mqttTopicMax))}
	p.Props.Present = mqttwire.HasTopicAlias
	var err error
	for p.Props.TopicAlias = 1; err == nil && p.Props.TopicAlias <= a.max; p.Props.TopicAlias++ {
		err = a.resolve(&p)
	}
	if code := mqttwire.CodeOf(err); code != mqttwire.QuotaExceeded || a.bytes > 100*inboundAliasBytes {
		t.Errorf("%d bytes are kept, then %v", a.bytes, err)
	}
	p.Topic, p.Props.TopicAlias = []byte("short"), 1
	if err := a.resolve(&p); err != nil { // what is replaced does not count
		t.Error(err)
	}
}

// Random aliases against a plain table.
func TestAliasesAgreeWithATable(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	a, table := inboundAliases{max: 20}, map[uint16]string{}
	for range 20_000 {
		alias, topic := uint16(1+random.IntN(22)), ""
		if random.IntN(3) == 0 {
			topic = fmt.Sprint("t/", random.IntN(50))
		}
		p := mqttwire.Publish{Topic: []byte(topic)}
		p.Props.Present, p.Props.TopicAlias = mqttwire.HasTopicAlias, alias
		err := a.resolve(&p)
		known, ok := table[alias]
		switch {
		case alias > 20:
			if mqttwire.CodeOf(err) != mqttwire.TopicAliasInvalid {
				t.Fatal(err)
			}
			continue
		case topic == "" && !ok:
			if mqttwire.CodeOf(err) != mqttwire.ProtocolViolation {
				t.Fatal(err)
			}
			continue
		case topic != "":
			table[alias] = topic
			known = topic
		}
		if err != nil || string(p.Topic) != known {
			t.Fatalf("alias %d is %q, %v, expected %q", alias, p.Topic, err, known)
		}
	}
}

func TestARepeatedTopicAllocatesNothingWithItsAlias(t *testing.T) {
	a := inboundAliases{max: 1}
	p := mqttwire.Publish{Topic: []byte("a/topic")}
	p.Props.Present, p.Props.TopicAlias = mqttwire.HasTopicAlias, 1
	topic := p.Topic
	if n := testing.AllocsPerRun(100, func() {
		for _, p.Topic = range [][]byte{topic, nil} {
			if a.resolve(&p) != nil {
				t.Error("refused")
			}
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
