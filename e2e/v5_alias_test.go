package e2e

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/eclipse/paho.golang/paho"
	"github.com/eclipse/paho.golang/paho/extensions/topicaliases"

	. "emanet/e2e/harness"
)

// The topics here are so long that the broker's count of bytes tells whether aliases were used.
var longTopic = "plant/" + strings.Repeat("a-long-level/", 15) + "end"

const aliasedMessages = 40

// bytesOf says how many bytes the broker has received and sent while f ran.
func bytesOf(b *Broker, f func()) (in, out float64) {
	before := b.Metrics()
	f()
	after := b.Metrics()
	of := func(name string) float64 { return after[name] - before[name] }
	return of("emanet_mqtt_bytes_in_total"), of("emanet_mqtt_bytes_out_total")
}

// lessThanTopics judges bytes: half of what the topics alone would take.
func lessThanTopics(t *testing.T, what string, bytes float64) {
	t.Helper()
	if most := float64(aliasedMessages * len(longTopic) / 2); bytes > most {
		t.Errorf("%.0f bytes %s for %d messages on a topic of %d: aliases were not used", bytes, what, aliasedMessages, len(longTopic))
	}
}

func TestMQTTJSUsesTopicAliasesBothWays(t *testing.T) {
	OnlyEmanet(t)
	t.Parallel()
	b := Start(t)
	var got, want []string
	in, out := bytesOf(b, func() {
		got = RunNode(t, "alias.js", b.Addr(), "js", longTopic, strconv.Itoa(aliasedMessages))
	})
	for i := range aliasedMessages {
		want = append(want, fmt.Sprintf("%s/%s %d", longTopic, []string{"a", "b"}[i%2], i))
	}
	if !slices.Equal(got, want) {
		t.Errorf("MQTT.js received %q", got)
	}
	lessThanTopics(t, "received", in)
	lessThanTopics(t, "sent", out)
}

func TestPahoPythonPublishesByTopicAlias(t *testing.T) {
	OnlyEmanet(t)
	t.Parallel()
	b := Start(t)
	s := Open(t, b.Addr(), Clean(5, "s"))
	s.Subscribe(To("plant/#", 0))
	in, _ := bytesOf(b, func() {
		RunPython(t, "alias.py", b.Addr(), "py", longTopic, strconv.Itoa(aliasedMessages))
	})
	for i := range aliasedMessages {
		if p := s.ExpectPublish(longTopic, strconv.Itoa(i)); len(p.Props) > 0 {
			t.Fatalf("message %d has %v", i, p.Props)
		}
	}
	lessThanTopics(t, "received", in)
}

func TestPahoGolangUsesTopicAliasesBothWays(t *testing.T) {
	OnlyEmanet(t)
	t.Parallel()
	b := Start(t)
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	packetsIn := make(chan *paho.Publish, aliasedMessages)
	sub, _ := PahoGolang(t, b.Addr(), &paho.Connect{ClientID: "sub", CleanStart: true, KeepAlive: 30,
		Properties: &paho.ConnectProperties{TopicAliasMaximum: ptr(uint16(3))}}, packetsIn)
	if _, err := sub.Subscribe(ctx, &paho.Subscribe{Subscriptions: []paho.SubscribeOptions{{Topic: "plant/#", QoS: 1}}}); err != nil {
		t.Fatal(err)
	}
	pub, ack := PahoGolang(t, b.Addr(), &paho.Connect{ClientID: "pub", CleanStart: true, KeepAlive: 30}, nil)
	if ack.Properties.TopicAliasMaximum == nil {
		t.Fatal("CONNACK offers no topic aliases")
	}
	aliases := topicaliases.NewTAHandler(*ack.Properties.TopicAliasMaximum)
	var got []string
	router := paho.NewStandardRouter() // finds its handlers by what an alias stands for, and hands on the packet as it came
	router.RegisterHandler(longTopic, func(p *paho.Publish) { got = append(got, string(p.Payload)) })
	in, out := bytesOf(b, func() {
		for i := range aliasedMessages {
			p := &paho.Publish{Topic: longTopic, QoS: 1, Payload: []byte(strconv.Itoa(i))}
			aliases.PublishHook(p)
			if _, err := pub.Publish(ctx, p); err != nil {
				t.Fatal(err)
			}
			router.Route(receive(t, packetsIn).Packet())
		}
	})
	for i := range aliasedMessages {
		if i >= len(got) || got[i] != strconv.Itoa(i) {
			t.Fatalf("paho.golang received %q", got)
		}
	}
	lessThanTopics(t, "received", in)
	lessThanTopics(t, "sent", out)
}

// aliasReader is what a client makes of aliases.
type aliasReader map[uint32]string

func (a aliasReader) topic(p Packet) string {
	alias, ok := p.Props.Find(TopicAlias)
	switch {
	case !ok:
		return p.Topic
	case p.Topic != "":
		a[alias.Int] = p.Topic
	}
	return a[alias.Int]
}

// Resends after a crash, retained messages, wills and live messages come under aliases of the connection they come on.
func TestAliasesBeginAnewAfterAKilledBroker(t *testing.T) {
	OnlyEmanet(t)
	t.Parallel()
	b := Start(t)
	session := Persistent(5, "s")
	session.Props = append(session.Props, Num(TopicAliasMaximum, 2))
	s := Open(t, b.Addr(), session)
	s.Subscribe(To("alias/#", 1))
	p := Open(t, b.Addr(), Clean(5, "p"))
	topics := []string{"alias/one", "alias/two", "alias/three"}
	for i := range 30 {
		topic := topics[i%3]
		p.PublishPacket(Packet{Topic: topic, Payload: []byte(topic), QoS: 1, Retain: i > 26})
	}
	read := func(c *Client, count int) (byAlias int) {
		t.Helper()
		known := aliasReader{}
		for range count {
			m := c.Expect(PUBLISH)
			if topic := known.topic(m); topic != string(m.Payload) {
				t.Fatalf("a message on %q says %q", topic, m.Payload)
			}
			if m.Topic == "" {
				byAlias++
			}
		}
		return byAlias
	}
	before := read(s, 30)
	b.Kill9()
	b.Restart()
	s = Open(t, b.Addr(), session)
	again := read(s, 30)
	if before < 15 || again < 15 {
		t.Errorf("%d messages came by alias, and %d after the crash", before, again)
	}
	v := session
	v.ClientID = "v"
	viewer := Open(t, b.Addr(), v)
	viewer.Subscribe(To("alias/#", 0))
	read(viewer, 3) // the retained ones
	will := Clean(5, "w")
	will.Will = &Will{Topic: "alias/one", Payload: "alias/one"}
	for range 3 {
		c := Open(t, b.Addr(), will)
		c.Drop()
	}
	read(viewer, 3)
}
