package mqttserver

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

func withAliasesOut(n int) func(*rig) { return func(r *rig) { r.opt.TopicAliasMaxOut = n } }

// aliasReader is what a client makes of topic aliases.
type aliasReader struct {
	testing.TB
	max    int
	topics map[int]string
	given  int // times an alias was given a topic
	used   int // times it stood for one
}

// read takes a PUBLISH of MQTT 5 apart and gives the topic that is meant.
func (a *aliasReader) read(packet []byte) (topic, payload string) {
	a.Helper()
	if len(packet) == 0 || packet[0]&0xF0 != 0x30 {
		a.Fatalf("%s is no PUBLISH", show(packet))
	}
	_, n := binary.Uvarint(packet[1:])
	b := packet[1+n:]
	cut := func(n int) []byte {
		out := b[:n]
		b = b[n:]
		return out
	}
	u16 := func() int { return int(binary.BigEndian.Uint16(cut(2))) }
	topic = string(cut(u16()))
	if packet[0]&6 != 0 {
		cut(2)
	}
	size, n := binary.Uvarint(b)
	cut(n)
	alias, end := 0, len(b)-int(size)
	for len(b) > end {
		switch id := cut(1)[0]; id {
		case 0x23:
			alias = u16()
		case 0x0B:
			cut(1)
		case 0x02:
			cut(4)
		case 0x26:
			cut(u16())
			cut(u16())
		default:
			a.Fatalf("property %#x in %s", id, show(packet))
		}
	}
	if alias != 0 {
		topic = a.resolve(alias, topic)
	}
	if topic == "" {
		a.Fatalf("a message without topic and alias: %s", show(packet))
	}
	return topic, string(b)
}

func (a *aliasReader) resolve(alias int, topic string) string {
	a.Helper()
	if alias > a.max {
		a.Fatalf("alias %d for a client that takes %d [MQTT-3.1.2-26] [MQTT-3.3.2-11]", alias, a.max)
	}
	if topic != "" {
		if a.topics == nil {
			a.topics = make(map[int]string)
		}
		a.topics[alias] = topic
		a.given++
		return topic
	}
	a.used++
	return a.topics[alias]
}

// TestWhoAppliesAliasesSeesEveryTopicAsItWasPublished has random traffic of three QoS, live and retained, some of it too
// large for the client, which now and then is cut off, or lets go, and resumes. Each payload begins with its topic.
func TestWhoAppliesAliasesSeesEveryTopicAsItWasPublished(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := start(t, withAliasesOut(6), func(r *rig) { r.broOpt.UnsentMax = 4 << 10 })
			random := rand.New(rand.NewPCG(seed, 7))
			hello := v5("s").with(0x22, uint16(4+random.IntN(4)), 0x27, uint32(300), 0x21, uint16(20))
			sub := r.connect(hello)
			sub.subscribe(5, "a/#", 2)
			sub.send(subscribe5(10, "a/+/twice", 1))
			sub.expect(pkt(0x90, uint16(10), 0, 1))
			pub := r.connect(v5live("p"))
			total := &aliasReader{}
			for range 6 {
				n, sent := 30+random.IntN(100), [3]int{}
				for i := range n {
					qos := random.IntN(3)
					sent[qos]++
					// Some topics are frequent, most are not.
					topic := fmt.Sprintf("a/room-%d/%s", int(random.ExpFloat64()*6), []string{"twice", "temperature"}[random.IntN(2)])
					payload := topic + strings.Repeat("!", random.IntN(330))
					packet := publish(qos, uint16(i+1), topic, payload, [][]byte{none, cat(0x02, uint32(100)), cat(0x26, str("k"), str("v"))}[random.IntN(3)])
					if random.IntN(10) == 0 {
						packet = retain(packet)
					}
					pub.send(packet)
				}
				in := &aliasReader{TB: t, max: min(6, int(hello.props[2]))}
				sub.settleAll(in, random.IntN(n))
				pub.finish(sent[1], sent[2])
				total.given, total.used = total.given+in.given, total.used+in.used
				_ = sub.nc.Close()
				r.eventually("the end of the connection", func() bool { return r.stats().Connections.Load() == 1 })
				sub = r.connect(hello)
				if random.IntN(2) == 0 {
					sub.send(subscribe5(11, "a/#", 2)) // retained messages as well
				}
			}
			t.Logf("%d aliases given, used %d times", total.given, total.used)
			if total.used == 0 || r.stats().TooLargeDropped.Load() == 0 {
				t.Errorf("aliases used %d times, %d messages too large: the test proves nothing", total.used, r.stats().TooLargeDropped.Load())
			}
		})
	}
}

