package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	. "emanet/e2e/harness"
)

// Every limit is hit once and answers as docs/operations.md says, to clients of both versions. A test of
// internal/app holds that table against the flags, the metrics and the names of these tests.

// limited runs check for both versions, as a test named after the flag, and expects the limit to count each.
func limited(t *testing.T, b *Broker, flag string, check func(t *testing.T, version byte)) {
	t.Helper()
	limitedFor(t, b, flag, []byte{4, 5}, check)
}

func limitedFor(t *testing.T, b *Broker, flag string, versions []byte, check func(t *testing.T, version byte)) {
	t.Helper()
	for _, version := range versions {
		t.Run(fmt.Sprintf("%s/v%d", flag, version), func(t *testing.T) {
			series := fmt.Sprintf("emanet_limit_hits_total{name=%q}", flag)
			before, known := b.Metrics()[series]
			if !known {
				t.Fatalf("/metrics has no %s", series)
			}
			check(t, version)
			Eventually(t, series+" has grown", func() bool { return b.Metrics()[series] > before })
			if limit, ok := b.Metrics()[fmt.Sprintf("emanet_limit{name=%q}", flag)]; !ok || limit <= 0 {
				t.Errorf("emanet_limit of %s is %v, %t", flag, limit, ok)
			}
		})
	}
}

// tryConnect sends a CONNECT and gives the connection if it is accepted, else the code of CONNACK, 0 when there is none.
func tryConnect(t *testing.T, b *Broker, c Connect) (client *Client, code byte) {
	t.Helper()
	client = Dial(t, b.Addr(), c.Version)
	client.Write(c.Bytes())
	p, err := client.TryRead(Patience)
	switch {
	case err != nil:
		return nil, 0
	case p.Type != CONNACK:
		t.Fatalf("CONNECT is answered by %v", p)
	case p.Code == 0:
		client.Connack = p
		return client, 0
	}
	client.ExpectClosed()
	return nil, p.Code
}

// byVersion picks what a version gets.
func byVersion(version, v4, v5 byte) byte {
	if version == 5 {
		return v5
	}
	return v4
}

// expectRefused sends a PUBLISH of QoS 1 that is refused: with a code in MQTT 5, and in 3.1.1, which has none, by the
// end of the connection.
func expectRefused(t *testing.T, c *Client, p Packet, code byte) {
	t.Helper()
	p.Type, p.QoS, p.ID = PUBLISH, 1, c.NextID()
	c.Send(p)
	if c.Version != 5 {
		c.ExpectClosed()
		return
	}
	if ack := c.Expect(PUBACK); ack.Code != code || ack.ID != p.ID {
		t.Errorf("answered by %v, not %#x", ack, code)
	}
}

func TestLimitsOnTopics(t *testing.T) {
	OnlyEmanet(t)
	t.Parallel()
	b := Start(t, "--mqtt-max-topic-levels", "3", "--mqtt-max-topic-bytes", "20", "--mqtt-max-subscriptions", "2",
		"--retained-max", "2")
	for flag, topic := range map[string]string{
		"mqtt-max-topic-levels": "a/b/c/d", "mqtt-max-topic-bytes": strings.Repeat("x", 21),
	} {
		limited(t, b, flag, func(t *testing.T, version byte) {
			publisher := Open(t, b.Addr(), Clean(version, Name("c")))
			publisher.Send(Packet{Type: PUBLISH, Topic: topic, Payload: []byte("x")})
			if last := publisher.ExpectClosed(); last.Code != byVersion(version, 0, 0x90) {
				t.Errorf("a publish ended with %v", last)
			}
			subscriber := Open(t, b.Addr(), Clean(version, Name("c")))
			if codes := subscriber.Subscribe(To(topic, 1), To("a/b/c", 1)); codes[0] != byVersion(version, 0x80, 0x8F) || codes[1] != 1 {
				t.Errorf("a subscription was answered by %x", codes)
			}
			willing := Clean(version, Name("c"))
			willing.Will = &Will{Topic: topic, Payload: "x"}
			if c, code := tryConnect(t, b, willing); c != nil || code != byVersion(version, 0, 0x90) {
				t.Errorf("a will was answered by %#x", code)
			}
		})
	}
	limited(t, b, "mqtt-max-subscriptions", func(t *testing.T, version byte) {
		c := Open(t, b.Addr(), Clean(version, Name("c")))
		if codes := c.Subscribe(To("1", 0), To("2", 1), To("3", 2)); codes[0] != 0 || codes[1] != 1 || codes[2] != byVersion(version, 0x80, 0x97) {
			t.Errorf("three subscriptions of at most two were answered by %x", codes)
		}
		if codes := c.Subscribe(To("2", 0)); codes[0] != 0 {
			t.Errorf("to change one of two was answered by %x", codes)
		}
	})
	limited(t, b, "retained-max", func(t *testing.T, version byte) {
		c := Open(t, b.Addr(), Clean(version, Name("c")))
		for _, topic := range []string{"r/1", "r/2", "r/1"} { // the last one replaces
			c.PublishPacket(Packet{Topic: topic, Payload: []byte("x"), QoS: 1, Retain: true})
		}
		expectRefused(t, c, Packet{Topic: "r/3", Payload: []byte("x"), Retain: true}, 0x97)
	})
}

