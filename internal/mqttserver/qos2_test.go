package mqttserver

import (
	"testing"
)

func TestAQoS2PublishIsRoutedOnceHoweverOftenItComes(t *testing.T) { // [MQTT311-4.3.3-2]
	for _, h := range []hello{v311("p"), v311live("p")} {
		r := start(t)
		sub := r.connect(v5live("s"))
		sub.subscribe(5, "t", 0)
		p := r.connect(h)
		p.send(pub311(2, 7, "t", "x"), dup(pub311(2, 7, "t", "x")), dup(pub311(2, 7, "t", "x")))
		p.expect(ack(0x50, 7), ack(0x50, 7), ack(0x50, 7))
		p.send(ack(0x62, 7))
		p.expect(ack(0x70, 7))
		p.send(pub311(2, 7, "t", "y")) // the id is free again
		p.expect(ack(0x50, 7))
		sub.expect(pub5(0, 0, "t", "x"), pub5(0, 0, "t", "y"))
	}
}

func TestAnUnknownPubrelIsAnswered(t *testing.T) { // [MQTT-4.3.3-11]
	r := start(t)
	p := r.connect(v5("p"))
	p.send(ack(0x62, 5))
	p.expect(ack(0x70, 5, 0x92))
	p = r.connect(v311("q"))
	p.send(ack(0x62, 5))
	p.expect(ack(0x70, 5))
}

// inFlight is a subscriber with one message of the given QoS sent to it.
func inFlight(r *rig, h hello, qos int) (sub, pub *peer) {
	r.Helper()
	sub = r.connect(h)
	sub.subscribe(h.version, "t", qos)
	pub = r.connect(v5live("pub"))
	pub.send(pub5(1, 1, "t", "x"), pub5(2, 2, "t", "y"))
	pub.expect(ack(0x40, 1), ack(0x50, 2))
	props := none
	if h.version == 4 {
		props = nil
	}
	sub.expect(publish(1, 2, "t", "x", props), publish(min(2, qos), 3, "t", "y", props))
	return sub, pub
}

func TestAcknowledgementsOfTheWrongKindEndTheConnection(t *testing.T) { // ADR 0002, table 2
	for _, wrong := range [][]byte{ack(0x50, 2), ack(0x70, 2), ack(0x40, 3)} {
		r := start(t)
		sub, _ := inFlight(r, v5("s"), 2)
		sub.send(wrong)
		sub.goodbye(0x82)
		sub, _ = inFlight(r, v311("s3"), 2)
		sub.send(wrong)
		sub.closed()
	}
}

func TestStrayAcknowledgementsChangeNothing(t *testing.T) { // ADR 0002, table 2
	r := start(t)
	sub, pub := inFlight(r, v5("s"), 2)
	sub.send(ack(0x40, 77), ack(0x70, 78), ack(0x70, 3)) // unknown; unknown; not released
	sub.nothing()
	sub.send(ack(0x50, 79))
	sub.expect(ack(0x62, 79, 0x92))
	sub.send(ack(0x40, 2), ack(0x40, 2), ack(0x50, 3))
	sub.expect(ack(0x62, 3))
	sub.send(ack(0x70, 3), ack(0x70, 3))
	sub.nothing()
	r.eventually("all settled", func() bool { return r.server.broker.Gauges().Pending == 0 })
	pub.send(pub5(1, 3, "t", "z"))
	pub.expect(ack(0x40, 3))
	sub.expect(pub5(1, 4, "t", "z"))
}

func TestPubrecWithAnErrorEndsTheDelivery(t *testing.T) { // [MQTT-4.4.0-2]
	r := start(t)
	sub, _ := inFlight(r, v5("s"), 2)
	sub.send(ack(0x50, 3, 0x97), ack(0x40, 2, 0x80))
	sub.nothing()
	r.eventually("all settled", func() bool { return r.server.broker.Gauges().Pending == 0 })
	sub.leave()
	sub = r.connect(v5("s"))
	sub.nothing()
}

func TestAResumedSessionGetsWhatIsOpenUnderTheSameIdentifiers(t *testing.T) { // [MQTT311-4.4.0-1], [MQTT311-4.6.0-6]
	r := start(t)
	sub, pub := inFlight(r, v311("s"), 2)
	pub.send(pub5(2, 3, "t", "z"))
	pub.expect(ack(0x50, 3))
	sub.expect(pub311(2, 4, "t", "z"))
	sub.send(ack(0x50, 4))
	sub.expect(ack(0x62, 4))
	sub.nc.Close()
	r.eventually("the end", func() bool { return r.stats().Connections.Load() == 1 })
	pub.send(pub5(1, 4, "t", "new"))
	pub.expect(ack(0x40, 4))
	sub = r.connect(v311("s"))
	sub.expect(dup(pub311(1, 2, "t", "x")), dup(pub311(2, 3, "t", "y")), ack(0x62, 4), pub311(1, 5, "t", "new"))
	sub.send(ack(0x70, 4), ack(0x40, 2), ack(0x50, 3), ack(0x40, 5))
	sub.expect(ack(0x62, 3))
}

func TestAPubrecRepeatedRightBehindConnectIsAnsweredByOnePubrel(t *testing.T) { // ADR 0002, R8
	for range 20 { // it races with the resend
		r := start(t)
		sub, _ := inFlight(r, v5("s"), 2)
		sub.send(ack(0x40, 2), ack(0x50, 3))
		sub.expect(ack(0x62, 3))
		sub.nc.Close()
		sub = r.dial()
		sub.send(v5("s").bytes(), ack(0x50, 3))
		if got := sub.next(); got[0] != 0x20 || got[2] != 1 {
			t.Fatalf("CONNACK is %s", show(got))
		}
		sub.expect(ack(0x62, 3))
		sub.send(ack(0x70, 3))
		sub.nothing()
	}
}

func TestAPubrecBeforeItsResendIsNotAnsweredTwice(t *testing.T) { // ADR 0002, R8
	for range 20 {
		r := start(t)
		sub, _ := inFlight(r, v5("s"), 2)
		sub.send(ack(0x40, 2))
		r.eventually("its settlement", func() bool { return r.server.broker.Gauges().Pending == 1 })
		sub.nc.Close() // with PUBREC 3 on its lips
		sub = r.dial()
		sub.send(v5("s").bytes(), ack(0x50, 3), pingreq)
		// The resend, if it came first, is answered by the same PUBREC. One PUBREL in any case, and nothing
		// of the message after it.
		rels, after := 0, false
		for pinged := false; !pinged || rels == 0; {
			got := sub.next()
			switch got[0] {
			case 0x62:
				rels++
				sub.send(ack(0x70, 3))
			case 0x34, 0x3C:
				after = after || rels > 0
			case 0xD0:
				pinged = true
			}
		}
		sub.nothing()
		if rels != 1 || after {
			t.Fatalf("%d PUBREL, resent after it: %v", rels, after)
		}
	}
}
