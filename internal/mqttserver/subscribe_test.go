package mqttserver

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"emanet/internal/mqttwire"
)

func TestSubackHasACodeForEachFilter(t *testing.T) { // [MQTT-3.8.4-6], [MQTT-3.9.3-1], [MQTT-3.9.3-2], [MQTT311-3.8.4-5], [MQTT311-3.9.3-1], [MQTT311-3.9.3-2]
	r := start(t, func(r *rig) { r.broOpt.MaxSubs = 3 })
	deep := strings.Repeat("a/", 128)
	filters := []any{"a", 0, "b/+", 1, "$share/g/t", 1, "a", 2, "", 0, "x/#/y", 0, "x+", 0, "c/#", 2, "$share/g", 1, deep, 0, "one/too/many", 0}
	p := r.connect(v5("p"))
	p.send(subscribe5(1, filters...))
	p.expect(pkt(0x90, uint16(1), 0, 0, 1, 1, 2, 0x8F, 0x8F, 0x8F, 0x97, 0x8F, 0x8F, 0x97))
	p = r.connect(v311("q"))
	p.send(subscribe311(1, filters...))
	p.expect(pkt(0x90, uint16(1), 0, 1, 1, 2, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80))
}

func TestSubscribesThatBreakARuleEndTheConnection(t *testing.T) {
	for _, test := range []struct {
		name string
		send []byte
		code int
	}{
		{"no-local on a shared subscription", subscribe5(1, "$share/g/t", 1|4), 0x82}, // [MQTT-3.8.3-4]
		{"no filter", subscribe5(1), 0x82},                                            // [MQTT-3.8.3-2]
		{"no identifier", subscribe5(0, "a", 0), 0x82},                                // [MQTT-2.2.1-3]
		{"U+0000 in a filter", subscribe5(1, "a\x00", 0), 0x81},                       // [MQTT-1.5.4-2]
		{"QoS 3", subscribe5(1, "a", 3), 0x82},                                        // 3.8.3.1
		{"no filter to end", pkt(0xA2, uint16(1), 0), 0x82},                           // [MQTT-3.10.3-2]
	} {
		t.Run(test.name, func(t *testing.T) {
			r := start(t)
			p := r.connect(v5live("p"))
			p.send(test.send)
			p.goodbye(test.code)
		})
	}
}

func TestUnsubackHasACodeForEachFilter(t *testing.T) { // [MQTT-3.11.3-1], [MQTT-3.11.3-2]
	r := start(t)
	p := r.connect(v5("p"))
	p.subscribe(5, "a", 1)
	p.send(pkt(0xA2, uint16(1), 0, str("a"), str("a"), str("b"), str("#/x"), str(""), str("$share/g/t")))
	p.expect(pkt(0xB0, uint16(1), 0, 0, 0x11, 0x11, 0x8F, 0x8F, 0x11))
	p = r.connect(v311("q"))
	p.send(pkt(0xA2, uint16(1), str("a"), str("")))
	p.expect(pkt(0xB0, uint16(1)))
}

func TestATrainOfFiltersWithEscapesFits(t *testing.T) {
	// Records are JSON, in which a control character or < takes six bytes.
	r := start(t, func(r *rig) { r.journal.SegmentBytes, r.journal.Segments = 4<<20, 4 })
	for _, c := range []string{"\x01", "<", "\u2028"} {
		p := r.connect(hello{version: 5, id: strings.Repeat(c, 2000),
			will: &will{topic: strings.Repeat(c, 5000), payload: strings.Repeat("<", 5000), qos: 1}})
		var filters []any
		var codes []byte
		for i := range 40 {
			filters = append(filters, fmt.Sprint(i)+strings.Repeat(c, 3000), 1)
			codes = append(codes, 1)
		}
		p.send(subscribe5(1, filters...))
		p.expect(pkt(0x90, uint16(1), 0, codes))
		p.send(pkt(0xE0, 4))
		p.closed()
	}
}

