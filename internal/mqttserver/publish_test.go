package mqttserver

import (
	"strings"
	"testing"
)

func TestPublishesThatBreakARuleEndTheConnectionWithItsCode(t *testing.T) {
	for _, test := range []struct {
		name string
		send []byte
		code int
	}{
		{"a subscription identifier", publish(0, 0, "t", "", cat(0x0B, 1)), 0x82},               // [MQTT-3.3.4-6]
		{"no topic", pub5(0, 0, "", ""), 0x82},                                                  // [MQTT-4.7.3-1]
		{"too many levels", pub5(0, 0, strings.Repeat("/", 128), ""), 0x90},                     // our own limit
		{"a wildcard", pub5(0, 0, "a/+", ""), 0x90},                                             // [MQTT-3.3.2-2]
		{"U+0000", pub5(0, 0, "a\x00", ""), 0x81},                                               // [MQTT-1.5.4-2]
		{"QoS 3", pkt(0x36, str("t"), uint16(1), 0), 0x81},                                      // [MQTT-3.3.1-4]
		{"a wildcard in the response topic", publish(0, 0, "t", "", cat(0x08, str("#"))), 0x82}, // [MQTT-3.3.2-14]
		{"above the maximum packet size", []byte{0x30, 0xFF, 0xFF, 0xFF, 0x7F}, 0x95},           // [MQTT-3.2.2-15]
		{"AUTH", pkt(0xF0), 0x82},                                                               // [MQTT-4.12.0-7]
		{"CONNACK", connack311, 0x82},
		{"PINGRESP", pingresp, 0x82},
		{"type 0", []byte{0, 0}, 0x81},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := start(t)
			p := r.connect(v5live("p"))
			p.send(test.send)
			p.goodbye(test.code)
		})
	}
}

func TestAPacketOfTheMaximumSizeIsTakenAndOneMoreByteIsNot(t *testing.T) {
	r := start(t, func(r *rig) { r.opt.MaxPacket = 100 })
	p := r.connect(v5live("p"))
	whole := pub5(1, 1, "t", strings.Repeat("x", 100-2-3-2-1))
	if len(whole) != 100 {
		t.Fatal(len(whole))
	}
	p.send(whole)
	p.expect(ack(0x40, 1, 0x10))
	p.send(pub5(1, 1, "t", strings.Repeat("x", 100-2-3-2)))
	p.goodbye(0x95)
}

func TestTheReceiveMaximumEndsWhoExceedsIt(t *testing.T) { // [MQTT-3.3.4-7]
	r := start(t, func(r *rig) { r.opt.ReceiveMaximum = 3 })
	keep(r, 2)
	p := r.connect(v5live("p"))
	for range 3 { // ids are free with PUBACK, PUBCOMP and a failed PUBREC
		p.send(pub5(1, 1, "t/a", ""), pub5(2, 2, "t/a", ""), pub5(2, 3, "$SYS/a", ""))
		p.expect(ack(0x40, 1), ack(0x50, 2), ack(0x50, 3, 0x87))
		p.send(ack(0x62, 2))
		p.expect(ack(0x70, 2))
	}
	release := r.holdFlushes()
	p.send(pub5(1, 1, "t/a", ""), pub5(2, 2, "t/a", ""), pub5(1, 3, "t/a", ""))
	p.nothing()
	p.send(pub5(0, 0, "t/a", "")) // QoS 0 does not count
	p.nothing()
	p.send(pub5(1, 4, "t/a", ""))
	p.goodbye(0x93)
	release()
}

func TestAReceiveMaximumIsOfMQTT5(t *testing.T) {
	r := start(t, func(r *rig) { r.opt.ReceiveMaximum = 1 })
	keep(r, 1)
	p := r.connect(v311live("p"))
	release := r.holdFlushes()
	p.send(pub311(1, 1, "t/a", ""), pub311(1, 2, "t/a", ""))
	p.nothing()
	release()
	p.expect(ack(0x40, 1), ack(0x40, 2))
}

func TestTheServersOwnTopicsAreNotForPublishing(t *testing.T) {
	r := start(t)
	sub := r.connect(v5live("s"))
	sub.subscribe(5, "$SYS/#", 0)
	p := r.connect(v5live("p"))
	p.send(pub5(0, 0, "$SYS/a", ""), pub5(1, 1, "$SYS", ""), pub5(2, 2, "$SYS/a", ""), pub5(1, 3, "$SYSTEM", ""))
	p.expect(ack(0x40, 1, 0x87), ack(0x50, 2, 0x87), ack(0x40, 3, 0x10))
	old := r.connect(v311live("old"))
	old.send(pub311(0, 0, "$SYS/a", ""))
	old.nothing()
	old.send(pub311(1, 1, "$SYS/a", "")) // [MQTT311-3.3.5-2]
	old.closed()
	sub.nothing()
}

