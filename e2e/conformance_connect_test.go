package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	. "emanet/e2e/harness"
)

// The tests of conformance_*_test.go go through the normative statements of both versions one by one. The form of
// every packet that they read, and that CONNACK comes first and nothing behind DISCONNECT, is checked by the harness.

// bothVersions runs a test against the shared broker as a client of 3.1.1 and as one of 5, each over TCP and over
// WebSocket, there in frames that are cut anywhere.
func bothVersions(t *testing.T, test func(t *testing.T, b *Broker, version byte)) {
	t.Helper()
	for _, version := range []byte{4, 5} {
		t.Run(fmt.Sprintf("MQTT version %d", version), func(t *testing.T) {
			t.Parallel()
			test(t, Shared(t), version)
		})
		if !IsEmanet() {
			continue // the others are set up without
		}
		t.Run(fmt.Sprintf("MQTT version %d over WebSocket", version), func(t *testing.T) {
			t.Parallel()
			test(t, Shared(t).OverWebSocket(), version)
		})
	}
}

// properties is an empty block of them where the version has one.
func properties(version byte) []byte {
	if version == 5 {
		return none
	}
	return nil
}

func TestClientIDsOfUpToTwentyThreeLettersAndDigitsAreTaken(t *testing.T) {
	t.Parallel()
	b := Shared(t)
	const letters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	for _, version := range []byte{4, 5} {
		for from := 0; from < len(letters); from += 23 {
			id := letters[from:min(from+23, len(letters))]
			for _, id := range []string{id, id[:1], strings.Repeat(id[:1], 23)} {
				// [MQTT-3.1.3-5] [MQTT-3.1.4-5] [MQTT311-3.1.3-5] [MQTT311-3.1.4-4]
				Open(t, b.Addr(), Clean(version, id)).Disconnect()
			}
		}
	}
}

func TestTheClientIDIsTheKeyOfTheSession(t *testing.T) { // [MQTT-3.1.3-2] [MQTT311-3.1.3-2]
	bothVersions(t, func(t *testing.T, b *Broker, version byte) {
		id, topic := Name("key"), Name("topic")
		one := Open(t, b.Addr(), Persistent(version, id))
		one.Subscribe(To(topic, 1))
		one.Disconnect()
		for _, other := range []string{strings.ToUpper(id), id + " ", id + "x"} {
			c := Open(t, b.Addr(), Persistent(version, other))
			if c.Connack.SessionPresent {
				t.Errorf("%q was given the session of %q", other, id)
			}
			defer c.Drop()
		}
		one = Open(t, b.Addr(), Persistent(version, id))
		if !one.Connack.SessionPresent {
			t.Error("the session is not found under its client id")
		}
		one.Ack(expectNothingBefore(t, b, one, topic))
	})
}

func TestASessionIsCreatedWhereNoneWasAndResumedWhereOneWas(t *testing.T) {
	bothVersions(t, func(t *testing.T, b *Broker, version byte) {
		session := Persistent(version, Name("c"))
		c := Open(t, b.Addr(), session)
		if c.Connack.SessionPresent {
			t.Error("a session before there was one [MQTT-3.1.2-6] [MQTT-3.2.2-3] [MQTT311-3.2.2-3]")
		}
		c.Disconnect()
		if c = Open(t, b.Addr(), session); !c.Connack.SessionPresent {
			t.Error("no session although one was created [MQTT-3.1.2-6] [MQTT-3.2.2-3] [MQTT311-3.1.2-4] [MQTT311-3.2.2-2]")
		}
	})
}

func TestTheStateOfACleanConnectionEndsWithIt(t *testing.T) { // [MQTT-4.1.0-2] [MQTT311-3.1.2-6]
	bothVersions(t, func(t *testing.T, b *Broker, version byte) {
		id, topic := Name("c"), Name("topic")
		c := Open(t, b.Addr(), Clean(version, id))
		c.Subscribe(To(topic, 2))
		Open(t, b.Addr(), Clean(version, Name("p"))).Publish(topic, "in flight", 2)
		c.ExpectPublish(topic, "in flight")
		c.Disconnect()
		c = Open(t, b.Addr(), Persistent(version, id))
		if c.Connack.SessionPresent {
			t.Error("a clean connection left a session")
		}
		Open(t, b.Addr(), Clean(version, Name("p"))).Publish(topic, "after", 1)
		c.Ping() // neither the message nor the subscription is there
	})
}

