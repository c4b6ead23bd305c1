package mqttserver

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"testing"
	"time"
)

// connack5 is CONNACK of MQTT 5 with the limits of a rig.
func connack5(present int, props ...any) []byte {
	return pkt(0x20, present, 0, sized(cat(cat(props...), 0x21, uint16(1000), 0x27, uint32(1<<20), 0x2A, 1)))
}

func TestConnackAnnouncesTheLimits(t *testing.T) { // [MQTT-3.2.2-3], [MQTT311-3.2.2-1], [MQTT311-3.2.2-2]
	r := start(t)
	p := r.dial()
	p.send(v5("a").bytes())
	if got := p.next(); !bytes.Contains(got, cat(0x21, uint16(1000))) || !bytes.Contains(got, cat(0x27, uint32(1<<20))) ||
		!bytes.Contains(got, cat(0x2A, 1)) || got[2] != 0 || got[3] != 0 {
		t.Fatalf("CONNACK is %s", show(got))
	}
	p.leave()
	p = r.dial()
	p.send(v5("a").bytes())
	if got := p.next(); got[2] != 1 {
		t.Fatalf("the session is there, CONNACK says %s", show(got))
	}
	p.leave()
	p = r.dial()
	p.send(v311("a").bytes())
	p.expect(connack311p)
	p.leave()
	p = r.dial()
	p.send(v311live("a").bytes())
	p.expect(connack311)
}

func TestAConnectThatIsNotAcceptedGetsTheCodeOfItsVersion(t *testing.T) {
	r := start(t, func(r *rig) { r.opt.MaxConnect = 4096 })
	long := strings.Repeat("a/", 128) + "a"
	for _, test := range []struct {
		name string
		send []byte
		want []byte // nil: closed without a word
	}{
		{"MQTT 3.1", pkt(0x10, str("MQIsdp"), 3, 2, uint16(0), str("a")), []byte{0x20, 2, 0, 1}},
		{"level 3", pkt(0x10, str("MQTT"), 3, 2, uint16(0), str("a")), []byte{0x20, 2, 0, 1}},
		{"level 6", pkt(0x10, str("MQTT"), 6, 2, uint16(0), 0, str("a")), []byte{0x20, 3, 0, 0x84, 0}},
		{"another protocol", pkt(0x10, str("HTTP"), 4, 2, uint16(0), str("a")), nil},
		{"reserved flag, 3.1.1", pkt(0x10, str("MQTT"), 4, 3, uint16(0), str("a")), nil}, // [MQTT311-3.1.2-3]
		{"reserved flag, 5", pkt(0x10, str("MQTT"), 5, 3, uint16(0), 0, str("a")), []byte{0x20, 3, 0, 0x81, 0}},
		{"empty id without clean session", v311("").bytes(), []byte{0x20, 2, 0, 2}}, // [MQTT311-3.1.3-8]
		{"authentication method", v5("a").with(0x15, str("SCRAM")).bytes(), []byte{0x20, 3, 0, 0x8C, 0}},
		{"will to a wildcard, 3.1.1", hello{version: 4, id: "a", will: &will{topic: "a/#"}}.bytes(), nil},
		{"will to $SYS, 5", hello{version: 5, id: "a", will: &will{topic: "$SYS/a"}}.bytes(), []byte{0x20, 3, 0, 0x90, 0}},
		{"will to $SYS, 3.1.1", hello{version: 4, id: "a", will: &will{topic: "$SYS/a"}}.bytes(), nil},
		{"will to too many levels", hello{version: 5, id: "a", will: &will{topic: long}}.bytes(), []byte{0x20, 3, 0, 0x90, 0}},
		{"no room for CONNACK", v5("a").with(0x27, uint32(12)).bytes(), []byte{0x20, 3, 0, 0x95, 0}}, // [MQTT-3.1.2-24]
		{"no room for a refusal", v5("a").with(0x27, uint32(4)).bytes(), nil},
		{"PINGREQ first", pingreq, nil}, // [MQTT-3.1.0-1]
		{"PUBLISH first", pub311(0, 0, "a", "b"), nil},
		{"CONNACK", connack311, nil},
		{"garbage", []byte("GET / HTTP/1.1\r\n\r\n"), nil},
		{"a CONNECT above the maximum packet size", []byte{0x10, 0xFF, 0xFF, 0xFF, 0x7F}, nil},
		{"a CONNECT that is too large to be held", cat(0x10, binary.AppendUvarint(nil, 4096)), nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := r.stats().Malformed.Load()
			p := r.dial()
			p.TB = t
			p.send(test.send)
			if test.want != nil {
				p.expect(test.want)
			}
			p.closed()
			if n := r.server.broker.Gauges().Sessions; n != 0 {
				t.Errorf("%d sessions", n)
			}
			r.eventually("the count", func() bool { return r.stats().Malformed.Load() == before+1 })
		})
	}
}

