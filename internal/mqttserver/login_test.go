package mqttserver

import (
	"bytes"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"emanet/internal/auth"
	"emanet/internal/mqttwire"
)

// access are the files of a test's users.
type access struct {
	passwords, acl string
	users          *auth.Users
}

// hashed is a line of a password file; the password of tests is the name and "-secret".
func hashed(name, salt string) string {
	sum := sha512.Sum512([]byte(name + "-secret" + salt))
	return fmt.Sprintf("%s:$6$%s$%s\n", name, base64.StdEncoding.EncodeToString([]byte(salt)), base64.StdEncoding.EncodeToString(sum[:]))
}

func (a *access) write(t testing.TB, acl string, names ...string) {
	t.Helper()
	text := ""
	for _, name := range names {
		text += hashed(name, "salt")
	}
	for path, text := range map[string]string{a.passwords: text, a.acl: acl} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// guarded starts a server with users and an ACL.
func guarded(t testing.TB, acl string, names ...string) (*rig, *access) {
	t.Helper()
	return guardedBy(t, nil, acl, names...)
}

func guardedBy(t testing.TB, change []func(*rig), acl string, names ...string) (*rig, *access) {
	t.Helper()
	dir := t.TempDir()
	a := &access{passwords: filepath.Join(dir, "passwords"), acl: filepath.Join(dir, "acl")}
	a.write(t, acl, names...)
	var err error
	if a.users, err = auth.Open(auth.Files{Passwords: a.passwords, ACL: a.acl, Anonymous: true, DelayMax: time.Hour}); err != nil {
		t.Fatal(err)
	}
	change = append(change, func(r *rig) { r.opt.Users, r.broOpt.Users = a.users, a.users })
	return start(t, change...), a
}

func (r *rig) reload(a *access, acl string, names ...string) {
	r.Helper()
	a.write(r, acl, names...)
	if err := a.users.Reload(); err != nil {
		r.Fatal(err)
	}
	r.server.DropUsers()
}

const aliceAndBob = `
topic read public/#
user alice
topic readwrite a/#
topic deny a/secret
user bob
topic read a/#
topic write b/#
`

func TestAShutdownWaitsForNoLogin(t *testing.T) {
	t.Parallel()
	r, a := guarded(t, aliceAndBob, "alice")
	const guesses = 12 // the last of which would be answered after many minutes
	for range guesses {
		h := v5("c")
		h.user, h.password = "alice", "guess"
		r.dial().send(h.bytes())
	}
	r.eventually("wrong passwords", func() bool { return a.users.LoginCounters().WrongPassword.Load() == guesses })
	began := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := r.server.Shutdown(ctx); err != nil || time.Since(began) > patience/2 {
		t.Errorf("the shutdown took %v: %v", time.Since(began), err)
	}
}

func TestAWrongPasswordIsAnsweredInTheWordsOfTheVersion(t *testing.T) {
	t.Parallel()
	r, _ := guarded(t, aliceAndBob, "alice")
	for _, c := range []struct {
		hello hello
		code  int
	}{{v5("c"), 0x86}, {v311("c"), 4}} {
		for _, name := range []string{"alice", "nobody"} {
			h := c.hello.as(name)
			h.password = "wrong"
			p := r.dial()
			p.send(h.bytes())
			if got := p.next(); got[0] != 0x20 || int(got[3]) != c.code {
				t.Errorf("MQTT %d, %s: %s", h.version, name, show(got))
			}
			p.closed()
		}
	}
	r.connect(v5("c").as("alice")).leave()
	r.connect(v311("c2").as("alice")).leave()
}

func TestADeniedPublishGoesNowhereAndMQTT5SaysSo(t *testing.T) {
	t.Parallel()
	r, _ := guarded(t, aliceAndBob, "alice", "bob")
	sub := r.connect(v5live("sub").as("alice"))
	sub.subscribe(5, "a/#", 2)
	bob := r.connect(v5("bob5").as("bob"))
	bob.send(pub5(1, 1, "a/x", "no"), pub5(2, 2, "a/x", "no"), pub5(0, 0, "a/x", "no"))
	bob.expect(ack(0x40, 1, 0x87), ack(0x50, 2, 0x87))
	old := r.connect(v311("bob311").as("bob"))
	old.send(pub311(1, 1, "a/x", "no"), pub311(2, 2, "a/x", "no"), pub311(0, 0, "a/x", "no"))
	old.expect(ack(0x40, 1), ack(0x50, 2))
	old.send(ack(0x62, 2))
	old.expect(ack(0x70, 2))
	// Retained: nothing was kept either.
	old.send(retain(pub311(1, 3, "a/x", "no")))
	old.expect(ack(0x40, 3))
	alice := r.connect(v5("alice").as("alice"))
	alice.send(pub5(1, 1, "a/x", "yes"))
	alice.expect(ack(0x40, 1))
	sub.expect(pub5(1, 2, "a/x", "yes"))
	late := r.connect(v5live("late").as("alice"))
	late.subscribe(5, "a/#", 1)
	late.nothing()
	if got := r.server.broker.Counters().Denied.Load(); got != 7 {
		t.Errorf("%d publishes counted as denied", got)
	}
}

// Whether a denied QoS 2 publish was here before is asked under the append lock, which may have to wait for a flush. What
// the same burst did before it must not wait as well.
func TestADeniedPublishThatWaitsForAFlushKeepsNobodyElseWaiting(t *testing.T) {
	t.Parallel()
	r, _ := guardedBy(t, []func(*rig){crowded}, "user alice\ntopic read b/#\nuser bob\ntopic write b/#\n", "alice", "bob")
	sub := r.connect(v5live("sub").as("alice"))
	sub.subscribe(5, "b/#", 0)
	bob := r.connect(v5("bob").as("bob"))
	release := r.busy()
	bob.send(cat(pub5(0, 0, "b/x", "in time"), pub5(2, 1, "a/x", "denied")))
	sub.expect(pub5(0, 0, "b/x", "in time"))
	bob.nothing()
	release()
	bob.expect(ack(0x50, 1, 0x87))
}

func TestASubscriptionIsRefusedIfNothingOfItMayBeReadAndFilteredElse(t *testing.T) {
	t.Parallel()
	r, _ := guarded(t, aliceAndBob, "alice", "bob")
	bob := r.connect(v5("bob").as("bob"))
	bob.send(subscribe5(1, "b/#", 1, "#", 1, "a/secret", 1, "c", 0))
	bob.expect(pkt(0x90, uint16(1), 0, 0x87, 1, 1, 0x87))
	old := r.connect(v311("old").as("bob"))
	old.send(subscribe311(1, "b/#", 1, "+/x", 0))
	old.expect(pkt(0x90, uint16(1), 0x80, 0))
	nobody := r.connect(v5("nobody"))
	nobody.subscribe(5, "#", 1)

	alice := r.connect(v5live("alice").as("alice"))
	alice.send(retain(pub5(1, 1, "a/x", "1")))
	alice.expect(ack(0x40, 1))
	bob.expect(pub5(1, 2, "a/x", "1"))
	old.expect(pub311(0, 0, "a/x", "1"))
	nobody.nothing()

	// Retained messages are filtered alike.
	late := r.connect(v5live("late").as("bob"))
	late.subscribe(5, "#", 0)
	late.expect(retain(pub5(0, 0, "a/x", "1")))
	stranger := r.connect(v5live("stranger"))
	stranger.subscribe(5, "#", 1)
	stranger.nothing()
}

func TestASharedSubscriptionMustBringNothingThatItsMemberMayNotRead(t *testing.T) {
	t.Parallel()
	r, _ := guarded(t, aliceAndBob, "alice", "bob")
	bob := r.connect(v5("bob").as("bob"))
	bob.send(subscribe5(1, "$share/g/#", 1))
	bob.expect(pkt(0x90, uint16(1), 0, 0x87))
	alice := r.connect(v5("alice").as("alice"))
	alice.send(subscribe5(1, "$share/g/a/#", 1)) // a/secret is denied
	alice.expect(pkt(0x90, uint16(1), 0, 0x87))
}

func TestAWillThatItsClientMayNotPublishRefusesCONNECT(t *testing.T) {
	t.Parallel()
	r, _ := guarded(t, aliceAndBob, "alice", "bob")
	for _, c := range []struct {
		hello hello
		code  int
	}{{v5("c"), 0x87}, {v311("c"), 5}} {
		h := c.hello.as("bob")
		h.will = &will{topic: "a/x", payload: "w"}
		p := r.dial()
		p.send(h.bytes())
		if got := p.next(); got[0] != 0x20 || int(got[3]) != c.code {
			t.Errorf("MQTT %d: %s", h.version, show(got))
		}
		p.closed()
		h.will.topic = "b/x"
		r.connect(h).leave()
	}
}

func TestAMessageForAUserWhoIsAwayIsKeptByThatUsersRights(t *testing.T) {
	t.Parallel()
	r, _ := guarded(t, aliceAndBob+"user carol\ntopic write #\n", "alice", "bob", "carol")
	bob := r.connect(v5("bob").as("bob"))
	bob.subscribe(5, "#", 1)
	bob.leave()
	carol := r.connect(v5live("carol").as("carol"))
	carol.send(pub5(1, 1, "a/x", "for bob"), pub5(1, 2, "b/x", "not for bob"))
	carol.expect(ack(0x40, 1), ack(0x40, 2, 0x10))
	r.crash() // whose it is stands on disk
	bob = r.dial()
	bob.greet(v5("bob").as("bob"))
	bob.expect(pub5(1, 2, "a/x", "for bob"))
	bob.nothing()
}

func TestAnotherUserGetsNobodysSession(t *testing.T) {
	t.Parallel()
	r, a := guarded(t, aliceAndBob, "alice", "bob")
	alice := r.connect(v5("shared").as("alice"))
	alice.subscribe(5, "a/#", 1)
	refused := func(h hello, code int) {
		t.Helper()
		p := r.dial()
		p.send(h.bytes())
		if got := p.next(); got[0] != 0x20 || int(got[3]) != code {
			t.Errorf("%+v: %s", h, show(got))
		}
		p.closed()
	}
	clean := v5("shared").as("bob")
	clean.clean = true
	refused(v5("shared").as("bob"), 0x85)
	refused(clean, 0x85)
	refused(v311("shared").as("bob"), 2)
	refused(v5("shared"), 0x85) // nobody is not alice either
	alice.subscribe(5, "a/#", 0)
	alice.send(pub5(0, 0, "a/x", "1"))
	alice.expect(pub5(0, 0, "a/x", "1"))
	alice.leave()
	refused(v5("shared").as("bob"), 0x85)

	r.reload(a, aliceAndBob, "bob") // alice is no more
	bob := r.dial()
	if connack := bob.greet(v5("shared").as("bob")); connack[2] != 0 {
		t.Errorf("bob got the session of a user who is gone: %s", show(connack))
	}
	bob.nothing()
}

func TestASessionWithoutAUserIsTheFirstUsersWhoComes(t *testing.T) {
	t.Parallel()
	r, _ := guarded(t, aliceAndBob, "alice", "bob")
	nobody := r.connect(v5("device"))
	nobody.subscribe(5, "#", 1)
	nobody.leave()
	alice := r.dial()
	if connack := alice.greet(v5("device").as("alice")); connack[2] != 1 {
		t.Errorf("alice did not get the session: %s", show(connack))
	}
	writer := r.connect(v5live("writer").as("alice"))
	writer.send(pub5(1, 1, "a/x", "by alice's rights"))
	writer.expect(ack(0x40, 1))
	alice.expect(pub5(1, 2, "a/x", "by alice's rights"))
}

func TestAReloadHoldsFromTheNextMessageOn(t *testing.T) {
	t.Parallel()
	r, a := guarded(t, aliceAndBob, "alice", "bob")
	bob := r.connect(v5("bob").as("bob"))
	bob.subscribe(5, "#", 1)
	alice := r.connect(v5live("alice").as("alice"))
	alice.send(pub5(1, 1, "a/x", "1"))
	alice.expect(ack(0x40, 1))
	bob.expect(pub5(1, 2, "a/x", "1"))
	bob.leave()
	alice.send(pub5(1, 2, "a/x", "waits"))
	alice.expect(ack(0x40, 2))

	r.reload(a, "user alice\ntopic write a/y\ntopic write b/y\nuser bob\ntopic read b/#\n", "alice", "bob")
	bob = r.dial()
	bob.greet(v5("bob").as("bob"))
	alice.send(pub5(1, 3, "a/x", "denied now"), pub5(1, 4, "a/y", "written, not read"), pub5(1, 5, "b/y", "read now"))
	alice.expect(ack(0x40, 3, 0x87), ack(0x40, 4, 0x10), ack(0x40, 5))
	// Neither what is not settled nor what waited is sent any more, and the queue goes on.
	bob.expect(pub5(1, 4, "b/y", "read now"))
	r.eventually("what may not be read any more being settled", func() bool { return r.stats().DeniedDeliveries.Load() == 2 })
	bob.send(ack(0x40, 4))
	alice.send(pub5(1, 6, "b/y", "and on"))
	alice.expect(ack(0x40, 6))
	bob.expect(pub5(1, 5, "b/y", "and on"))
}

func TestAReloadEndsTheConnectionsOfThoseWhoWouldNotComeIn(t *testing.T) {
	t.Parallel()
	r, a := guarded(t, aliceAndBob, "alice", "bob", "carol")
	alice, bob := r.connect(v5("alice").as("alice")), r.connect(v5("bob").as("bob"))
	carol := r.connect(v311("carol").as("carol"))
	text := hashed("alice", "salt") + hashed("bob", "another salt")
	if err := os.WriteFile(a.passwords, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := a.users.Reload(); err != nil {
		t.Fatal(err)
	}
	r.server.DropUsers()
	bob.goodbye(0x87)
	carol.closed()
	alice.send(pkt(0xC0))
	alice.expect(pkt(0xD0))
}

func TestALoginThatWaitsHoldsItsCONNECTAndNoBuffer(t *testing.T) {
	t.Parallel()
	r, _ := guarded(t, aliceAndBob, "alice")
	ours, theirs := net.Pipe()
	defer ours.Close()
	defer theirs.Close()
	c := newConn(r.server, theirs)
	connect, ping := v5("c").as("alice").bytes(), pkt(0xC0)
	c.in.reserve()
	c.in.to = copy(c.in.buf, cat(connect, ping))
	f, n, err := mqttwire.Next(c.in.bytes(), 0, 1<<20)
	if err != nil || n != len(connect) {
		t.Fatal(n, err)
	}
	f, n = c.detachConnect(f, n)
	if len(c.in.buf) != len(ping) || !bytes.Equal(c.in.bytes(), ping) {
		t.Errorf("%d bytes of buffer are held", len(c.in.buf))
	}
	c.in.reserve() // others use the buffer now
	clear(c.in.buf[len(ping):])
	var want mqttwire.Connect
	if err := mqttwire.DecodeConnect(f, &want); err != nil || string(want.Username) != "alice" || n != 0 {
		t.Errorf("%q, %d, %v", want.Username, n, err)
	}
}

func TestAWillGoesByTheRightsItsUserHasWhenItIsDue(t *testing.T) {
	t.Parallel()
	r, a := guarded(t, aliceAndBob, "alice", "bob")
	bob := r.connect(v5live("sub").as("bob"))
	bob.subscribe(5, "a/#", 0)
	for id, topic := range map[string]string{"denied": "a/later-denied", "allowed": "a/x"} {
		h := v5live(id).as("alice")
		h.will = &will{topic: topic, payload: id}
		r.connect(h)
	}
	r.reload(a, aliceAndBob+"user alice\ntopic deny a/later-denied\n", "alice", "bob")
	for _, p := range r.peers[1:] {
		_ = p.nc.Close()
	}
	bob.expect(pub5(0, 0, "a/x", "allowed"))
	bob.nothing()
	r.eventually("the other will being given up", func() bool { return r.server.broker.Counters().WillsRefused.Load() == 1 })
}

func TestAMessageTakenInBeforeTheRightWasLostIsAnsweredAsItWas(t *testing.T) { // [MQTT-4.3.3-10]
	t.Parallel()
	for name, h := range map[string]hello{"a session on disk": v5("pub"), "one in memory": v5live("pub")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, a := guarded(t, aliceAndBob, "alice", "bob")
			pub := r.connect(h.as("alice"))
			pub.send(pub5(2, 7, "a/x", "once"))
			pub.expect(ack(0x50, 7, 0x10))
			r.reload(a, "user alice\ntopic deny a/#\ntopic #\n", "alice", "bob")
			pub.send(dup(pub5(2, 7, "a/x", "once")), pub5(2, 8, "a/x", "again"))
			pub.expect(ack(0x50, 7), ack(0x50, 8, 0x87))
			pub.send(ack(0x62, 7))
			pub.expect(ack(0x70, 7))
		})
	}
}

func TestAWillOutlivesACrashWithItsUser(t *testing.T) {
	t.Parallel()
	r, _ := guarded(t, aliceAndBob, "alice", "bob")
	bob := r.connect(v5("sub").as("bob"))
	bob.subscribe(5, "a/#", 1)
	h := v5live("alice").as("alice")
	h.will = &will{topic: "a/x", payload: "w", qos: 1}
	r.connect(h)
	r.crash()
	bob = r.dial()
	bob.greet(v5("sub").as("bob"))
	bob.expect(pub5(1, 2, "a/x", "w"))
}
