package broker

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"emanet/internal/journal"
	"emanet/internal/message"
)

// wills is a client that hears them.
func (f *fixture) wills() *conn {
	f.Helper()
	c := f.connect("hears wills")
	c.subscribe(to("will", 1))
	return c
}

// noWill: after what is published next, nothing else has come.
func (f *fixture) noWill(hears *conn) {
	f.Helper()
	pub := f.connect("pub", clean)
	pub.send("will", "nothing before", 1)
	hears.expect("nothing before")
}

func TestAWillIsPublishedWhenTheConnectionFails(t *testing.T) { // [MQTT-3.1.2-8]
	t.Parallel()
	for name, kind := range map[string]func(*Connect){"kept session": func(*Connect) {}, "clean session": clean} {
		t.Run(name, func(t *testing.T) {
			f := setup(t, Options{})
			hears := f.wills()
			f.connect("c", kind, withWill(will("gone", 1))).fail()
			hears.expect("gone")
			f.equal("published", f.Counters().WillsPublished.Load(), 1)
			f.settled()
			f.crash(cut)
			f.noWill(f.connect("hears wills"))
		})
	}
}

func TestNoWillIsPublishedAfterAGoodbye(t *testing.T) { // [MQTT-3.14.4-3]
	t.Parallel()
	f := setup(t, Options{})
	hears := f.wills()
	f.connect("kept", withWill(will("kept", 1))).leave()
	f.connect("clean", clean, withWill(will("clean", 1))).leave()
	f.noWill(hears)
	f.crash(cut)
	f.noWill(f.connect("hears wills"))
}

func TestAWillThatIsDueGoesOutHoweverSoonItsClientReturns(t *testing.T) { // [MQTT-3.1.2-8]
	t.Parallel()
	f := setup(t, Options{})
	hears := f.wills()
	const n = 100
	for i := range n {
		id := fmt.Sprint("c", i)
		f.connectAtOnce(id, withWill(will(id, 1))).fail()
		f.connectAtOnce(id)
	}
	f.equal("wills", len(hears.receive(n)), n)
	f.noWill(hears)
}

func TestWillsThatACrashMadeDueGoOutHoweverSoonTheirClientsReturn(t *testing.T) {
	t.Parallel()
	f := setup(t, Options{})
	const n = 20
	hears := f.wills()
	for i := range n {
		f.connect(fmt.Sprint("c", i), withWill(will(fmt.Sprint(i), 1)))
	}
	hears.leave()
	f.settled()
	f.crash(cut)
	for i := range n {
		f.connectAtOnce(fmt.Sprint("c", i))
	}
	f.eventually("all wills", func() bool { return f.Counters().WillsPublished.Load() == n })
}

func TestAWillWaitsForItsDelayAndAReturnCancelsIt(t *testing.T) { // [MQTT-3.1.3-9]
	t.Parallel()
	f := setup(t, Options{})
	hears := f.wills()
	start := time.Now()
	f.connect("stays away", withWill(will("late", 1).after(1))).fail()
	f.connect("returns", withWill(will("never", 1).after(1))).fail()
	f.connect("returns")
	f.equal("got", hears.receive(1), []string{"late"})
	if d := time.Since(start); d < time.Second {
		t.Fatalf("it came after %v", d)
	}
	f.noWill(hears)
}

func TestTheEndOfTheSessionSendsAWillBeforeItsDelay(t *testing.T) {
	t.Parallel()
	f := setup(t, Options{})
	hears := f.wills()
	f.connect("expires", expiry(1), withWill(will("expired", 1).after(1000))).fail()
	f.connect("starts anew", withWill(will("clean start", 1).after(1000))).fail()
	c := f.connect("starts anew", cleanStart)
	f.equal("present", c.present, false)
	f.equal("clean start", hears.receive(1), []string{"clean start"})
	f.equal("expiry", hears.receive(1), []string{"expired"})
	f.eventually("the end of the session", func() bool { return !f.hasSession("expires") })
}

func TestATakeoverSendsTheWillOfTheConnectionThatIsCutOff(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name        string
		first, next func(*Connect)
		delay       uint32
		want        string
	}{
		{"session goes on, no delay (3.1.1: always)", expiry(100), expiry(100), 0, "will"},
		{"session goes on before the delay is over", expiry(100), expiry(100), 9, ""},
		{"clean start, whatever the delay", expiry(100), cleanStart, 9, "will"},
		{"session that ended with its connection", clean, expiry(100), 9, "will"},
		{"session to end with its connection", expiry(0), expiry(100), 9, "will"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := setup(t, Options{})
			hears := f.wills()
			first := f.connect("c", c.first, withWill(will("will", 1).after(c.delay)))
			before := f.store.Appended()
			next := f.connectAtOnce("c", c.next, withWill(will("next will", 1)))
			f.equal("batches", f.store.Appended()-before, 1)
			f.flushed(next.lsn)
			f.equal("told", first.takenBy.Load(), 1)
			if c.want != "" {
				hears.expect(c.want)
			}
			first.fail() // which changes nothing
			f.noWill(hears)
			next.fail()
			hears.expect("next will")
		})
	}
}