func TestAClientWithoutAnIDGetsOne(t *testing.T) { // [MQTT-3.1.3-6], [MQTT-3.1.3-7], [MQTT311-3.1.3-6]
	r := start(t)
	p := r.dial()
	p.send(v5live("").bytes())
	if got := p.next(); !bytes.Contains(got, cat(0x12, uint16(29), "auto-")) {
		t.Fatalf("no assigned client id in %s", show(got))
	}
	p.send(hello{version: 4, clean: true}.bytes())
	p.goodbye(0x82)
	p = r.dial()
	p.send(v311live("").bytes())
	p.expect(connack311)
}

func TestASilentConnectionIsClosedAfterTheConnectTimeout(t *testing.T) {
	r := start(t, func(r *rig) { r.opt.ConnectTimeout = 20 * time.Millisecond })
	p := r.dial()
	p.closed()
	p = r.dial()
	p.send(v311("a").bytes()[:5])
	p.closed()
	p = r.pipe()
	p.closed()
}

func TestASecondConnectEndsTheConnection(t *testing.T) { // [MQTT-3.1.0-2], [MQTT311-3.1.0-2]
	r := start(t)
	p := r.connect(v5("a"))
	p.send(v5("a").bytes())
	p.goodbye(0x82)
	p = r.connect(v311("a"))
	p.send(v311("a").bytes())
	p.closed()
}

func TestNothingGoesOutBeforeConnack(t *testing.T) { // [MQTT-3.2.0-1]
	r := start(t)
	sub := r.connect(v5("sub"))
	sub.subscribe(5, "t", 2)
	sub.leave()
	other := r.connect(v5live("other"))
	other.send(pub5(1, 1, "t", "queued"))
	other.expect(ack(0x40, 1))

	release := r.holdFlushes()
	sub = r.dial()
	sub.send(v5("sub").bytes(), pingreq, pub5(1, 7, "nobody", "x"), ack(0x62, 8), subscribe5(3, "u", 0))
	r.eventually("the subscription", func() bool { return r.server.broker.Gauges().Subscriptions == 2 })
	other.send(pub5(0, 0, "t", "live"))
	other.nothing() // all of that is known to the broker
	_ = sub.nc.SetReadDeadline(time.Now().Add(30 * time.Millisecond))
	if n, err := sub.nc.Read(make([]byte, 100)); n != 0 || err == nil {
		t.Fatalf("%d bytes before CONNACK's flush, %v", n, err)
	}
	release()
	sub.expect(connack5(1))
	got := map[byte]int{}
	for range 6 {
		got[sub.next()[0]]++
	}
	for _, first := range []byte{0xD0, 0x40, 0x70, 0x90, 0x30, 0x32} {
		if got[first] != 1 {
			t.Errorf("%d packets %#x behind CONNACK", got[first], first)
		}
	}
}

func TestPacketsRightBehindConnectAreAnsweredBehindConnack(t *testing.T) {
	for _, open := range []func(*rig) *peer{(*rig).dial, (*rig).pipe} {
		r := start(t)
		p := open(r)
		p.sendAside(v311("a").bytes(), subscribe311(1, "t", 1), pub311(1, 2, "t", "x"), pub311(2, 3, "u", "y"), ack(0x62, 3))
		p.expect(connack311, pkt(0x90, uint16(1), 1))
		rest := [][]byte{p.next(), p.next(), p.next(), p.next()}
		for _, want := range [][]byte{ack(0x40, 2), ack(0x50, 3), ack(0x70, 3), pub311(1, 2, "t", "x")} {
			if !slices.ContainsFunc(rest, func(got []byte) bool { return bytes.Equal(got, want) }) {
				t.Fatalf("no %s in %s", show(want), show(bytes.Join(rest, nil)))
			}
		}
	}
}

func TestTooManyConnectionsAreTurnedAway(t *testing.T) {
	r := start(t, func(r *rig) { r.opt.MaxConnections = 1 })
	first := r.connect(v311("a"))
	r.dial().closed()
	if n := r.stats().Refused.Load(); n != 1 {
		t.Errorf("%d refused", n)
	}
	first.leave()
	r.eventually("the place", func() bool { return r.stats().Connections.Load() == 0 })
	r.connect(v311("b"))
}

func TestTheServersKeepAliveAndExpiryAreAnnouncedWhereTheyDiffer(t *testing.T) {
	r := start(t, func(r *rig) { r.opt.MaxKeepAlive, r.opt.MaxSessionExpiry = 30*time.Second, 60 })
	p := r.dial()
	h := v5("a")
	h.expiry = 61
	p.send(h.bytes())
	p.expect(connack5(0, 0x11, uint32(60), 0x13, uint16(30)))
	p = r.dial()
	h.id, h.expiry, h.keepAlive = "b", 60, 30
	p.send(h.bytes())
	p.expect(connack5(0))
}
