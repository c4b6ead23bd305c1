package e2e

import (
	"fmt"
	"testing"
	"time"

	. "emanet/e2e/harness"
)

func TestLimitOnConnections(t *testing.T) {
	OnlyEmanet(t)
	t.Parallel()
	b := Start(t, "--max-connections", "2")
	first := Open(t, b.Addr(), Clean(4, "first"))
	second := Open(t, b.Addr(), Clean(5, "second"))
	limited(t, b, "max-connections", func(t *testing.T, version byte) {
		if c, code := tryConnect(t, b, Clean(version, Name("c"))); c != nil || code != 0 {
			t.Errorf("a third connection is answered by %#x, not closed", code)
		}
	})
	first.Ping()
	second.Disconnect()
	Eventually(t, "the place that came free is given", func() bool {
		c, _ := tryConnect(t, b, Clean(5, Name("c")))
		return c != nil
	})
}

func TestLimitOnConnectionsPerAddress(t *testing.T) {
	OnlyEmanet(t)
	t.Parallel()
	b := Start(t, "--max-connections-per-address", "2")
	Open(t, b.Addr(), Clean(4, "first"))
	Open(t, b.Addr(), Clean(5, "second"))
	limited(t, b, "max-connections-per-address", func(t *testing.T, version byte) {
		if c, code := tryConnect(t, b, Clean(version, Name("c"))); c != nil || code != 0 {
			t.Errorf("a third connection of 127.0.0.1 is answered by %#x, not closed", code)
		}
		other := DialFrom(t, "127.0.0.2", b.Addr(), version)
		other.Write(Clean(version, Name("c")).Bytes())
		if p := other.Expect(CONNACK); p.Code != 0 {
			t.Errorf("another address is answered by %v", p)
		}
		other.Disconnect()
	})
}

func TestLimitOnTheRateOfConnections(t *testing.T) {
	OnlyEmanet(t)
	t.Parallel()
	for flag, elsewhere := range map[string]bool{"connect-rate": false, "connect-rate-per-address": true} {
		b := Start(t, "--"+flag, "1")
		limited(t, b, flag, func(t *testing.T, version byte) {
			code := byte(0)
			for tries := 0; code == 0 && tries < 100; tries++ { // a busy machine may take a second for one
				_, code = tryConnect(t, b, Clean(version, Name("c")))
			}
			if code != byVersion(version, 3, 0x9F) {
				t.Errorf("connections at once are answered by %#x", code)
			}
			if !elsewhere {
				return
			}
			other := DialFrom(t, fmt.Sprintf("127.0.0.%d", version), b.Addr(), version)
			other.Write(Clean(version, Name("c")).Bytes())
			if p := other.Expect(CONNACK); p.Code != 0 {
				t.Errorf("another address is answered by %v", p)
			}
		})
		Eventually(t, "a connection is accepted again", func() bool {
			c, _ := tryConnect(t, b, Clean(5, Name("c")))
			return c != nil
		})
	}
}

// A flood of connections that never say anything must not keep out those that do.
func TestLimitOnPendingHandshakes(t *testing.T) {
	OnlyEmanet(t)
	t.Parallel()
	const most, flood = 10, 60
	b := Start(t, "--mqtt-max-pending-handshakes", fmt.Sprint(most), "--mqtt-connect-timeout", "2s")
	limited(t, b, "mqtt-max-pending-handshakes", func(t *testing.T, version byte) {
		silent := make([]*Client, flood)
		for i := range silent {
			silent[i] = Dial(t, b.Addr(), version)
		}
		began := time.Now()
		good := Open(t, b.Addr(), Clean(version, Name("good")))
		// A quarter of two seconds for every ten of them, and some time for a busy machine.
		if waited := time.Since(began); waited > 8*time.Second {
			t.Errorf("behind %d silent connections a good one waited %v", flood, waited)
		}
		if pending := b.Metrics()["emanet_mqtt_pending_handshakes"]; pending > most {
			t.Errorf("%v handshakes are pending, of at most %d", pending, most)
		}
		for _, c := range silent {
			c.ExpectClosed()
		}
		good.Ping()
	})
}

func TestLimitOnTheTimeForConnect(t *testing.T) {
	OnlyEmanet(t)
	t.Parallel()
	b := Start(t, "--mqtt-connect-timeout", "200ms")
	limited(t, b, "mqtt-connect-timeout", func(t *testing.T, version byte) {
		silent := Dial(t, b.Addr(), version)
		if last := silent.ExpectClosed(); last.Type != 0 {
			t.Errorf("silence is answered by %v", last)
		}
		half := Dial(t, b.Addr(), version)
		half.Write(Clean(version, "half").Bytes()[:5])
		half.ExpectClosed()
	})
}

func TestLimitOnTheRateOfPublishes(t *testing.T) {
	OnlyEmanet(t)
	t.Parallel()
	const rate, sent = 20, 60 // the first second's worth comes at once
	least := time.Second * (sent - rate) / rate * 9 / 10
	for flag, size := range map[string]int{"mqtt-publish-rate": 10, "mqtt-publish-bytes-rate": 1000} {
		value := map[string]string{"mqtt-publish-rate": fmt.Sprint(rate), "mqtt-publish-bytes-rate": fmt.Sprint(rate * 1000)}[flag]
		b := Start(t, "--"+flag, value)
		limited(t, b, flag, func(t *testing.T, version byte) {
			topic := Name("t")
			subscriber := Open(t, b.Addr(), Clean(version, Name("s")))
			subscriber.Subscribe(To(topic, 1))
			connect := Clean(version, Name("c"))
			connect.KeepAlive = 1 // it is not read for longer, which is not its silence
			c := Open(t, b.Addr(), connect)
			began := time.Now()
			for i := range uint16(sent) {
				c.Send(Packet{Type: PUBLISH, Topic: topic, Payload: make([]byte, size), QoS: 1, ID: i + 1})
			}
			c.Send(Packet{Type: PINGREQ})
			for i := range uint16(sent) {
				if ack := c.Expect(PUBACK); ack.ID != i+1 || ack.Code != 0 {
					t.Fatalf("message %d is answered by %v", i+1, ack)
				}
			}
			if took := time.Since(began); took < least {
				t.Errorf("%d messages were taken in %v: that is no %s of %s", sent, took, flag, value)
			}
			c.Expect(PINGRESP)
			for range sent {
				subscriber.Ack(subscriber.Expect(PUBLISH))
			}
		})
		other := Open(t, b.Addr(), Clean(5, Name("other"))) // has a rate of its own
		other.Publish("t", "x", 1)
	}
}