// settleAll reads and acknowledges what comes until n messages were read or nothing more comes.
func (p *peer) settleAll(in *aliasReader, n int) {
	p.Helper()
	p.send(pingreq)
	for pinged := false; n > 0; {
		packet := p.next()
		switch packet[0] & 0xF0 {
		case 0x30:
			n--
			topic, payload := in.read(packet)
			if !strings.HasPrefix(payload, topic) || strings.Trim(payload[len(topic):], "!") != "" {
				p.Fatalf("a message on %q says %q", topic, payload)
			}
			if qos := packet[0] >> 1 & 3; qos > 0 {
				p.send(ack([]int{0x40, 0x50}[qos-1], packetIDOf(packet)))
			}
			pinged = false
		case 0x60:
			p.send(ack(0x70, binary.BigEndian.Uint16(packet[2:])))
		case 0xD0:
			if pinged { // nothing between two of them
				return
			}
			pinged = true
			p.send(pingreq)
		case 0x90:
		default:
			p.Fatalf("got %s", show(packet))
		}
	}
}

func packetIDOf(publish []byte) uint16 {
	_, n := binary.Uvarint(publish[1:])
	topic := int(binary.BigEndian.Uint16(publish[1+n:]))
	return binary.BigEndian.Uint16(publish[1+n+2+topic:])
}

// finish ends the handshakes of a publisher: so many of its publishes have QoS 1, so many QoS 2.
func (p *peer) finish(qos1, qos2 int) {
	p.Helper()
	for open := qos1 + qos2; open > 0; {
		switch packet := p.next(); packet[0] {
		case 0x40, 0x70:
			open--
		case 0x50:
			p.send(ack(0x62, binary.BigEndian.Uint16(packet[2:])))
		default:
			p.Fatalf("got %s", show(packet))
		}
	}
}

// traffic offers count topics, each of next(), to a and returns how many of them went out without their topic, and how
// often an alias changed its topic. What a says is checked against a plain table.
func traffic(t *testing.T, a *outboundAliases, count int, next func() string) (saved, changed int) {
	t.Helper()
	table := map[uint16]string{}
	for alias, s := range a.slots {
		table[uint16(alias+1)] = s.topic
	}
	for range count {
		topic := next()
		alias, known := a.offer(topic)
		switch {
		case int(alias) > a.max:
			t.Fatalf("alias %d of %d", alias, a.max)
		case known && table[alias] != topic:
			t.Fatalf("alias %d was given %q, and stands for %q", alias, table[alias], topic)
		case known:
			saved++
		case alias != 0:
			if table[alias] != "" {
				changed++
			}
			a.keep(topic, alias)
			table[alias] = topic
		}
	}
	return saved, changed
}

func TestMostUsedTopicsGetTheAliases(t *testing.T) {
	for _, most := range []int{1, 2, 8, 32, 100} {
		random := rand.New(rand.NewPCG(1, 1))
		zipf := rand.NewZipf(random, 1.3, 1, 999)
		shift := 0
		next := func() string { return fmt.Sprintf("a/topic/%d", (int(zipf.Uint64())+shift)%1000) }
		a := newOutboundAliases(most)
		traffic(t, a, 20_000, next)
		for _, shift = range []int{0, 500} { // other topics become the frequent ones
			traffic(t, a, 20_000, next)
			const n = 20_000
			saved, changed := traffic(t, a, n, next)
			count, best := map[string]int{}, 0
			for range n {
				count[next()]++
			}
			for i := range most {
				best += count[fmt.Sprintf("a/topic/%d", (i+shift)%1000)]
			}
			t.Logf("%d aliases: %d of %d saved, the best choice would save %d; %d changes", most, saved, n, best, changed)
			if saved < best*8/10 || changed > n/20 {
				t.Errorf("%d aliases: %d of %d saved, the best choice would save %d; %d changes", most, saved, n, best, changed)
			}
		}
	}
}