func TestLimitOnTheMemoryOfRetainedMessages(t *testing.T) {
	OnlyEmanet(t)
	t.Parallel()
	b := Start(t, "--retained-max-bytes", "4KiB")
	limited(t, b, "retained-max-bytes", func(t *testing.T, version byte) {
		c := Open(t, b.Addr(), Clean(version, Name("c")))
		retain := func(topic string, size int) Packet {
			return Packet{Topic: topic, Payload: []byte(strings.Repeat("x", size)), QoS: 1, Retain: true}
		}
		c.PublishPacket(retain("r/1", 3000))
		before := b.Metrics()["emanet_retained_bytes"]
		if before < 3000 || before > 4096 {
			t.Errorf("emanet_retained_bytes is %v", before)
		}
		c.PublishPacket(retain("r/1", 2900)) // smaller than what it replaces
		c.PublishPacket(retain("r/1", 3000))
		expectRefused(t, c, retain("r/2", 1500), 0x97)
		again := Open(t, b.Addr(), Clean(version, Name("c")))
		again.PublishPacket(retain("r/1", 0)) // clears
		again.PublishPacket(retain("r/2", 1500))
		again.PublishPacket(retain("r/2", 0))
		if left := b.Metrics()["emanet_retained_bytes"]; left != 0 {
			t.Errorf("with nothing retained emanet_retained_bytes is %v", left)
		}
	})
}

func TestLimitOnTheSizeOfConnect(t *testing.T) {
	OnlyEmanet(t)
	t.Parallel()
	big := func(version byte, n int) Connect {
		c := as(version, Name("c"), strings.Repeat("u", n), strings.Repeat("p", n))
		c.Will = &Will{Topic: "will", Payload: strings.Repeat("w", n)}
		return c
	}
	b := Start(t)
	limited(t, b, "mqtt-max-connect-bytes", func(t *testing.T, version byte) {
		if c, code := tryConnect(t, b, big(version, 65535)); c == nil {
			t.Fatalf("a will, a user name and a password of 64 KiB each are refused with %#x", code)
		}
		c := Dial(t, b.Addr(), version)
		c.Write([]byte{0x10, 0x80, 0x80, 0x10}) // 256 KiB after these
		c.ExpectClosed()
	})
	b = Start(t, "--mqtt-max-connect-bytes", "1KiB")
	limited(t, b, "mqtt-max-connect-bytes", func(t *testing.T, version byte) {
		if c, code := tryConnect(t, b, big(version, 300)); c == nil {
			t.Fatalf("1000 bytes are refused with %#x", code)
		}
		if c, code := tryConnect(t, b, big(version, 350)); c != nil || code != 0 {
			t.Errorf("more than 1 KiB is answered with %#x", code)
		}
	})
}

