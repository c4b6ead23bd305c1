package mqttserver

import (
	"bytes"
	"strings"
	"testing"
)

func TestResponseInformationIsGivenToWhoAsks(t *testing.T) { // [MQTT-3.1.2-28]
	asks := func(id string, more ...any) hello { return v5live(id).with(append([]any{0x19, 1}, more...)...) }
	for name, test := range map[string]struct {
		prefix string
		hello  hello
		want   string
	}{
		"asked":                          {"answers/", asks("room 7"), "answers/room 7"},
		"asked with an id of two levels": {"answers/", asks("a/b+#%"), "answers/a%2Fb%2B%23%25"},
		"not asked":                      {"answers/", v5live("a"), ""},
		"asked not to":                   {"answers/", v5live("a").with(0x19, 0), ""},
		"none configured":                {"", asks("a"), ""},
		"no room in CONNACK":             {"answers/", asks("a", 0x27, uint32(25)), ""},
		"room in CONNACK":                {"answers/", asks("a", 0x27, uint32(25+13)), "answers/a"},
		"nothing can be so long":         {"answers/", asks(strings.Repeat("x", 65_530)), ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := start(t, func(r *rig) { r.opt.ResponsePrefix, r.journal.SegmentBytes = test.prefix, 4<<20 })
			got := r.dial().greet(test.hello)
			if test.want != "" && !bytes.Contains(got, cat(0x1A, str(test.want))) {
				t.Errorf("%q is not in %q", test.want, got)
			}
			if test.want == "" && bytes.Contains(got, []byte("answers")) {
				t.Errorf("response information in %q", got)
			}
		})
	}
}

func TestDisconnectsThatOnlyAServerMaySendAreErrors(t *testing.T) { // table 3-10, 3.14.2.2.5
	for name, send := range map[string][]byte{
		"use another server": pkt(0xE0, 0x9C),
		"server moved":       pkt(0xE0, 0x9D),
		"server busy":        pkt(0xE0, 0x89),
		"session taken over": pkt(0xE0, 0x8E),
		"a server reference": pkt(0xE0, 0, sized(cat(0x1C, str("elsewhere")))),
	} {
		t.Run(name, func(t *testing.T) {
			r := start(t)
			sub := r.connect(v5live("s"))
			sub.subscribe(5, "t", 0)
			h := v5live("a")
			h.will = &will{topic: "t", payload: "gone"}
			p := r.connect(h)
			p.send(send)
			p.goodbye(0x82)
			sub.expect(pub5(0, 0, "t", "gone")) // a broken rule is no leave
		})
	}
	r := start(t)
	for _, code := range []int{0x80, 0x81, 0x93, 0x94, 0x95, 0x97, 0x99} { // what a client may have to say
		p := r.connect(v5live("p"))
		p.send(pkt(0xE0, code, sized(cat(0x1F, str("why"), 0x26, str("k"), str("v")))))
		p.closed()
	}
}

// What servers say about themselves, and authentication without a method, is no client's to say.
func TestPropertiesThatAClientMayNotSendAreErrors(t *testing.T) {
	for name, test := range map[string]struct {
		props []byte
		code  int
	}{
		"a server reference":                {cat(0x1C, str("elsewhere")), 0x81}, // table 2-4
		"a reason string":                   {cat(0x1F, str("why")), 0x81},
		"response information":              {cat(0x1A, str("a/b")), 0x81},
		"authentication data alone":         {cat(0x16, str("x")), 0x82},             // 3.1.2.11.10
		"an authentication method":          {cat(0x15, str("SCRAM-SHA-256")), 0x8C}, // [MQTT-4.12.0-1]
		"a method and data":                 {cat(0x15, str("SCRAM-SHA-256"), 0x16, str("x")), 0x8C},
		"two methods":                       {cat(0x15, str("a"), 0x15, str("b")), 0x82},
		"request problem information of 2":  {cat(0x17, 2), 0x82}, // 3.1.2.11.7
		"request response information of 2": {cat(0x19, 2), 0x82}, // 3.1.2.11.6
		"two topic alias maximums":          {cat(0x22, uint16(1), 0x22, uint16(1)), 0x82},
	} {
		t.Run(name, func(t *testing.T) {
			r := start(t)
			p := r.dial()
			p.send(v5live("a").with(test.props).bytes())
			p.expect([]byte{0x20, 3, 0, byte(test.code), 0})
			p.closed()
		})
	}
	r := start(t)
	for _, send := range [][]byte{pkt(0xF0), pkt(0xF0, 0x18, sized(cat(0x15, str("SCRAM-SHA-256")))), pkt(0xF0, 0x19, 0)} { // [MQTT-4.12.0-6]
		p := r.connect(v5live("p"))
		p.send(send)
		p.goodbye(0x82)
	}
}
