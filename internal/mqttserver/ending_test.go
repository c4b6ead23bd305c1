package mqttserver

import (
	"context"
	"testing"
	"time"
)

func TestATakeoverIsToldToTheLoser(t *testing.T) { // [MQTT-3.1.4-3], [MQTT311-3.1.4-2]
	r := start(t)
	for _, h := range []hello{v5("a"), v5live("b")} {
		old := r.connect(h)
		p := r.connect(h)
		old.goodbye(0x8E)
		p.nothing()
	}
	old := r.connect(v311("c"))
	p := r.connect(v311("c"))
	old.closed()
	p.nothing()
	if n := r.stats().Malformed.Load(); n != 0 {
		t.Errorf("%d counted as the client's fault", n)
	}
}

func TestAShutdownIsToldToMQTT5(t *testing.T) {
	r := start(t)
	five, three, half := r.connect(v5("a")), r.connect(v311("b")), r.dial()
	stuck := r.pipe()
	stuck.sendAside(v5live("stuck").bytes())
	if got := stuck.next(); got[0] != 0x20 {
		t.Fatal(show(got))
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.server.Shutdown(ctx) }()
	five.goodbye(0x8B)
	three.closed()
	half.closed()
	cancel() // for the one that does not read
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	r.dial().closed()
	if n := r.stats().Connections.Load(); n != 0 {
		t.Errorf("%d connections", n)
	}
}

// mourner is subscribed to the wills of a test.
func mourner(r *rig) *peer {
	r.Helper()
	p := r.connect(v311live("mourner"))
	p.subscribe(4, "will", 0)
	return p
}

func TestTheWillIsSentUnlessTheClientTookLeave(t *testing.T) { // [MQTT-3.1.2-8], [MQTT-3.14.4-3], [MQTT311-3.14.4-3]
	w := &will{topic: "will", payload: "gone"}
	for _, test := range []struct {
		name string
		h    hello
		last []byte
		sent bool
	}{
		{"DISCONNECT of 3.1.1", v311("a"), disconnect, false},
		{"DISCONNECT", v5("a"), disconnect, false},
		{"DISCONNECT 0x00", v5("a"), pkt(0xE0, 0, 0), false},
		{"DISCONNECT 0x04", v5("a"), pkt(0xE0, 4), true},
		{"DISCONNECT 0x80", v5("a"), pkt(0xE0, 0x80), true},
		{"a broken packet", v5("a"), []byte{0, 0}, true},
		{"a lost connection", v311live("a"), nil, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := start(t)
			m := mourner(r)
			test.h.will = w
			p := r.connect(test.h)
			if test.last != nil {
				p.send(test.last)
			}
			p.nc.Close()
			r.eventually("the end", func() bool { return r.stats().Connections.Load() == 1 })
			if test.sent {
				m.expect(pub311(0, 0, "will", "gone"))
			}
			m.nothing()
		})
	}
}

func TestAClientThatTookLeaveIsGoneWhenItsConnectionIs(t *testing.T) {
	r := start(t)
	m := mourner(r)
	h := v311("a")
	h.will = &will{topic: "will", payload: "gone"}
	for range 50 {
		p := r.connect(h)
		p.leave()
	}
	m.nothing()
	if n := r.server.broker.Counters().Takeovers.Load(); n != 0 {
		t.Errorf("%d takeovers", n)
	}
}

func TestDisconnectMayChangeTheExpiryButNotFromNone(t *testing.T) { // 3.14.2.2.2
	r := start(t)
	p := r.connect(v5live("a"))
	p.send(pkt(0xE0, 0, sized(cat(0x11, uint32(10)))))
	p.goodbye(0x82)
	p = r.connect(v5("a"))
	p.send(pkt(0xE0, 0, sized(cat(0x11, uint32(0))))) // the session ends with the connection
	p.closed()
	r.eventually("the end of the session", func() bool { return r.server.broker.Gauges().Sessions == 0 })
	p = r.dial()
	p.send(v5("a").bytes())
	p.expect(connack5(0))
}

func TestSilenceEndsAConnectionAfterOneAndAHalfTimesTheKeepAlive(t *testing.T) { // [MQTT-3.1.2-22], [MQTT311-3.1.2-24]
	r := start(t)
	h := v5live("a")
	h.keepAlive = 1
	five := r.connect(h)
	h = v311live("b")
	h.keepAlive = 1
	three := r.connect(h)
	h.id = "c"
	alive := r.connect(h)
	h.id = "d"
	trickle := r.connect(h) // bytes that never become a packet
	trickle.send([]byte{0x30, 100})
	begin := time.Now()
	go func() {
		tick := time.NewTicker(300 * time.Millisecond)
		defer tick.Stop()
		for range 8 {
			<-tick.C
			if _, err := alive.nc.Write(pingreq); err != nil {
				return
			}
			_, _ = trickle.nc.Write([]byte{0}) // fails once it is closed
		}
	}()
	five.goodbye(0x8D)
	three.closed()
	trickle.closed()
	if d := time.Since(begin); d < 1400*time.Millisecond {
		t.Errorf("after %v", d)
	}
	for range 8 {
		alive.expect(pingresp)
	}
}

func TestPacketsBehindDisconnectAreNotLookedAt(t *testing.T) { // [MQTT311-3.14.4-2]
	r := start(t)
	sub := r.connect(v311live("s"))
	sub.subscribe(4, "t", 0)
	p := r.connect(v311live("p"))
	p.send(pub311(0, 0, "t", "before"), disconnect, pub311(0, 0, "t", "behind"))
	p.closed()
	sub.expect(pub311(0, 0, "t", "before"))
	sub.nothing()
}