func TestLimitsOnPacketsAndTheirNumber(t *testing.T) {
	OnlyEmanet(t)
	t.Parallel()
	b := Start(t, "--max-packet-bytes", "1KiB", "--mqtt-receive-maximum", "2", "--mqtt-max-inflight", "2")
	limited(t, b, "max-packet-bytes", func(t *testing.T, version byte) {
		c := Open(t, b.Addr(), Clean(version, Name("c")))
		if announced, ok := c.Connack.Props.Find(MaximumPacketSize); ok != (version == 5) || ok && announced.Int != 1024 {
			t.Errorf("CONNACK announces %v", announced)
		}
		c.Send(Packet{Type: PUBLISH, Topic: "t", Payload: make([]byte, 1024)})
		if last := c.ExpectClosed(); last.Code != byVersion(version, 0, 0x95) {
			t.Errorf("a packet of more than 1 KiB ended with %v", last)
		}
	})
	limitedFor(t, b, "mqtt-receive-maximum", []byte{5}, func(t *testing.T, version byte) {
		c := Open(t, b.Addr(), Clean(version, Name("c")))
		for id := range uint16(2) {
			c.Send(Packet{Type: PUBLISH, Topic: "t", QoS: 2, ID: id + 1})
			c.Expect(PUBREC)
		}
		c.Send(Packet{Type: PUBLISH, Topic: "t", QoS: 2, ID: 3})
		if last := c.ExpectClosed(); last.Code != 0x93 {
			t.Errorf("a third message in flight ended with %v", last)
		}
	})
	t.Run("mqtt-receive-maximum/v4", func(t *testing.T) { // which cannot be told of it
		c := Open(t, b.Addr(), Clean(4, Name("c")))
		for id := range uint16(5) {
			c.Send(Packet{Type: PUBLISH, Topic: "t", QoS: 2, ID: id + 1})
			c.Expect(PUBREC)
		}
	})
	for _, version := range []byte{4, 5} {
		t.Run(fmt.Sprintf("mqtt-max-inflight/v%d", version), func(t *testing.T) {
			c := Open(t, b.Addr(), Clean(version, Name("c")))
			topic := Name("t")
			c.Subscribe(To(topic, 1))
			other := Open(t, b.Addr(), Clean(version, Name("c")))
			for i := range 3 {
				other.Publish(topic, fmt.Sprint(i), 1)
			}
			first := c.ExpectPublish(topic, "0")
			c.ExpectPublish(topic, "1")
			c.Ping() // expects no third before its answer
			c.Ack(first)
			c.ExpectPublish(topic, "2")
		})
	}
}

func TestLimitsOnWhatWaitsForAClient(t *testing.T) {
	OnlyEmanet(t)
	t.Parallel()
	b := Start(t, "--mqtt-max-queued", "2", "--mqtt-overflow", "reject-new", "--mqtt-max-inflight", "1", "--mqtt-max-qos0-outbox", "64KiB")
	limited(t, b, "mqtt-max-queued", func(t *testing.T, version byte) {
		topic := Name("t")
		keeper := Open(t, b.Addr(), Persistent(version, Name("k")))
		keeper.Subscribe(To(topic, 1))
		keeper.Disconnect()
		c := Open(t, b.Addr(), Clean(version, Name("c")))
		c.Publish(topic, "1", 1)
		c.Publish(topic, "2", 1)
		expectRefused(t, c, Packet{Topic: topic, Payload: []byte("3")}, 0x97)
	})
	limited(t, b, "mqtt-max-qos0-outbox", func(t *testing.T, version byte) {
		topic := Name("t")
		slow := Open(t, b.Addr(), Clean(version, Name("slow")))
		slow.Subscribe(To(topic, 0))
		c := Open(t, b.Addr(), Clean(version, Name("c")))
		payload := make([]byte, 60<<10)
		dropped := func() float64 { return b.Metrics()["emanet_mqtt_live_dropped_total"] }
		before := dropped()
		Eventually(t, "QoS 0 messages are dropped", func() bool {
			for range 50 {
				c.Send(Packet{Type: PUBLISH, Topic: topic, Payload: payload})
			}
			c.Ping()
			return dropped() > before
		})
	})
}