func TestTopicsOfLikeFrequencyDoNotPushEachOtherOut(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	i := 0
	for name, next := range map[string]func() string{
		"in turn":        func() string { i++; return fmt.Sprintf("a/topic/%d", i%64) },
		"at random":      func() string { return fmt.Sprintf("a/topic/%d", random.IntN(64)) },
		"many at random": func() string { return fmt.Sprintf("a/topic/%d", random.IntN(100_000)) },
		"each once":      func() string { i++; return fmt.Sprintf("a/topic/%d", i) },
		"a few in a row": func() string { i++; return fmt.Sprintf("a/topic/%d", i/3) },
	} {
		const n = 50_000
		if _, changed := traffic(t, newOutboundAliases(32), n, next); changed > n/50 {
			t.Errorf("%s: %d changes in %d messages", name, changed, n)
		}
	}
}

func TestAnAliasCountsOnlyWhenItsTopicWasSent(t *testing.T) { // [MQTT-3.1.2-24]
	r := start(t, withAliasesOut(1))
	topic := "a/topic/of/some/length"
	fits := strings.Repeat("x", 60-2-2-len(topic)-1)
	sub := r.connect(v5live("s").with(0x22, uint16(9), 0x27, uint32(60)))
	sub.subscribe(5, "#", 0)
	pub := r.connect(v5live("p"))
	send := func(payload string) { pub.send(pub5(0, 0, topic, payload)) }
	send("seen")
	send(fits) // has no room for the alias beside the topic
	send(fits + strings.Repeat("x", len(topic)-3))
	sub.expect(pub5(0, 0, topic, "seen"), pub5(0, 0, topic, fits)) // the third fits with neither
	send("now")
	sub.expect(aliased(0, 0, topic, "now", 1))
	send(fits + strings.Repeat("x", len(topic)-3)) // but it fits without its topic
	sub.expect(aliased(0, 0, "", fits+strings.Repeat("x", len(topic)-3), 1))
	send(fits + strings.Repeat("x", len(topic)-2))
	pub.nothing() // it has come
	sub.nothing()
	if n := r.stats().TooLargeDropped.Load(); n != 2 {
		t.Errorf("%d messages were too large", n)
	}
}

func TestNoAliasIsSentToWhoDoesNotAskOrMayNot(t *testing.T) { // [MQTT-3.1.2-27]
	for name, test := range map[string]struct {
		most  int
		hello hello
	}{
		"no maximum":      {8, v5live("s")},
		"a maximum of 0":  {8, v5live("s").with(0x22, uint16(0))},
		"none configured": {0, v5live("s").with(0x22, uint16(8))},
		"3.1.1":           {8, v311live("s")},
	} {
		t.Run(name, func(t *testing.T) {
			r := start(t, withAliasesOut(test.most))
			sub := r.connect(test.hello)
			sub.subscribe(test.hello.version, "#", 0)
			pub, want := r.connect(v5live("p")), pub5
			if test.hello.version == 4 {
				want = pub311
			}
			for range 5 {
				pub.send(pub5(0, 0, "a/topic", "x"))
				sub.expect(want(0, 0, "a/topic", "x"))
			}
			for _, c := range r.all() {
				if c.out.aliases != nil {
					t.Error("memory was taken for aliases")
				}
			}
		})
	}
}

func TestAliasesOfASessionBeginAnewWithEachConnection(t *testing.T) { // [MQTT-3.3.2-7]
	r := start(t, withAliasesOut(8))
	hello := v5("s").with(0x22, uint16(8))
	sub := r.connect(hello)
	sub.subscribe(5, "#", 1)
	pub := r.connect(v5live("p"))
	for range 3 {
		pub.send(pub5(1, 1, "a/topic", "x"))
		pub.expect(ack(0x40, 1))
	}
	sub.expect(pub5(1, 2, "a/topic", "x"), aliased(1, 3, "a/topic", "x", 1), aliased(1, 4, "", "x", 1))
	_ = sub.nc.Close()
	sub = r.connect(hello)
	sub.expect(dup(pub5(1, 2, "a/topic", "x")), dup(aliased(1, 3, "a/topic", "x", 1)), dup(aliased(1, 4, "", "x", 1)))
}

func BenchmarkOutboundAliases(b *testing.B) {
	for name, topics := range map[string]int{"hit": 16, "miss": 100_000} {
		names := make([]string, topics)
		for i := range names {
			names[i] = fmt.Sprintf("plant/hall-7/machine-%d/temperature", i)
		}
		b.Run(name, func(b *testing.B) {
			a := newOutboundAliases(32)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				topic := names[i%topics]
				if alias, known := a.offer(topic); alias != 0 && !known {
					a.keep(topic, alias)
				}
			}
		})
	}
}
