package e2e

import (
	"testing"
	"time"

	. "emanet/e2e/harness"
)

func expiring(id string, seconds uint32) Connect {
	return Connect{Version: 5, ClientID: id, Props: Props{Num(SessionExpiry, seconds)}}
}

// present connects and says whether the session was still there.
func present(t *testing.T, b *Broker, c Connect) bool {
	t.Helper()
	client := Open(t, b.Addr(), c)
	client.Drop()
	return client.Connack.SessionPresent
}

func TestASessionEndsItsExpiryIntervalAfterItsConnection(t *testing.T) {
	t.Parallel()
	b := Shared(t)
	short, long, none := expiring(Name("short"), 1), expiring(Name("long"), 100), expiring(Name("none"), 0)
	for _, c := range []Connect{short, long, none} {
		Open(t, b.Addr(), c).Disconnect()
	}
	pass(2200 * time.Millisecond)
	if present(t, b, short) {
		t.Error("a session of 1 s is there after 2 s [MQTT-4.1.0-2]")
	}
	if !present(t, b, long) {
		t.Error("a session of 100 s is gone after 2 s [MQTT-3.1.2-23]")
	}
	if present(t, b, none) {
		t.Error("a session of 0 s outlived its connection")
	}
}

func TestSessionExpiryCountsWhileTheBrokerIsDown(t *testing.T) {
	OnlyEmanet(t)
	t.Parallel()
	b := Start(t)
	Open(t, b.Addr(), expiring("short", 1)).Disconnect()
	Open(t, b.Addr(), expiring("long", 100)).Disconnect()
	b.Flush()
	b.Kill9()
	pass(1600 * time.Millisecond)
	b.Restart()
	if present(t, b, expiring("short", 1)) {
		t.Error("a session of 1 s is there although the broker was down for longer")
	}
	if !present(t, b, expiring("long", 100)) {
		t.Error("a session of 100 s is gone")
	}
}

func TestDisconnectMayShortenTheSessionButNotBeginOne(t *testing.T) {
	t.Parallel()
	b := Shared(t)
	kept := expiring(Name("c"), 100)
	c := Open(t, b.Addr(), kept)
	c.Send(Packet{Type: DISCONNECT, Props: Props{Num(SessionExpiry, 0)}})
	c.ExpectClosed()
	if present(t, b, kept) {
		t.Error("the session is there although DISCONNECT ended it")
	}
	c = Open(t, b.Addr(), expiring(Name("c"), 0))
	c.Send(Packet{Type: DISCONNECT, Props: Props{Num(SessionExpiry, 10)}})
	if last := c.ExpectClosed(); last.Code != 0x82 {
		t.Errorf("an expiry from zero to more ended with %v, not 0x82", last)
	}
}

func TestACleanStartDiscardsTheSession(t *testing.T) { // [MQTT-3.1.2-4] [MQTT-3.1.4-4] [MQTT311-3.1.2-6] [MQTT311-3.1.4-3]
	for _, version := range []byte{4, 5} {
		b := Start(t)
		session := Persistent(version, "c")
		c := Open(t, b.Addr(), session)
		c.Subscribe(To("t", 1))
		c.Disconnect()
		Open(t, b.Addr(), Clean(4, "p")).Publish("t", "x", 1)
		c = Open(t, b.Addr(), Clean(version, "c"))
		if c.Connack.SessionPresent {
			t.Errorf("version %d: session present after a clean start [MQTT-3.2.2-2] [MQTT311-3.2.2-1]", version)
		}
		c.Ping() // what was queued is gone
		expectNothingFrom(t, b, c, "t")
		b.Kill9()
		b.Restart()
		if present(t, b, session) {
			t.Errorf("version %d: the discarded session came back with the restart", version)
		}
	}
}

// expectNothingFrom publishes to a topic that the client is not subscribed to any more.
func expectNothingFrom(t *testing.T, b *Broker, c *Client, topic string) {
	t.Helper()
	Open(t, b.Addr(), Clean(4, Name("p"))).Publish(topic, "nobody should get this", 1)
	c.Ping()
}

