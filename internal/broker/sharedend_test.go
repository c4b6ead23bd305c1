package broker

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"emanet/internal/auth"
	"emanet/internal/message"
)

func TestAnOrderlyEndLosesNothingThatACleanMemberWasNotSent(t *testing.T) {
	t.Parallel()
	for round := range 20 {
		f := setup(t, Options{})
		f.connect("keeper").subscribe(to("$share/g/a", 2))
		f.conns[0].leave()
		c := f.connect("clean", clean)
		c.subscribe(to("$share/g/a", 2))
		f.burst(10, 2)
		f.equal("moved", f.mailboxOf("clean").Ready+f.mailboxOf("clean").InFlight, 10)
		f.stop()
		f.open()
		k := f.connect("keeper")
		f.idle()
		got, _, _ := k.takes(10)
		f.equal(fmt.Sprint("round ", round), len(got), 10)
		f.stop()
	}
}

// ruled is a broker whose rules are text; the function changes them.
func ruled(t *testing.T, text string) (*fixture, func(string)) {
	acl := filepath.Join(t.TempDir(), "acl")
	write := func(text string) {
		if err := os.WriteFile(acl, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(text)
	users, err := auth.Open(auth.Files{ACL: acl, Certificates: true, Anonymous: true})
	if err != nil {
		t.Fatal(err)
	}
	return setup(t, Options{Users: users}), func(text string) {
		write(text)
		if err := users.Reload(); err != nil {
			t.Fatal(err)
		}
	}
}

func as(user string) func(*Connect) { return func(w *Connect) { w.User = user } }

const onlyX = "topic readwrite #\nuser x\ntopic readwrite #\nuser y\ntopic deny a/x\ntopic readwrite #\n"

func TestWhatOnlyOneMemberMayReadHoldsUpOthersNoLongerThanItIsThere(t *testing.T) {
	t.Parallel()
	f, _ := ruled(t, onlyX)
	x := f.connect("x", as("x"), clean, window(1))
	x.subscribe(to("$share/g/a/#", 1), to("own", 1))
	y := f.connect("y", as("y"))
	y.subscribe(to("$share/g/a/#", 1))
	pub := f.connect("pub", clean)
	pub.send("own", "0", 1)
	x.takes(1) // so that it has no room
	pub.send("a/x", "1", 1)
	f.flushed(pub.send("a/y", "2", 1).LSN)
	f.idle()
	f.equal("waiting", f.Gauges().GroupsPending, 2)
	x.leave()
	y.expect("2")
}

func TestWhatAMemberMayReadSinceAReloadGoesToIt(t *testing.T) {
	t.Parallel()
	f, change := ruled(t, onlyX)
	x := f.connect("x", as("x"))
	x.subscribe(to("$share/g/a/#", 1))
	y := f.connect("y", as("y"))
	y.subscribe(to("$share/g/a/#", 1))
	x.leave()
	f.flushed(f.connect("pub", clean).send("a/x", "1", 1).LSN)
	f.idle()
	f.equal("waiting", f.Gauges().GroupsPending, 1)
	change("topic readwrite #\nuser x\ntopic readwrite #\nuser y\ntopic readwrite #\n")
	f.RightsChanged()
	y.expect("1")
}

func TestAGroupOfManyThatAreAwayHasNothingToLookFor(t *testing.T) {
	t.Parallel()
	f := setup(t, Options{})
	all := f.members(3, 2, window(1))
	f.burst(4, 2) // one each
	for _, c := range all[:2] {
		_, keys, _ := c.takes(1)
		if _, ok, err := c.Release(keys[0]); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	for _, c := range all {
		c.leave()
	}
	f.idle()
	f.equal("to be looked for", len(f.groups.all()[0].pump.reclaims), 1) // that of the one who was sent nothing
	f.equal("waiting", f.Gauges().GroupsPending, 1)
	all[0] = f.connect("member0", window(9))
	f.idle()
	f.equal("to be looked for", len(f.groups.all()[0].pump.reclaims), 0)
}

func TestAfterAnOrderlyEndOthersGetWhatAPersistentMemberWasNotSent(t *testing.T) {
	t.Parallel()
	f := setup(t, Options{})
	all := f.members(2, 2, window(2))
	f.burst(4, 2)
	sent, _, _ := all[0].takes(2)
	f.equal("sent", sent, []string{"1", "3"})
	f.stop()
	f.open()
	other := f.connect("member0", window(9))
	f.idle()
	got, _, _ := other.takes(4)
	slices.Sort(got)
	f.equal("got", got, []string{"1", "2", "3", "4"})
}

func TestWhatMovedToASessionThatEndsIsInItsGroupInTheSameBatch(t *testing.T) {
	t.Parallel()
	withWill := func(w *Connect) { w.Will = &Will{Message: &message.Message{Topic: "will", Payload: []byte("w")}} }
	for _, end := range []struct {
		name string
		edit func(*Connect)
		part func(*conn)
	}{
		{"by its connection's end", expiry(100), func(c *conn) { c.leaveWith(0) }},
		{"by a clean start", expiry(100), func(c *conn) { c.gone = true; c.f.connect(c.ClientID(), cleanStart) }},
		{"by a clean start that sends its will", withWill, func(c *conn) { c.gone = true; c.f.connect(c.ClientID(), cleanStart) }},
		{"by a clean start when it is away", expiry(100), func(c *conn) { c.fail(); c.f.connect(c.ClientID(), cleanStart) }},
	} {
		t.Run(end.name, func(t *testing.T) {
			f := setup(t, Options{})
			f.connect("stays").subscribe(to("$share/g/a", 2))
			f.conns[0].leave()
			ends := f.connect("ends", end.edit, window(300))
			ends.subscribe(to("$share/g/a", 2))
			f.burst(200, 2) // more than a small batch takes
			f.equal("moved", f.mailboxOf("ends").Ready+f.mailboxOf("ends").InFlight, 200)
			f.groups.all()[0].pump.blocked.Store(true) // it comes to nothing before the crash
			end.part(ends)
			f.settled()
			f.crash(cut)
			stays := f.connect("stays", window(300))
			f.idle()
			got, _, _ := stays.takes(200)
			f.equal("the other's", len(got), 200)
		})
	}
}
