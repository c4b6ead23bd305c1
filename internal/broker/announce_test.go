package broker

import (
	"testing"

	"emanet/internal/message"
)

func announce(f *fixture, values ...string) {
	f.Helper()
	var all []Announcement
	for i := 0; i < len(values); i += 2 {
		all = append(all, Announcement{Topic: values[i], Payload: values[i+1]})
	}
	if err := f.Announce(all); err != nil {
		f.Fatal(err)
	}
}

func TestAnAnnouncementReachesThoseThereAndIsRetainedForThoseWhoCome(t *testing.T) {
	t.Parallel()
	f := setup(t, Options{})
	for _, kind := range []struct {
		name string
		edit []func(*Connect)
	}{{name: "a clean session", edit: []func(*Connect){clean}}, {name: "a persistent session"}} {
		announce(f, "$SYS/a", "1", "$SYS/b", "x")
		sub := f.connect(kind.name, kind.edit...)
		sub.subscribe(to("$SYS/#", 1))
		f.equal(kind.name, sub.walk(), []string{"1!", "x!"})
		announce(f, "$SYS/a", "2")
		f.equal(kind.name, sub.live, []string{"2"}) // a live one is not marked as retained [MQTT-3.3.1-9]
	}
}

func TestAnAnnouncementIsNotForWildcardsAtTheFirstLevel(t *testing.T) { // [MQTT-4.7.2-1]
	t.Parallel()
	f := setup(t, Options{})
	announce(f, "$SYS/a", "1")
	sub := f.connect("sub", clean)
	sub.subscribe(to("#", 0), to("+/a", 0))
	f.equal("retained", len(sub.walk()), 0)
	announce(f, "$SYS/a", "2")
	f.equal("live", len(sub.live), 0)
}

func TestAnAnnouncementWritesNothingAndIsGoneWithTheProcess(t *testing.T) {
	t.Parallel()
	f := setup(t, Options{MaxRetained: 1})
	away := f.connect("away")
	away.subscribe(to("$SYS/#", 2))
	away.leave()
	f.settled()
	before := f.store.Appended()
	announce(f, "$SYS/a", "1", "$SYS/b", "2")
	f.equal("appended", f.store.Appended(), before)
	f.equal("retained messages of clients", f.Gauges().Retained, 0)
	f.equal("waiting for who is away", f.Gauges().Pending, 0)
	f.equal("sessions away", f.Gauges().Away, 1)
	pub := f.connect("pub", clean)
	out, err := pub.Publish([]byte("a"), &message.Message{Payload: []byte("x"), Retain: true}, 0)
	if err != nil || out.Refused {
		t.Fatalf("%+v, %v: announcements count for the bound on retained messages", out, err)
	}
	f.stop()
	f.open()
	sub := f.connect("sub", clean)
	sub.subscribe(to("$SYS/#", 0))
	f.equal("after a restart", len(sub.walk()), 0)
}

func TestAnAnnouncementIsNoPublishOfAClient(t *testing.T) {
	t.Parallel()
	f := setup(t, Options{})
	announce(f, "$SYS/a", "1")
	f.equal("published", f.Counters().Published.Load(), uint64(0))
	f.equal("unmatched", f.Counters().Unmatched.Load(), uint64(0))
}