// wrongConnects are packets that are no CONNECT of their version.
func wrongConnects(version byte) map[string][]byte {
	none := properties(version)
	wrong := map[string][]byte{
		"a will without its topic":            connectWith(version, 6, none, text("x")),                               // [MQTT-3.1.2-9] [MQTT311-3.1.2-9]
		"a will without its payload":          connectWith(version, 6, none, text("x"), none, text("w")),              // [MQTT-3.1.2-9] [MQTT311-3.1.2-9]
		"a will that was not announced":       connectWith(version, 2, none, text("x"), none, text("w"), text("p")),   // [MQTT311-3.1.2-11]
		"a will at QoS 3":                     connectWith(version, 0x1E, none, text("x"), none, text("w"), text("")), // [MQTT-3.1.2-12] [MQTT311-3.1.2-14]
		"a will QoS without a will":           connectWith(version, 0x0A, none, text("x")),                            // [MQTT-3.1.2-11] [MQTT311-3.1.2-13]
		"will retain without a will":          connectWith(version, 0x22, none, text("x")),                            // [MQTT-3.1.2-13] [MQTT311-3.1.2-15]
		"a will topic that is not UTF-8":      connectWith(version, 6, none, text("x"), none, text("\xff"), text("")), // [MQTT-3.1.3-11] [MQTT311-3.1.3-10]
		"no user name where one is announced": connectWith(version, 0x82, none, text("x")),                            // [MQTT-3.1.2-17] [MQTT311-3.1.2-19]
		"a user name that was not announced":  connectWith(version, 2, none, text("x"), text("u")),                    // [MQTT-3.1.2-16] [MQTT311-3.1.2-18]
		"no password where one is announced":  connectWith(version, 0xC2, none, text("x"), text("u")),                 // [MQTT-3.1.2-19] [MQTT311-3.1.2-21]
		"a password that was not announced":   connectWith(version, 0x82, none, text("x"), text("u"), text("p")),      // [MQTT-3.1.2-18] [MQTT311-3.1.2-20]
		"a user name that is not UTF-8":       connectWith(version, 0x82, none, text("x"), text("\xff")),              // [MQTT-3.1.3-12] [MQTT311-3.1.3-11]
		"a client id that is not UTF-8":       connectWith(version, 2, none, text("\xc0\x80")),                        // [MQTT-3.1.3-4] [MQTT311-3.1.3-4]
		"no client id":                        connectWith(version, 2, none),                                          // [MQTT-3.1.3-3] [MQTT311-3.1.3-3]
		"the reserved flag":                   connectWith(version, 3, none, text("x")),                               // [MQTT-3.1.2-3] [MQTT311-3.1.2-3]
		"flags in the fixed header":           append([]byte{0x11}, Clean(version, "x").Bytes()[1:]...),               // [MQTT-2.1.3-1] [MQTT311-2.2.2-1]
	}
	if version == 4 {
		wrong["a password without a user name"] = connectWith(4, 0x42, nil, text("x"), text("p")) // [MQTT311-3.1.2-22]
	}
	return wrong
}

func TestAConnectOfTheWrongFormClosesTheConnection(t *testing.T) {
	OnlyEmanet(t) // Mosquitto 2.0.11 takes some of these
	bothVersions(t, func(t *testing.T, b *Broker, version byte) {
		for name, bytes := range wrongConnects(version) {
			c := Dial(t, b.Addr(), version)
			c.Write(bytes)
			last := c.ExpectClosed() // [MQTT-3.1.4-1] [MQTT-3.2.2-8] [MQTT-4.13.1-1] [MQTT311-4.8.0-1]
			switch {
			case version == 4 && last.Type != 0:
				t.Errorf("%s: 3.1.1 has no word for it, yet %v [MQTT311-3.1.4-1] [MQTT311-3.2.2-6]", name, last)
			case version == 5 && last.Type == DISCONNECT:
				t.Errorf("%s: %v before there was a connection [MQTT-3.14.0-1]", name, last)
			case last.Type == CONNACK && last.Code < 0x80:
				t.Errorf("%s: %v, which is no refusal", name, last)
			}
		}
	})
}

