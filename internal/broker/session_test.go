package broker

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"emanet/internal/message"
	"emanet/internal/store"
)

func TestAQoS2PublishComesOnceHoweverOftenItIsSent(t *testing.T) {
	t.Parallel()
	f := setup(t, Options{})
	sub := f.connect("sub")
	sub.subscribe(to("a", 2))
	pub := f.connect("pub")
	release := f.holdFlushes()
	defer release()
	again := func(c *conn) Outcome {
		t.Helper()
		return c.sendAs("a", &message.Message{Payload: []byte("x"), QoS: 2}, 7)
	}
	first := again(pub)
	f.equal("first", first.Duplicate, false)
	f.equal("again", again(pub), Outcome{LSN: first.LSN, Duplicate: true})
	pub2 := f.connectAtOnce("pub") // before the flush, on a second connection
	f.equal("again, from there", again(pub2), Outcome{LSN: first.LSN, Duplicate: true})
	if f.Flushed() >= first.LSN {
		t.Fatal("the flush was not held")
	}
	release()
	f.flushed(pub2.lsn)
	f.crash(kill)
	pub = f.connect("pub")
	if out := again(pub); !out.Duplicate || out.LSN != 0 {
		t.Fatalf("after a crash: %+v", out)
	}
	lsn, known, err := pub.Unreceive(7)
	f.equal("PUBREL", fmt.Sprint(known, err), "true <nil>")
	lsn2, known, err := pub.Unreceive(7) // its client has not seen PUBCOMP
	f.equal("PUBREL again", fmt.Sprint(known, err), "false <nil>")
	f.equal("it waits for", lsn2, lsn)
	f.flushed(lsn)
	f.crash(cut)
	pub = f.connect("pub")
	f.equal("the id carries a new message", again(pub).Duplicate, false)
	f.connect("sub").expect("x", "x")
}

func TestThePacketIDOfAQoS2PublishIsOnDiskWhoeverReceives(t *testing.T) {
	t.Parallel()
	f := setup(t, Options{})
	pub := f.connect("pub")
	out := pub.send("nobody", "x", 2)
	if out.LSN == 0 || out.Matched != 0 {
		t.Fatalf("%+v", out)
	}
	f.flushed(out.LSN)
	f.crash(cut)
	pub = f.connect("pub")
	f.equal("known", pub.sendAs("nobody", &message.Message{QoS: 2}, 1).Duplicate, true)
}

func TestTheQoS2PublishesOfAnUnkeptSessionAreKnownWhileItLasts(t *testing.T) {
	t.Parallel()
	f := setup(t, Options{})
	sub := f.connect("sub")
	sub.subscribe(to("a", 2))
	pub := f.connect("pub", clean)
	first := pub.send("a", "x", 2)
	m := func() *message.Message { return &message.Message{QoS: 2, Payload: []byte("x")} }
	f.equal("again", pub.sendAs("a", m(), 1), Outcome{LSN: first.LSN, Duplicate: true})
	f.equal("to nobody", pub.sendAs("b", m(), 2), Outcome{})
	f.equal("to nobody again", pub.sendAs("b", m(), 2), Outcome{Duplicate: true})
	f.equal("held", pub.Received(), 2)
	lsn, known, err := pub.Unreceive(1)
	f.equal("PUBREL", fmt.Sprint(lsn, known, err), "0 true <nil>")
	f.equal("the id is free", pub.sendAs("a", m(), 1).Duplicate, false)
	sub.expect("x", "x")
}

func TestACleanStartDiscardsTheSession(t *testing.T) { // [MQTT-3.1.2-4]
	t.Parallel()
	f := setup(t, Options{})
	c := f.connect("c")
	c.subscribe(to("a", 1))
	c.leave()
	pub := f.connect("pub", clean)
	f.flushed(pub.send("a", "old", 1).LSN)
	c = f.connect("c", cleanStart)
	f.equal("present", c.present, false)
	f.equal("nobody listens", pub.send("a", "lost", 1).Matched, 0)
	c.subscribe(to("a", 1))
	f.flushed(pub.send("a", "new", 1).LSN)
	f.crash(cut)
	c = f.connect("c")
	f.equal("present", c.present, true)
	c.expect("new")
	c.leave()
	c = f.connect("c", clean) // which waits for the old one's end on disk
	if c.lsn == 0 {
		t.Fatal("CONNACK waits for nothing")
	}
	f.crash(cut)
	f.equal("it is gone", f.hasSession("c"), false)
}