func TestRetainedMessagesComeBehindTheSuback(t *testing.T) { // [MQTT-3.3.1-9]
	r := start(t)
	pub := r.connect(v311live("pub"))
	for i := range uint16(300) {
		pub.send(retain(pub311(int(i)&1, i+1, fmt.Sprintf("r/%03d", i), "x")))
	}
	pub.send(pub311(1, 999, "end", ""))
	for pub.next()[3] != 999&0xFF {
	}
	sub := r.connect(v5("s"))
	release := r.holdFlushes()
	sub.send(subscribe5(1, "r/#", 0), subscribe5(2, "u", 0))
	sub.nothing()
	release()
	sub.expect(pkt(0x90, uint16(1), 0, 0), pkt(0x90, uint16(2), 0, 0))
	for i := range 300 {
		sub.expect(retain(pub5(0, 0, fmt.Sprintf("r/%03d", i), "x")))
	}
	sub.send(subscribe5(3, "r/001", 1|1<<4)) // not: it is new, so they do come ([MQTT-3.3.1-10])
	sub.expect(pkt(0x90, uint16(3), 0, 1), retain(pub5(1, 2, "r/001", "x")))
	sub.send(ack(0x40, 2), subscribe5(4, "r/001", 1|1<<4), subscribe5(5, "r/001", 1|2<<4)) // [MQTT-3.3.1-11]
	sub.expect(pkt(0x90, uint16(4), 0, 1), pkt(0x90, uint16(5), 0, 1))
	sub.nothing()
}

func TestRetainedMessagesOfQoS1ComeToAWindowOfOne(t *testing.T) {
	r := start(t)
	pub := r.connect(v311live("pub"))
	for i := range uint16(600) {
		pub.send(retain(pub311(1, i+1, fmt.Sprintf("r/%03d", i), "x")))
		pub.expect(ack(0x40, i+1))
	}
	sub := r.connect(v5("s").with(0x21, uint16(1)))
	sub.send(subscribe5(1, "r/#", 1))
	sub.expect(pkt(0x90, uint16(1), 0, 1))
	for i := range uint16(600) {
		sub.expect(retain(pub5(1, i+2, fmt.Sprintf("r/%03d", i), "x")))
		sub.send(ack(0x40, i+2))
	}
	sub.nothing()
}

func TestSubscriptionIdentifiersOfAllThatMatchAreSent(t *testing.T) { // [MQTT-3.3.4-2], [MQTT-3.3.4-3], [MQTT-3.3.4-4]
	r := start(t)
	sub, pub := r.connect(v5("s")), r.connect(v5live("p"))
	sub.send(pkt(0x82, uint16(1), sized(cat(0x0B, 1)), str("a/b"), 0), pkt(0x82, uint16(2), sized(cat(0x0B, 0x80, 2)), str("a/+"), 1))
	sub.expect(pkt(0x90, uint16(1), 0, 0), pkt(0x90, uint16(2), 0, 1))
	pub.send(pub5(1, 1, "a/b", "x"))
	pub.expect(ack(0x40, 1))
	got := show(sub.next())
	if one, two := show(publish(1, 2, "a/b", "x", cat(0x0B, 1, 0x0B, 0x80, 2))), show(publish(1, 2, "a/b", "x", cat(0x0B, 0x80, 2, 0x0B, 1))); got != one && got != two {
		t.Fatalf("got %s", got)
	}
	sub.nothing()
}

func TestSubscriptionIdentifiersOfEverySizeAreReadFromTheirTag(t *testing.T) { // [MQTT-3.3.4-3], [MQTT-3.3.4-4]
	var tag []byte
	want := []uint32{1, 127, 128, 16_383, 16_384, 2_097_151, 2_097_152, mqttwire.MaxRemainingLength}
	for _, id := range want {
		tag = binary.AppendUvarint(tag, uint64(id))
	}
	ids := appendIdentifiers(nil, string(tag))
	if got := slices.Collect(ids.All()); !slices.Equal(got, want) {
		t.Errorf("got %d, want %d", got, want)
	}
	if n := testing.AllocsPerRun(10, func() { ids = appendIdentifiers(ids[:0], string(tag)) }); n > 1 { // the test's own string
		t.Errorf("%v allocations", n)
	}
}
