package e2e

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	. "emanet/e2e/harness"
)

func TestASubscriberThatStopsReadingNeitherDelaysOthersNorGrowsMemory(t *testing.T) {
	OnlyEmanet(t)
	t.Parallel()
	MemoryCounts(t)
	const bound, size, messages = 500, 8192, 20_000 // 160 MiB go by, 4 MiB may be kept for each
	b := Start(t, "--mqtt-max-queued", fmt.Sprint(bound))
	for i, connect := range []Connect{Clean(4, "stuck at QoS 0"), Clean(5, "stuck clean"), Persistent(4, "stuck persistent")} {
		c := Dial(t, b.Addr(), connect.Version)
		if err := c.Conn().SetReadBuffer(4096); err != nil {
			t.Fatal(err)
		}
		c.Write(connect.Bytes())
		c.Expect(CONNACK)
		c.Subscribe(To("flood", byte(min(i, 1))))
		// From here on it reads nothing.
	}
	reader := Open(t, b.Addr(), Clean(4, "reader"))
	reader.Subscribe(To("flood", 1))
	probe := Open(t, b.Addr(), Clean(4, "probe"))
	payload := bytes.Repeat([]byte("x"), size)

	memory, highest := RSS(t, b.Pid()), int64(0)
	slowest := time.Duration(0)
	for i := range messages {
		began := time.Now()
		probe.PublishPacket(Packet{Topic: "flood", Payload: payload, QoS: 1})
		p := reader.Expect(PUBLISH)
		if len(p.Payload) != size {
			t.Fatalf("%v", p)
		}
		reader.Ack(p)
		slowest = max(slowest, time.Since(began))
		if i%1000 == 0 {
			highest = max(highest, RSS(t, b.Pid()))
		}
	}
	if slowest > 5*time.Second {
		t.Errorf("one message took %v to a subscriber that reads", slowest)
	}
	if grown := highest - memory; grown > 96<<20 {
		t.Errorf("memory grew by %d MiB while %d MiB went by", grown>>20, messages*size>>20)
	}
	Open(t, b.Addr(), Clean(5, "after")).Ping()
}

// A client that never finishes its packets must not keep a connection for ever.
func TestASlowConnectIsCutOff(t *testing.T) {
	OnlyEmanet(t) // Mosquitto waits for ever
	t.Parallel()
	b := Start(t)
	silent, halfway := Dial(t, b.Addr(), 5), Dial(t, b.Addr(), 5)
	halfway.Write(Clean(5, "loris").Bytes()[:7])
	dripping := Dial(t, b.Addr(), 5)
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		tick := time.NewTicker(300 * time.Millisecond)
		defer tick.Stop()
		dripping.Write([]byte{0x10, 0xFF, 1})
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				dripping.Write([]byte{0})
			}
		}
	}()
	Open(t, b.Addr(), Clean(5, "undisturbed")).Ping()
	for _, c := range []*Client{silent, halfway} {
		c.ExpectClosedWithin(3 * Patience)
	}
	dripping.ExpectClosedWithin(3 * Patience)
}

func TestBytesThatNeverBecomeAPacketDoNotKeepAConnectionAlive(t *testing.T) {
	OnlyEmanet(t)
	t.Parallel()
	b := Shared(t)
	connect := Clean(5, Name("loris"))
	connect.KeepAlive = 1
	c := Open(t, b.Addr(), connect)
	c.Write([]byte{0x30, 0xFF, 0x7F, 0, 1, 'a', 0})
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				c.Write([]byte("x"))
			}
		}
	}()
	if last := c.ExpectClosed(); last.Code != 0x8D {
		t.Errorf("ended with %v, not 0x8D [MQTT-3.1.2-22]", last)
	}
}