func TestNoSessionPresentIsSaidNoEarlierThanTheEndOfTheSessionIsOnDisk(t *testing.T) {
	t.Parallel()
	f := setup(t, Options{})
	c := f.connect("c")
	c.subscribe(to("a", 1))
	release := f.holdFlushes()
	defer release()
	c.leaveWith(0)
	c = f.connectAtOnce("c", expiry(0))
	f.equal("present", c.present, false)
	if c.lsn <= f.Flushed() {
		t.Fatalf("CONNACK waits for %d, which is flushed: a power cut now would bring the session back", c.lsn)
	}
	release()
	f.flushed(c.lsn)
	f.crash(cut)
	f.equal("it is gone", f.hasSession("c"), false)
}

func TestASessionEndsWhenItsExpiryIsOver(t *testing.T) { // [MQTT-4.1.0-2]
	t.Parallel()
	f := setup(t, Options{})
	c := f.connect("c", expiry(1))
	c.subscribe(to("a", 1))
	start := time.Now()
	c.leave()
	f.equal("it stays", f.hasSession("c"), true)
	f.eventually("its end", func() bool { return !f.hasSession("c") })
	if d := time.Since(start); d < time.Second {
		t.Fatalf("it ended after %v", d)
	}
	f.equal("subscriptions", f.Gauges().Subscriptions, 0)
	f.equal("ended", f.Counters().SessionsEnded.Load(), 1)
	f.settled()
	f.crash(cut)
	f.equal("after a crash", f.hasSession("c"), false)
}

func TestAReturnKeepsTheSession(t *testing.T) {
	t.Parallel()
	f := setup(t, Options{})
	f.connect("c", expiry(1)).leave()
	c := f.connect("c", expiry(1))
	f.equal("present", c.present, true)
	// A deadline that had struck just before finds that somebody came, and went again for longer.
	c.leaveWith(100)
	b, err := f.control(0)
	if err != nil {
		t.Fatal(err)
	}
	s := f.sessions.byID["c"]
	b.Abort()
	s.expire()
	f.equal("it stays", f.hasSession("c"), true)
}

func TestDisconnectMayChangeTheExpiry(t *testing.T) {
	t.Parallel()
	f := setup(t, Options{})
	c := f.connect("c")
	c.leaveWith(0)
	f.equal("with expiry 0 it is over", f.hasSession("c"), false)
	f.settled()
	f.crash(cut)
	f.equal("on disk, too", f.hasSession("c"), false)
}

func TestTimeWhileTheServerWasDownCountsForExpiry(t *testing.T) {
	t.Parallel()
	f := setup(t, Options{})
	f.connect("short", expiry(100)).leave()
	f.connect("long", expiry(1000)).leave()
	f.connect("never").leave()
	attached := f.connect("attached", expiry(100)) // its time begins at the restart
	_ = attached
	f.settled()
	f.wall.Add(500_000)
	f.crash(cut)
	f.eventually("the end of the short one", func() bool { return !f.hasSession("short") })
	for _, id := range []string{"long", "never", "attached"} {
		f.equal(id, f.hasSession(id), true)
	}
	f.settled()
	f.wall.Add(200_000)
	f.crash(cut)
	f.eventually("the end of the one attached at the crash", func() bool { return !f.hasSession("attached") })
	f.equal("long", f.hasSession("long"), true)
}

func TestABootIn1970ExpiresNothing(t *testing.T) {
	t.Parallel()
	f := setup(t, Options{})
	c := f.connect("c", expiry(1000))
	c.subscribe(to("a", 1))
	c.leave()
	pub := f.connect("pub", clean)
	f.flushed(pub.sendMessage("a", &message.Message{Payload: []byte("x"), QoS: 1, ExpiresAt: f.Now() + 1_000_000}).LSN)
	f.wall.Store(0)
	f.crash(cut)
	if f.Now() < year2030 {
		t.Fatalf("the clock went back to %d", f.Now())
	}
	f.connect("c").expect("x")
}

func TestTheNumberOfSubscriptionsIsBounded(t *testing.T) {
	t.Parallel()
	f := setup(t, Options{MaxSubs: 2})
	c := f.connect("c")
	f.equal("granted", c.subscribe(to("a", 1), to("b", 1), to("c", 1), to("a", 0)), []bool{true, true, false, true})
	had, _, err := c.Unsubscribe([]string{"a", "x", "a"})
	f.equal("had", fmt.Sprint(had, err), "[true false false] <nil>")
	f.equal("room again", c.subscribe(to("c", 1)), []bool{true})
}

