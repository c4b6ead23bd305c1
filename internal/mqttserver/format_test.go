package mqttserver

import (
	"strings"
	"testing"
)

// utf8Format is the payload format indicator that says: this is text.
var utf8Format = cat(0x01, 1)

func TestAPayloadThatIsNotWhatItsFormatIndicatorSaysIsRefused(t *testing.T) { // 3.3.2.3.2
	r := start(t)
	sub := r.connect(v5live("s"))
	sub.subscribe(5, "t", 2)
	p := r.connect(v5live("p"))
	for i, bad := range []string{"\xff", "text \xc0\x80", "\xed\xa0\x80", strings.Repeat("long ", 5000) + "\xe2\x82"} {
		p.send(publish(1, 1, "t", bad, utf8Format), publish(2, 2, "t", bad, utf8Format))
		p.expect(ack(0x40, 1, 0x99), ack(0x50, 2, 0x99))
		p.send(publish(2, 2, "t", "x", cat(0x01, 0))) // the identifier is free
		p.expect(ack(0x50, 2))
		p.send(ack(0x62, 2))
		p.expect(ack(0x70, 2))
		sub.expect(publish(2, uint16(2+i), "t", "x", cat(0x01, 0)))
		sub.send(ack(0x50, uint16(2+i)))
		sub.expect(ack(0x62, uint16(2+i)))
		sub.send(ack(0x70, uint16(2+i)))
	}
	p.send(publish(0, 0, "t", "\xff", utf8Format))
	p.goodbye(0x99)
	sub.nothing()
}

func TestTextIsForwardedWithItsFormatIndicator(t *testing.T) { // [MQTT-3.3.2-4]
	r := start(t)
	sub, p := r.connect(v5live("s")), r.connect(v5live("p"))
	sub.subscribe(5, "t", 0)
	for _, text := range []string{"", "plain", "naïve € \U0001F9CA", "a\x00b", strings.Repeat("long ", 5000), strings.Repeat("ü", 5000)} {
		p.send(publish(0, 0, "t", text, utf8Format))
		sub.expect(publish(0, 0, "t", text, utf8Format))
	}
	p.send(publish(0, 0, "t", "\xff", cat(0x01, 0)), pub5(0, 0, "t", "\xff")) // bytes are bytes
	sub.expect(publish(0, 0, "t", "\xff", cat(0x01, 0)), pub5(0, 0, "t", "\xff"))
}

func TestAWillThatIsNotWhatItsFormatIndicatorSaysIsRefused(t *testing.T) { // 3.1.3.2.3
	r := start(t)
	h := v5live("a")
	h.will = &will{topic: "t", payload: "\xff", props: utf8Format}
	p := r.dial()
	p.send(h.bytes())
	p.expect([]byte{0x20, 3, 0, 0x99, 0})
	p.closed()
	h.will.payload = "farewell"
	r.connect(h)
}

func TestARefusedPayloadIsAnsweredInItsTurn(t *testing.T) { // [MQTT-4.6.0-2]
	r := start(t)
	keep(r, 1)
	p := r.connect(v5live("p"))
	release := r.holdFlushes()
	p.send(pub5(1, 1, "t/a", "x"), publish(1, 2, "t/a", "\xff", utf8Format))
	p.nothing()
	release()
	p.expect(ack(0x40, 1), ack(0x40, 2, 0x99))
}
