package mqttserver

import (
	"strings"
	"testing"
	"unicode/utf8"

	"emanet/internal/mqttwire"
)

// refusals sends what is refused and returns the packets that say so, the DISCONNECT last.
func refusals(r *rig, id string, props ...any) [][]byte {
	p := r.connect(v5live(id).with(props...))
	p.send(pub5(1, 1, "$SYS/a", ""), pub5(2, 2, "$SYS/a", ""), ack(0x62, 3), ack(0x50, 4),
		subscribe5(5, "a", 0, "b/#/c", 0), pkt(0xA2, uint16(6), 0, str("b/#/c")), pkt(0xF0))
	var got [][]byte
	for range 7 {
		got = append(got, p.next())
	}
	p.closed()
	return got
}

func TestEveryRefusalSaysWhy(t *testing.T) {
	r := start(t)
	got := refusals(r, "p")
	for i, want := range []struct {
		packet []byte
		reason string
	}{
		{ack(0x40, 1, 0x87), "publish"},
		{ack(0x50, 2, 0x87), "publish"},
		{ack(0x70, 3, 0x92), "packet identifier"},
		{ack(0x62, 4, 0x92), "packet identifier"},
		{pkt(0x90, uint16(5), 0, 0, 0x8F), "filter 2 of 2: not a topic filter"},
		{pkt(0xB0, uint16(6), 0, 0x8F), "filter 1 of 1: not a topic filter"},
		{[]byte{0xE0, 1, 0x82}, "AUTH without an authentication method"},
	} {
		if string(withoutReason(got[i])) != string(want.packet) {
			t.Errorf("got %s, want %s and a reason", show(got[i]), show(want.packet))
		}
		if why := reason(got[i]); !strings.Contains(why, want.reason) {
			t.Errorf("%s says %q, expected something with %q", show(want.packet), why, want.reason)
		}
	}
	p := r.dial()
	p.send(v5("a").with(0x15, str("SCRAM")).bytes())
	if got := p.next(); !strings.Contains(reason(got), "authentication method") {
		t.Errorf("CONNACK says %q", reason(got))
	}
}

func TestSuccessNeedsNoReason(t *testing.T) {
	r := start(t)
	p := r.connect(v5live("p"))
	p.send(pub5(1, 1, "nobody", ""), subscribe5(2, "a", 0), pkt(0xA2, uint16(3), 0, str("b")))
	for range 3 {
		if got := p.next(); reason(got) != "" {
			t.Errorf("%s has a reason: %q", show(got), reason(got))
		}
	}
}

func TestAClientThatWantsNoProblemInformationGetsItInDisconnectAlone(t *testing.T) { // [MQTT-3.1.2-29]
	got := refusals(start(t), "p", 0x17, 0)
	for _, packet := range got[:6] {
		if reason(packet) != "" {
			t.Errorf("%s has a reason: %q", show(packet), reason(packet))
		}
	}
	if reason(got[6]) == "" {
		t.Error("DISCONNECT has no reason")
	}
}

// The longest packet without a reason has 8 bytes here, the CONNACK aside: with a maximum of so many none has one, and
// with each byte more only those have that fit.
func TestAReasonIsLeftOutWhereItWouldExceedTheMaximumPacketSize(t *testing.T) { // [MQTT-3.2.2-19], [MQTT-3.4.2-2], [MQTT-3.5.2-2],
	r := start(t) //                                                                 [MQTT-3.6.2-2], [MQTT-3.7.2-2], [MQTT-3.9.2-1], [MQTT-3.11.2-1], [MQTT-3.14.2-3]
	const connackSize = 25
	with := 0
	for most := connackSize; most < connackSize+90; most++ {
		for _, packet := range refusals(r, "p", 0x27, uint32(most)) {
			if len(packet) > most {
				t.Fatalf("%d bytes for a client that takes %d", len(packet), most)
			}
			if reason(packet) != "" {
				with++
			}
		}
	}
	if with == 0 || with == 7*90 {
		t.Errorf("%d of %d packets had a reason", with, 7*90)
	}
	for _, most := range []uint32{4, 5, 20, 60} {
		p := r.dial()
		p.send(v5("a").with(0x15, str("SCRAM"), 0x27, most).bytes())
		got := p.next()
		if len(got) > int(most) || (most >= 60) != (reason(got) != "") || (most >= 5) != (got != nil) {
			t.Errorf("CONNACK with a maximum of %d: %s", most, show(got))
		}
	}
}

func TestReasonsAreWholeStringsWithinTheirBound(t *testing.T) {
	for _, text := range []string{"", strings.Repeat("x", reasonMax+1), strings.Repeat("ü", reasonMax), "a\x00", "\xff"} {
		p := reasonProps(text)
		if len(p.ReasonString) > reasonMax || !utf8.Valid(p.ReasonString) {
			t.Errorf("%q became %q", text, p.ReasonString)
		}
		if !mqttwire.ValidString(p.ReasonString) || p.Has(mqttwire.HasReasonString) != (len(p.ReasonString) > 0) {
			t.Errorf("%q became %q", text, p.ReasonString)
		}
	}
	for _, code := range []mqttwire.ReasonCode{mqttwire.BadUserNameOrPassword, mqttwire.NotAuthorized} {
		if why := connackReason(code, "there is no user of this name"); strings.Contains(why, "user of this") {
			t.Errorf("CONNACK tells a guesser %q", why)
		}
	}
}