func TestSubscriptionsSurviveWithAllTheirOptions(t *testing.T) {
	t.Parallel()
	f := setup(t, Options{})
	c := f.connect("c")
	want := Subscription{Filter: "a/+/<&>", QoS: 2, NoLocal: true, RetainAsPublished: true, RetainHandling: 2, ID: 268_435_455}
	c.subscribe(want, to("b", 1))
	had, lsn, err := c.Unsubscribe([]string{"b"})
	if err != nil || !had[0] {
		t.Fatal(had, err)
	}
	f.flushed(lsn)
	f.crash(cut)
	c = f.connect("c")
	f.equal("subscriptions", f.Gauges().Subscriptions, 1)
	f.equal("it", *c.session.subs["a/+/<&>"], want)
}

// Client ids, filters and wills as long and as awkward as the wire takes them: what fits is stored, what
// does not is refused, and the journal never finds a batch larger than was asked for (it would panic).
func TestSizesAskedForAreUpperBounds(t *testing.T) {
	t.Parallel()
	f := setup(t, Options{MaxQueued: 3})
	long := func(s string, n int) string { return strings.Repeat(s, max(n, len(s))/len(s)) }
	for _, n := range []int{8, 1000, 21_000, 65_535} {
		for _, s := range []string{"x", "<", "\u2028", "\x01"} {
			id := long(s, n)
			w := &Will{Message: &message.Message{Topic: long(s, n), Payload: []byte(long(s, n)), QoS: 2, Retain: true}, Expiry: 9, Delay: 9}
			c, err := f.tryConnect(id, withWill(w))
			if err != nil {
				if n < 20_000 || !errors.Is(err, store.ErrTooLarge) {
					t.Fatalf("%d of %q: %v", n, s, err)
				}
				continue
			}
			f.flushed(c.lsn)
			var subs []Subscription
			for i := range 40 {
				subs = append(subs, Subscription{Filter: fmt.Sprint(i, long(s, n-2)), QoS: 2, ID: 268_435_455, NoLocal: true, RetainAsPublished: true})
			}
			granted := c.subscribe(append(subs, to("#", 2))...)
			f.equal("granted #", granted[40], true)
			for range 6 {
				f.send(c, long(s, n), &message.Message{QoS: 2, Retain: true, Payload: []byte(long(s, n))})
			}
			c.walk()
			had, _, err := c.Unsubscribe([]string{subs[0].Filter, "#"})
			if err != nil || had[0] != granted[0] || !had[1] {
				t.Fatal(had, granted[0], err)
			}
			c.fail()
			again := f.connect(id, withWill(w))
			again.fail()
			f.connect(id, cleanStart).leaveWith(0)
		}
	}
}

// send publishes and waits for room as a connection does; what is too large is refused.
func (f *fixture) send(c *conn, topic string, m *message.Message) {
	f.Helper()
	for {
		c.packet++
		_, err := c.Publish([]byte(topic), m, c.packet)
		if !isNoRoom(err) {
			if err != nil && !errors.Is(err, store.ErrTooLarge) {
				f.Fatal(err)
			}
			return
		}
		if err := f.store.Sync(); err != nil {
			f.Fatal(err)
		}
	}
}

// Clients that repeat PUBREC on CONNECT may be faster than the disk: a delivery that is not found yet must
// not pass for one that is over, or its PUBREL would let the resend be taken for a new message.
func TestADeliveryThatIsNotReadFromDiskYetDoesNotPassForOver(t *testing.T) {
	t.Parallel()
	f := setup(t, Options{})
	c := f.connect("c")
	c.subscribe(to("a", 2))
	pub := f.connect("pub", clean)
	f.flushed(pub.send("a", "x", 2).LSN)
	var key uint64
	f.eventually("the delivery", func() bool {
		for _, d := range c.take() {
			key = d.Key
			return true
		}
		return false
	})
	if err := f.store.Sync(); err != nil { // so that the start leaves it on disk
		t.Fatal(err)
	}
	f.crash(kill)
	c = f.connectAtOnce("c")
	f.eventually("the delivery to be read", func() bool {
		_, ok := c.InFlight(key)
		if !ok && !c.Unsure() {
			t.Fatal("it passes for over")
		}
		return ok
	})
	_, ok := c.InFlight(key + 1)
	f.equal("another", fmt.Sprint(ok, c.Unsure()), "false false")
}