func TestAnotherProtocolsNameClosesTheConnection(t *testing.T) { // [MQTT-3.1.2-1] [MQTT311-3.1.2-1]
	bothVersions(t, func(t *testing.T, b *Broker, version byte) {
		for _, name := range []string{"MQTt", "mqtt", "MQT", "MQTTT", ""} {
			c := Dial(t, b.Addr(), version)
			c.Write(Frame(0x10, join(text(name), []byte{version, 2, 0, 0}, properties(version), text("x"))))
			if last := c.ExpectClosed(); last.Type == CONNACK && last.Code == 0 {
				t.Errorf("%q was taken for MQTT", name)
			}
		}
	})
}

// refused is a CONNECT of the right form that is not accepted, and the code that says so.
func refused(version byte) (connect Connect, code byte) {
	if version == 4 {
		return Connect{Version: 4}, 2 // no client id, and no clean session [MQTT311-3.1.3-7]
	}
	connect = Clean(5, Name("c"))
	connect.Props = Props{Text(AuthMethod, "no such method")}
	return connect, 0x8C
}

func TestARefusedConnectIsToldWhyAndClosed(t *testing.T) {
	bothVersions(t, func(t *testing.T, b *Broker, version byte) {
		connect, code := refused(version)
		c := Dial(t, b.Addr(), version)
		c.Write(connect.Bytes())
		last := c.ExpectClosed() // [MQTT-3.1.4-2] [MQTT-3.2.2-7] [MQTT-4.13.2-1] [MQTT311-3.2.2-5]
		if last.Type != CONNACK || last.Code != code {
			t.Errorf("refused with %v, not %#x [MQTT-4.12.0-1] [MQTT311-3.1.3-8] [MQTT311-3.1.3-9]", last, code)
		}
		if last.SessionPresent {
			t.Error("a session with a refusal [MQTT-3.2.2-6] [MQTT311-3.2.2-4]")
		}
	})
}

func TestWhatComesBehindARefusedConnectIsNotActedUpon(t *testing.T) { // [MQTT-3.1.4-6] [MQTT311-3.1.4-5]
	bothVersions(t, func(t *testing.T, b *Broker, version byte) {
		topic := Name("topic")
		s := Open(t, b.Addr(), Clean(version, Name("s")))
		s.Subscribe(To(topic, 1))
		connect, _ := refused(version)
		c := Dial(t, b.Addr(), version)
		publish := Packet{Type: PUBLISH, QoS: 1, ID: 1, Retain: true, Topic: topic, Payload: []byte("smuggled")}
		c.Write(append(connect.Bytes(), publish.Bytes(version)...))
		c.ExpectClosed()
		s.Ack(expectNothingBefore(t, b, s, topic))
		v := Open(t, b.Addr(), Clean(version, Name("v")))
		v.Subscribe(To(topic, 1))
		v.Ping() // it was not kept either
	})
}

func TestASecondConnectIsAnsweredByTheEndOfTheConnection(t *testing.T) {
	bothVersions(t, func(t *testing.T, b *Broker, version byte) {
		connect := Clean(version, Name("c"))
		c := Open(t, b.Addr(), connect)
		c.Write(connect.Bytes())
		last := c.ExpectClosed() // and not by a second CONNACK [MQTT-3.1.0-2] [MQTT-3.2.0-2] [MQTT311-3.1.0-2]
		if IsEmanet() && version == 5 && last.Code != 0x82 {
			t.Errorf("ended with %v, not 0x82", last)
		}
	})
}