func TestAWillReachesItsOwnSessionWhenThatGoesOn(t *testing.T) {
	t.Parallel()
	f := setup(t, Options{})
	c := f.connect("c", withWill(will("mine", 1)))
	c.subscribe(to("will", 1))
	f.connect("c").expect("mine")
}

func TestAWillIsPublishedAlsoAfterACrash(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string]func(*Connect){"kept session": func(*Connect) {}, "clean session": clean} {
		t.Run(name, func(t *testing.T) {
			f := setup(t, Options{})
			f.wills()
			f.connect("c", kind, withWill(will("crashed", 1)))
			f.crash(cut)
			f.connect("hears wills").expect("crashed")
			f.eventually("the end of what waited for it", func() bool { return f.hasSession("c") == (name == "kept session") })
			f.settled()
			f.crash(cut)
			f.noWill(f.connect("hears wills"))
		})
	}
}

func TestTheDelayOfAWillGoesOnWhileTheServerIsDown(t *testing.T) {
	t.Parallel()
	f := setup(t, Options{})
	f.wills()
	f.connect("away", withWill(will("away", 1).after(100))).fail()
	f.connect("attached", withWill(will("attached", 1).after(100))) // its delay begins at the restart
	f.settled()
	f.wall.Add(50_000)
	f.crash(kill)
	f.noWill(f.connect("hears wills"))
	f.wall.Add(60_000)
	f.crash(kill)
	f.connect("hears wills").expect("away")
	f.wall.Add(60_000)
	f.crash(kill)
	f.connect("hears wills").expect("attached")
}

func TestAWillExpiresAndIsRetainedLikeAnyMessage(t *testing.T) {
	t.Parallel()
	f := setup(t, Options{})
	w := will("state", 1)
	w.Message.Retain, w.Expiry = true, 1000
	f.connect("c", clean, withWill(w)).fail()
	f.eventually("the will", func() bool { return f.Counters().WillsPublished.Load() == 1 })
	kept, ok := f.Broker.retained.Get("will")
	if !ok || kept.message.ExpiresAt != kept.message.ReceivedAt+1_000_000 || w.Message.ReceivedAt != 0 {
		t.Fatalf("%v %+v", ok, kept.message)
	}
}

func TestAWillThatABoundRefusesIsGivenUp(t *testing.T) {
	t.Parallel()
	f := setup(t, Options{MaxQueued: 1, RejectNew: true})
	hears := f.wills()
	hears.leave()
	pub := f.connect("pub", clean)
	f.equal("fills it", pub.send("will", "first", 1).Refused, false)
	f.connect("c", clean, withWill(will("refused", 1))).fail()
	f.eventually("the refusal", func() bool { return f.Counters().WillsRefused.Load() == 1 })
	f.equal("published", f.Counters().WillsPublished.Load(), 0)
	f.eventually("the end of the session", func() bool { return !f.hasSession("c") })
	f.connect("hears wills").expect("first")
}

func TestAWillTooLargeForTheStoreIsGivenUpAndKeepsNobodyOut(t *testing.T) {
	t.Parallel()
	f := setupOn(t, Options{}, 1, journal.Options{SegmentBytes: 64 << 10, Segments: 8})
	for i := range 250 { // it fits at CONNECT, but not with an entry for each of these
		c := f.connectAtOnce(fmt.Sprint("hears ", i))
		c.subscribe(to("will", 1))
	}
	large := func() *Will { return will(strings.Repeat("x", 40_000), 1) }
	f.connect("c", clean, withWill(large())).fail()
	f.eventually("it being given up", func() bool { return f.Counters().WillsRefused.Load() == 1 })
	f.connect("c", withWill(large()))
	f.connect("c").leave() // takes over
	f.equal("given up", f.Counters().WillsRefused.Load(), 2)
}

func TestAWillWaitsWhileTheStoreIsFull(t *testing.T) {
	t.Parallel()
	f := setupOn(t, Options{}, 1, journal.Options{SegmentBytes: 64 << 10, Segments: 4})
	hears := f.wills()
	c := f.connect("c", clean, withWill(will("at last", 1)))
	release := f.fill()
	c.fail()
	f.equal("published", f.Counters().WillsPublished.Load(), 0)
	release()
	hears.expect("at last")
}

// fill leaves no room for publishes until release is called: nothing is flushed.
func (f *fixture) fill() (release func()) {
	f.Helper()
	release = f.holdFlushes()
	pub := f.connectAtOnce("fills", clean)
	for {
		m := &message.Message{Payload: make([]byte, 4000), QoS: 1, Retain: true}
		if _, err := pub.Publish([]byte("full"), m, 0); err != nil {
			if !isNoRoom(err) {
				f.Fatal(err)
			}
			return release
		}
	}
}