func TestABoundThatRefusesIsToldToThePublisher(t *testing.T) {
	r := start(t, func(r *rig) { r.broOpt.MaxQueued, r.broOpt.RejectNew = 2, true })
	keep(r, 2)
	p := r.connect(v5live("p"))
	p.send(pub5(1, 1, "t/a", ""), pub5(2, 2, "t/a", ""), pub5(1, 3, "t/a", ""), pub5(2, 4, "t/a", ""), ack(0x62, 4))
	p.expect(ack(0x40, 1), ack(0x50, 2), ack(0x40, 3, 0x97), ack(0x50, 4, 0x97), ack(0x70, 4, 0x92))
	old := r.connect(v311live("old"))
	old.send(pub311(1, 1, "t/a", ""))
	old.closed()
}

func TestPropertiesTravelUnaltered(t *testing.T) { // [MQTT-3.3.2-4], [MQTT-3.3.2-15], [MQTT-3.3.2-16], [MQTT-3.3.2-17], [MQTT-3.3.2-18], [MQTT-3.3.2-20]
	r := start(t)
	props := cat(0x01, 1, 0x03, str("text/plain"), 0x08, str("re/ply"), 0x09, str("\x00\xFFcorr"),
		0x26, str("b"), str("2"), 0x26, str("a"), str("1"), 0x26, str("b"), str("2"))
	sub, old, pub := r.connect(v5("s")), r.connect(v311("old")), r.connect(v5live("p"))
	sub.subscribe(5, "t", 1)
	old.subscribe(4, "t", 1)
	pub.send(publish(1, 1, "t", "x", props))
	pub.expect(ack(0x40, 1))
	sub.expect(publish(1, 2, "t", "x", props))
	old.expect(pub311(1, 2, "t", "x"))
	sub.nc.Close()
	r.restart()
	r.connect(v5("s")).expect(dup(publish(1, 2, "t", "x", props)))
}

func TestExpiryIsForwardedAsWhatIsLeft(t *testing.T) { // [MQTT-3.3.2-5], [MQTT-3.3.2-6]
	r := start(t)
	sub := r.connect(v5("s"))
	sub.subscribe(5, "t", 1)
	pub := r.connect(v5live("p"))
	pub.send(publish(1, 1, "t", "x", cat(0x02, uint32(100))))
	pub.expect(ack(0x40, 1))
	sub.expect(publish(1, 2, "t", "x", cat(0x02, uint32(100))))
	sub.leave()
	pub.send(publish(1, 2, "t", "gone", cat(0x02, uint32(1))), publish(1, 3, "t", "kept", cat(0x02, uint32(3600))))
	pub.expect(ack(0x40, 2), ack(0x40, 3))
	r.eventually("expiry", func() bool { return r.server.broker.Gauges().Pending == 2 })
	sub = r.connect(v5("s"))
	sub.expect(dup(publish(1, 2, "t", "x", cat(0x02, uint32(99)))), publish(1, 4, "t", "kept", cat(0x02, uint32(3599))))
}

func TestMessagesAboveTheClientsMaximumAreNotSentToIt(t *testing.T) { // [MQTT-3.1.2-24], [MQTT-3.1.2-25]
	r := start(t)
	sub := r.connect(v5("s").with(0x27, uint32(60)))
	sub.subscribe(5, "t", 1)
	pub := r.connect(v5live("p"))
	fits := strings.Repeat("x", 60-2-3-2-1)
	pub.send(pub5(1, 1, "t", fits), pub5(1, 2, "t", fits+"x"), pub5(0, 0, "t", fits+"xxx"), pub5(1, 3, "t", "last"))
	pub.expect(ack(0x40, 1), ack(0x40, 2), ack(0x40, 3))
	sub.expect(pub5(1, 2, "t", fits), pub5(1, 4, "t", "last"))
	r.eventually("the settlement of what does not fit", func() bool { return r.server.broker.Gauges().Pending == 2 })
	if n := r.stats().TooLargeDropped.Load(); n != 2 {
		t.Errorf("%d counted", n)
	}
	var filters []any
	for range 60 {
		filters = append(filters, "a", 0)
	}
	sub.send(subscribe5(7, filters...)) // SUBACK would have 65 bytes
	sub.goodbye(0x95)
}