func TestLimitOnTheMemoryOfWhatWaits(t *testing.T) {
	OnlyEmanet(t)
	t.Parallel()
	b := Start(t, "--mqtt-max-queued-bytes", "4KiB", "--mqtt-overflow", "reject-new", "--mqtt-max-inflight", "1")
	for _, version := range []byte{4, 5} {
		t.Run(fmt.Sprintf("mqtt-max-queued-bytes/v%d", version), func(t *testing.T) {
			topic := Name("t")
			slow := Open(t, b.Addr(), Clean(version, Name("slow")))
			slow.Subscribe(To(topic, 1))
			c := Open(t, b.Addr(), Clean(version, Name("c")))
			large := strings.Repeat("x", 2000)
			before := b.Metrics()[`emanet_dropped_total{reason="rejected"}`]
			c.Publish(topic, large, 1)
			slow.Expect(PUBLISH) // in flight, and not answered
			c.Publish(topic, large, 1)
			expectRefused(t, c, Packet{Topic: topic, Payload: []byte(large)}, 0x97)
			if now := b.Metrics()[`emanet_dropped_total{reason="rejected"}`]; now != before+1 {
				t.Errorf("rejected went from %v to %v", before, now)
			}
		})
	}
}

func TestLimitsOnSessions(t *testing.T) {
	OnlyEmanet(t)
	t.Parallel()
	b := Start(t, "--mqtt-max-sessions", "1", "--mqtt-max-session-expiry", "10s", "--mqtt-session-expiry", "1s", "--mqtt-max-will-delay", "5s")
	limited(t, b, "mqtt-max-sessions", func(t *testing.T, version byte) {
		keeper := Open(t, b.Addr(), Persistent(version, "keeper"))
		if c, code := tryConnect(t, b, Persistent(version, Name("other"))); c != nil || code != byVersion(version, 3, 0x97) {
			t.Errorf("a second persistent session is answered by %#x", code)
		}
		Open(t, b.Addr(), Clean(version, Name("clean"))).Ping()
		if n := b.Metrics()["emanet_persistent_sessions"]; n != 1 {
			t.Errorf("emanet_persistent_sessions is %v", n)
		}
		keeper.Disconnect()
		keeper = Open(t, b.Addr(), Persistent(version, "keeper"))
		if !keeper.Connack.SessionPresent {
			t.Error("the one there is cannot come back to its session")
		}
		Open(t, b.Addr(), Clean(version, "keeper")).Disconnect() // which ends it
	})
	limitedFor(t, b, "mqtt-max-session-expiry", []byte{5}, func(t *testing.T, version byte) {
		c := Open(t, b.Addr(), Persistent(version, "keeper"))
		if granted, ok := c.Connack.Props.Find(SessionExpiry); !ok || granted.Int != 10 {
			t.Errorf("an hour is answered by %v", granted)
		}
		Open(t, b.Addr(), Clean(version, "keeper")).Disconnect()
	})
	t.Run("mqtt-session-expiry/v4", func(t *testing.T) {
		Open(t, b.Addr(), Persistent(4, "keeper")).Disconnect()
		Eventually(t, "the session has ended", func() bool { return b.Metrics()["emanet_persistent_sessions"] == 0 })
	})
	limitedFor(t, b, "mqtt-max-will-delay", []byte{5}, func(t *testing.T, version byte) {
		willing := Clean(version, Name("c"))
		willing.Will = &Will{Topic: "t", Payload: "x", Props: Props{Num(WillDelay, 6)}}
		if c, code := tryConnect(t, b, willing); c != nil || code != 0x97 {
			t.Errorf("a will delay of six seconds is answered by %#x", code)
		}
		willing.Will.Props = Props{Num(WillDelay, 5)}
		Open(t, b.Addr(), willing).Disconnect()
	})
}

func TestLimitsOnKeepAlive(t *testing.T) {
	OnlyEmanet(t)
	t.Parallel()
	b := Start(t, "--mqtt-max-keep-alive", "5s", "--mqtt-min-keep-alive", "2s")
	for flag, asked := range map[string][]uint16{"mqtt-max-keep-alive": {6, 0}, "mqtt-min-keep-alive": {1}} {
		t.Run(flag+"/v5", func(t *testing.T) {
			for _, seconds := range asked {
				connect := Clean(5, Name("c"))
				connect.KeepAlive = seconds
				c := Open(t, b.Addr(), connect)
				want := map[bool]uint32{true: 5, false: 2}[flag == "mqtt-max-keep-alive"]
				if granted, ok := c.Connack.Props.Find(ServerKeepAlive); !ok || granted.Int != want {
					t.Errorf("%d seconds are answered by %v, not %d", seconds, granted, want)
				}
			}
		})
	}
	t.Run("mqtt-min-keep-alive/v4", func(t *testing.T) { // which cannot be told: it is ended later than it asked
		connect := Clean(4, Name("c"))
		connect.KeepAlive = 1
		c := Open(t, b.Addr(), connect)
		began := time.Now()
		c.ExpectClosed()
		if after := time.Since(began); after < 2900*time.Millisecond {
			t.Errorf("ended after %v, not after one and a half times two seconds", after)
		}
	})
	t.Run("mqtt-max-keep-alive/v4", func(t *testing.T) { // keeps what it asked for
		connect := Clean(4, Name("c"))
		connect.KeepAlive = 60
		Open(t, b.Addr(), connect).Ping()
	})
	if hits := b.Metrics()[`emanet_limit_hits_total{name="mqtt-max-keep-alive"}`]; hits != 4 {
		t.Errorf("%v keep-alives were changed, not 4", hits)
	}
}