func TestTakeoverEndsTheOldConnectionAndTellsItWhy(t *testing.T) {
	bothVersions(t, func(t *testing.T, b *Broker, version byte) {
		for _, session := range []Connect{Persistent(version, Name("c")), Clean(version, Name("c"))} {
			old := Open(t, b.Addr(), session)
			taken := Open(t, b.Addr(), session)
			taken.Ping()
			last := old.ExpectClosed() // [MQTT-3.1.4-3] [MQTT311-3.1.4-2]
			if version == 5 && last.Code != 0x8E {
				t.Errorf("taken over with %v, not 0x8E [MQTT-3.1.4-3]", last)
			}
			taken.Ping() // it is not the new one that ends
		}
	})
}

func TestAssignedClientIDsAreAnnouncedAndDistinct(t *testing.T) {
	t.Parallel()
	b := Shared(t)
	seen := map[string]bool{}
	for range 3 {
		c := Open(t, b.Addr(), Clean(5, ""))
		id, ok := c.Connack.Props.Find(AssignedClientID)
		if !ok || id.Str == "" || seen[id.Str] {
			t.Errorf("assigned client id %q [MQTT-3.1.3-6] [MQTT-3.1.3-7] [MQTT-3.2.2-16]", id.Str)
		}
		seen[id.Str] = true
	}
	if c := Open(t, b.Addr(), Clean(4, "")); c.Connack.Code != 0 {
		t.Errorf("3.1.1, clean, without id: %v [MQTT311-3.1.3-6]", c.Connack)
	}
	c := Dial(t, b.Addr(), 4)
	c.Write(Connect{Version: 4}.Bytes())
	if p := c.ExpectClosed(); p.Type != CONNACK || p.Code != 2 {
		t.Errorf("3.1.1, not clean, without id: %v, not code 2 [MQTT311-3.1.3-8]", p)
	}
}

func TestKeepAliveEndsASilentConnectionAfterOneAndAHalfTimes(t *testing.T) {
	bothVersions(t, func(t *testing.T, b *Broker, version byte) {
		connect := Clean(version, Name("c"))
		connect.KeepAlive = 1
		silent := Open(t, b.Addr(), connect)
		if p, ok := silent.Connack.Props.Find(ServerKeepAlive); ok {
			t.Fatalf("the server wants a keep-alive of %d instead", p.Int)
		}
		began := time.Now()
		connect.ClientID = Name("c")
		talking := Open(t, b.Addr(), connect)
		for range 5 {
			pass(500 * time.Millisecond)
			talking.Ping() // a connection that talks stays
		}
		last := silent.ExpectClosed()
		if took := time.Since(began); took < 1400*time.Millisecond || took > 6*time.Second {
			t.Errorf("ended after %v [MQTT-3.1.2-22] [MQTT-3.2.2-22] [MQTT311-3.1.2-24]", took)
		}
		if version == 5 && last.Code != 0x8D {
			t.Errorf("told %v, not 0x8D", last)
		}
	})
}

func TestTheServersLimitsAreInItsConnack(t *testing.T) {
	OnlyEmanet(t)
	t.Parallel()
	props := Open(t, Shared(t).Addr(), Clean(5, Name("c"))).Connack.Props
	for _, must := range []byte{ReceiveMaximum, MaximumPacketSize} {
		if p, ok := props.Find(must); !ok || p.Int == 0 {
			t.Errorf("property %#x is missing in %+v", must, props)
		}
	}
	if p, ok := props.Find(SharedSubscriptionAvl); ok && p.Int != 1 {
		t.Errorf("shared subscriptions are there, and CONNACK denies it: %+v", props)
	}
	if p, ok := props.Find(TopicAliasMaximum); !ok || p.Int == 0 {
		t.Errorf("topic aliases are there, and CONNACK does not say so: %+v", props)
	}
	if p, ok := props.Find(MaximumQoS); ok {
		t.Errorf("QoS 2 is there, and CONNACK limits it to %d", p.Int)
	}
}
