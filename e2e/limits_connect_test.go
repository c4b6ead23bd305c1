package e2e

import (
	"crypto/pbkdf2"
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
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

// Behind a proxy each client has its own address.
func TestLimitOnConnectionsPerAddressBehindAProxy(t *testing.T) {
	OnlyEmanet(t)
	t.Parallel()
	b := Start(t, "--max-connections-per-address", "1", "--proxy-protocol", "require", "--proxy-trusted", "127.0.0.0/8",
		"--proxy-listeners", "mqtt")
	through := func(source string, version byte) *Client {
		c := Dial(t, b.Addr(), version)
		family := map[bool]string{true: "TCP6", false: "TCP4"}[strings.Contains(source, ":")]
		c.Write(fmt.Appendf(nil, "PROXY %s %s %[2]s 40000 1883\r\n", family, source))
		c.Write(Clean(version, Name("c")).Bytes())
		return c
	}
	limited(t, b, "max-connections-per-address", func(t *testing.T, version byte) {
		for _, source := range []string{"192.0.2.%d", "2001:db8:0:%d::1"} {
			source = fmt.Sprintf(source, version)
			if p := through(source, version).Expect(CONNACK); p.Code != 0 {
				t.Fatalf("the first connection of %s is answered by %v", source, p)
			}
			next := strings.Replace(source, "::1", "::2", 1) // of the same network
			if last := through(next, version).ExpectClosed(); last.Type != 0 {
				t.Errorf("a connection of %s beside it is answered by %v", next, last)
			}
		}
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
		m := b.Metrics()
		if pending, all := m["emanet_mqtt_pending_handshakes"], m["emanet_mqtt_connections"]; pending > most || all > 2*most {
			t.Errorf("%v handshakes are pending, of at most %d, and there are %v connections", pending, most, all)
		}
		for _, c := range silent {
			c.ExpectClosed()
		}
		good.Ping()
	})
}

func TestABrokerStopsWhileTooManyHandshakesArePending(t *testing.T) {
	OnlyEmanet(t)
	t.Parallel()
	b := Start(t, "--mqtt-max-pending-handshakes", "2", "--mqtt-connect-timeout", "1h")
	for range 5 {
		Dial(t, b.Addr(), 4)
	}
	Eventually(t, "two are pending", func() bool { return b.Metrics()["emanet_mqtt_pending_handshakes"] == 2 })
	b.Terminate() // fails when it takes a minute
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
			c.Ping()
		})
		other := Open(t, b.Addr(), Clean(5, Name("other"))) // has a rate of its own
		other.Publish("t", "x", 1)
	}
}

// passwords writes a password file in mosquitto's form: user "ann" and others, each with its name as password.
func passwords(t *testing.T, users ...string) string {
	t.Helper()
	const rounds = 101
	salt := []byte("not random")
	var lines strings.Builder
	for _, user := range users {
		hash, err := pbkdf2.Key(sha512.New, user, salt, rounds, 64)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&lines, "%s:$7$%d$%s$%s\n", user, rounds,
			base64.StdEncoding.EncodeToString(salt), base64.StdEncoding.EncodeToString(hash))
	}
	file := filepath.Join(t.TempDir(), "passwords")
	if err := os.WriteFile(file, []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func named(version byte, id, user string) Connect {
	c := Clean(version, id)
	c.User, c.Password = user, user
	return c
}

func TestLimitOnConnectionsPerUser(t *testing.T) {
	OnlyEmanet(t)
	t.Parallel()
	b := Start(t, "--mosquitto-passwords", passwords(t, "ann", "bob"), "--max-connections-per-user", "2")
	Open(t, b.Addr(), named(4, "first", "ann"))
	second := Open(t, b.Addr(), named(5, "second", "ann"))
	limited(t, b, "max-connections-per-user", func(t *testing.T, version byte) {
		if c, code := tryConnect(t, b, named(version, Name("c"), "ann")); c != nil || code != byVersion(version, 3, 0x97) {
			t.Errorf("a third client of a user is answered by %#x", code)
		}
		Open(t, b.Addr(), named(version, Name("c"), "bob")).Ping()
	})
	again := Open(t, b.Addr(), named(5, "second", "ann")) // takes over what is there
	second.ExpectClosed()
	again.Disconnect()
	Eventually(t, "the place that came free is given", func() bool {
		c, _ := tryConnect(t, b, named(5, Name("c"), "ann"))
		return c != nil
	})
}

func TestLimitOnTheDelayOfLogins(t *testing.T) {
	OnlyEmanet(t)
	t.Parallel()
	b := Start(t, "--mosquitto-passwords", passwords(t, "ann"), "--login-delay-max", "100ms")
	for _, version := range []byte{4, 5} {
		t.Run(fmt.Sprintf("login-delay-max/v%d", version), func(t *testing.T) {
			wrong := named(version, Name("c"), "ann")
			wrong.Password = "wrong"
			Eventually(t, "logins are delayed", func() bool {
				if c, code := tryConnect(t, b, wrong); c != nil || code != byVersion(version, 4, 0x86) {
					t.Fatalf("a wrong password is answered by %#x", code)
				}
				return b.Metrics()["emanet_logins_delayed_total"] > 0
			})
			began := time.Now()
			for range 6 {
				tryConnect(t, b, wrong)
			}
			Open(t, b.Addr(), named(version, Name("c"), "ann"))
			if took := time.Since(began); took > 8*time.Second { // with the default bound of 4s it would be at least 15
				t.Errorf("six refusals and the right password took %v, and 100ms is the most for each", took)
			}
		})
	}
}