func TestLimitOnTheRouteCache(t *testing.T) {
	OnlyEmanet(t)
	t.Parallel()
	b := Start(t, "--mqtt-route-cache", "1KiB")
	limited(t, b, "mqtt-route-cache", func(t *testing.T, version byte) {
		prefix := Name("t")
		c := Open(t, b.Addr(), Clean(version, Name("c")))
		c.Subscribe(To(prefix+"/#", 1))
		long := strings.Repeat("x", 5000)
		for round := range 3 {
			for i := range 5 {
				topic := fmt.Sprintf("%s/%d/%s", prefix, i, long)
				c.Send(Packet{Type: PUBLISH, Topic: topic, Payload: []byte{byte('0' + round)}})
				c.ExpectPublish(topic, fmt.Sprint(round))
			}
		}
	})
}

func TestLimitsOnTopicAliases(t *testing.T) {
	OnlyEmanet(t)
	t.Parallel()
	b := Start(t, "--mqtt-topic-alias-max", "2", "--mqtt-topic-alias-max-out", "1")
	limitedFor(t, b, "mqtt-topic-alias-max", []byte{5}, func(t *testing.T, version byte) {
		c := Open(t, b.Addr(), Clean(version, Name("c")))
		if most, _ := c.Connack.Props.Find(TopicAliasMaximum); most.Int != 2 {
			t.Errorf("CONNACK allows %d", most.Int)
		}
		c.Send(Packet{Type: PUBLISH, Topic: "t", Props: Props{Num(TopicAlias, 3)}})
		if last := c.ExpectClosed(); last.Code != 0x94 {
			t.Errorf("a third alias ended with %v", last)
		}
	})
	t.Run("mqtt-topic-alias-max-out/v5", func(t *testing.T) {
		connect := Clean(5, Name("c"))
		connect.Props = Props{Num(TopicAliasMaximum, 10)}
		c := Open(t, b.Addr(), connect)
		prefix := Name("t")
		c.Subscribe(To(prefix+"/#", 1))
		used := false
		for round := range 20 {
			for i := range 3 {
				c.Send(Packet{Type: PUBLISH, Topic: fmt.Sprintf("%s/%d", prefix, i), Payload: fmt.Append(nil, round)})
				p := c.Expect(PUBLISH)
				alias, ok := p.Props.Find(TopicAlias)
				if ok && alias.Int != 1 {
					t.Fatalf("alias %d is used, of at most one", alias.Int)
				}
				used = used || ok
			}
		}
		if !used {
			t.Error("no alias is used, and one may be")
		}
	})
}

func TestLimitOnTheMemoryOfBodies(t *testing.T) {
	OnlyEmanet(t)
	t.Parallel()
	b := Start(t, "--memory-budget", "1MiB")
	keeper := Open(t, b.Addr(), Persistent(5, "keeper"))
	keeper.Subscribe(To("t", 1))
	keeper.Disconnect()
	c := Open(t, b.Addr(), Clean(5, "c"))
	const count = 600
	body := strings.Repeat("x", 10_000)
	for range count {
		c.Publish("t", body, 1)
	}
	Eventually(t, "what waits has left the memory", func() bool {
		m := b.Metrics()
		return m["emanet_pending"] == count && m["emanet_mailbox_memory_bytes"] < 1<<20+256*10_300
	})
	keeper = Open(t, b.Addr(), Persistent(5, "keeper"))
	for range count {
		keeper.Ack(keeper.ExpectPublish("t", body))
	}
}