func TestConnackComesBeforeAnythingElse(t *testing.T) { // [MQTT-3.2.0-1] [MQTT311-3.2.0-1]
	bothVersions(t, func(t *testing.T, b *Broker, version byte) {
		session, topic := Persistent(version, Name("c")), Name("topic")
		c := Open(t, b.Addr(), session)
		c.Subscribe(To(topic, 1))
		c.Disconnect()
		p := Open(t, b.Addr(), Clean(version, Name("p")))
		for i := range 20 {
			p.Publish(topic, fmt.Sprint(i), 1)
		}
		c = Dial(t, b.Addr(), version)
		c.Write(join(session.Bytes(), Packet{Type: PINGREQ}.Bytes(version), SubscribeBytes(version, 9, nil, To(topic+"/x", 0))))
		c.Expect(CONNACK)
		got := map[byte]int{}
		for range 22 {
			got[c.Read().Type]++
		}
		if got[PUBLISH] != 20 || got[PINGRESP] != 1 || got[SUBACK] != 1 {
			t.Errorf("behind CONNACK came %v", got)
		}
	})
}

func TestTheStreamMayBeCutAnywhere(t *testing.T) { // [MQTT-4.2-1] [MQTT311-7.1.1-1]
	bothVersions(t, func(t *testing.T, b *Broker, version byte) {
		topic := Name("topic")
		c := Dial(t, b.Addr(), version)
		if err := c.Conn().SetNoDelay(true); err != nil {
			t.Fatal(err)
		}
		publish := Packet{Type: PUBLISH, QoS: 1, ID: 2, Topic: topic, Payload: []byte("cut")}
		for _, one := range join(Clean(version, Name("c")).Bytes(), SubscribeBytes(version, 1, nil, To(topic, 0)), publish.Bytes(version)) {
			c.Write([]byte{one})
		}
		c.Expect(CONNACK)
		c.Expect(SUBACK)
		kinds := map[byte]bool{c.Read().Type: true, c.Read().Type: true}
		if !kinds[PUBACK] || !kinds[PUBLISH] {
			t.Errorf("answered with %v", kinds)
		}
	})
}

func TestConnackOffersNothingThatWasNotAskedFor(t *testing.T) {
	t.Parallel()
	b := Shared(t)
	for _, ask := range []Props{nil, {Num(RequestResponseInfo, 0)}} {
		connect := Clean(5, Name("c"))
		connect.Props = ask
		c := Open(t, b.Addr(), connect)
		if p, ok := c.Connack.Props.Find(ResponseInfo); ok {
			t.Errorf("response information %q [MQTT-3.1.2-28]", p.Str)
		}
		if p, ok := c.Connack.Props.Find(AuthMethod); ok {
			t.Errorf("authentication method %q [MQTT-4.12.0-6]", p.Str)
		}
		c.Ping() // and no AUTH [MQTT-4.12.0-6]
	}
}

func TestPingreqIsAnswered(t *testing.T) { // [MQTT-3.12.4-1] [MQTT311-3.12.4-1]
	bothVersions(t, func(t *testing.T, b *Broker, version byte) {
		c := Open(t, b.Addr(), Clean(version, Name("c")))
		for range 3 {
			c.Send(Packet{Type: PINGREQ})
		}
		for range 3 {
			c.Expect(PINGRESP)
		}
	})
}

func TestASessionLastsAsLongAsItsConnection(t *testing.T) { // [MQTT-4.1.0-1] [MQTT311-4.1.0-2]
	t.Parallel()
	b, topic := Shared(t), Name("topic")
	connects := []Connect{Clean(4, Name("c")), Clean(5, Name("c")), expiring(Name("c"), 0), expiring(Name("c"), 1)}
	var clients []*Client
	for _, connect := range connects {
		c := Open(t, b.Addr(), connect)
		c.Subscribe(To(topic, 1))
		clients = append(clients, c)
	}
	pass(2200 * time.Millisecond) // longer than any of them would last without its connection
	Open(t, b.Addr(), Clean(4, Name("p"))).Publish(topic, "still there", 1)
	for _, c := range clients {
		c.ExpectPublish(topic, "still there")
	}
}
