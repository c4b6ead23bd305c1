package broker

import (
	"fmt"
	"strings"
	"testing"

	"emanet/internal/journal"
	"emanet/internal/message"
)

func TestARetainedMessageIsSetReplacedAndRemoved(t *testing.T) { // [MQTT-3.3.1-5]
	t.Parallel()
	f := setup(t, Options{})
	pub := f.connect("pub", clean)
	f.flushed(pub.retain("a", "1", 1).LSN)
	f.flushed(pub.retain("a", "2", 1).LSN)
	f.flushed(pub.retain("b", "x", 1).LSN)
	f.flushed(pub.retain("b", "", 1).LSN) // [MQTT-3.3.1-6]
	for _, again := range []string{"in this life", "in the next"} {
		sub := f.connect("sub "+again, clean)
		sub.subscribe(to("#", 1))
		sub.walk()
		f.equal(again, sub.receive(1), []string{"2!"})
		f.equal("retained", f.Gauges().Retained, 1)
		f.crash(cut)
	}
}

func TestRemovingWhatIsNotRetainedWritesNothing(t *testing.T) {
	t.Parallel()
	f := setup(t, Options{})
	pub := f.connect("pub", clean)
	f.settled()
	before := f.store.Appended()
	f.equal("outcome", pub.retain("a", "", 2), Outcome{})
	f.equal("appended", f.store.Appended(), before)
	out, err := pub.Publish([]byte("a"), &message.Message{QoS: 2, Retain: true}, pub.packet)
	if err != nil || !out.Duplicate || out.LSN > f.Flushed() {
		t.Fatalf("the same again: %+v, %v: it would wait for what never comes", out, err)
	}
}

func TestAClearThatFindsNothingIsAnsweredNoEarlierThanTheClearBeforeIt(t *testing.T) {
	t.Parallel()
	f := setup(t, Options{})
	first, second := f.connect("first", clean), f.connect("second", clean)
	f.flushed(first.retain("a", "value", 1).LSN)
	release := f.holdFlushes()
	defer release()
	cleared := first.retain("a", "", 0)
	again := second.retain("a", "", 1)
	f.equal("the first is not waited for by its own client", cleared.LSN, 0)
	if again.LSN <= f.Flushed() {
		t.Fatalf("LSN %d of %d flushed: a power cut now would bring the value back", again.LSN, f.Flushed())
	}
	release()
	f.flushed(again.LSN)
	f.crash(cut)
	f.equal("retained", f.Gauges().Retained, 0)
}

func TestARetainedBodyOutlivesItsEntries(t *testing.T) {
	t.Parallel()
	f := setup(t, Options{})
	sub := f.connect("sub")
	sub.subscribe(to("a", 1))
	pub := f.connect("pub", clean)
	f.flushed(pub.retain("a", "body", 1).LSN)
	sub.expect("body")
	if err := f.store.Sync(); err != nil {
		t.Fatal(err)
	}
	f.crash(cut)
	late := f.connect("late")
	late.subscribe(to("a", 1))
	late.walk()
	late.expect("body!")
	f.equal("waiting for sub", f.mailboxOf("sub").Ready, 0)
}

func TestRetainedMessagesAtQoS0GoOutWithoutTheMailbox(t *testing.T) {
	t.Parallel()
	f := setup(t, Options{})
	pub := f.connect("pub", clean)
	for i := range 300 {
		pub.retain(fmt.Sprintf("a/%03d", i), fmt.Sprintf("%03d", i), 1)
	}
	for _, kind := range []func(*Connect){clean, func(*Connect) {}} {
		sub := f.connect("sub", kind)
		sub.subscribe(Subscription{Filter: "a/#", QoS: 0, ID: 7})
		got := sub.walk()
		f.equal("how many", len(got), 300)
		f.equal("first and last", got[0]+got[299], "000!#7299!#7")
		f.equal("walking", sub.Walking(), false)
		f.equal("mailbox", f.mailboxOf("sub").Ready, 0)
	}
}

func TestRetainHandlingDecidesWhetherRetainedMessagesAreSent(t *testing.T) {
	t.Parallel()
	f := setup(t, Options{})
	pub := f.connect("pub", clean)
	pub.retain("a", "x", 0)
	sub := f.connect("sub")
	sent := func(handling uint8) int {
		sub.subscribe(Subscription{Filter: "a", QoS: 1, RetainHandling: handling})
		return len(sub.walk())
	}
	f.equal("never", sent(2), 0)
	f.equal("only if new, and it is not", sent(1), 0)
	f.equal("always", sent(0), 1)
	f.equal("always, again", sent(0), 1)
	if _, _, err := sub.Unsubscribe([]string{"a"}); err != nil {
		t.Fatal(err)
	}
	f.equal("only if new, and it is", sent(1), 1)
}

// A durable session gets 500 retained messages at QoS 2, a few at a time, while the broker dies again and
// again: each comes once, whatever place the walk had reached on disk.
func TestAWalkOverRetainedMessagesLosesAndDoublesNothingAcrossCrashes(t *testing.T) {
	t.Parallel()
	f := setup(t, Options{})
	pub := f.connect("pub", clean)
	const n = 500
	var last Outcome
	for i := range n {
		last = pub.retain(fmt.Sprintf("a/%03d", i), fmt.Sprintf("%03d", i), 2)
	}
	f.flushed(last.LSN)
	sub := f.connect("sub", window(50))
	sub.subscribe(to("a/#", 2))
	client := newSubscriber()
	for step := 0; client.count() < n; step++ {
		if step > 10_000 {
			t.Fatalf("only %d of %d after %d steps", client.count(), n, step)
		}
		if _, _, _, err := sub.NextRetained(nil); err != nil {
			t.Fatal(err)
		}
		f.settled()
		for _, d := range sub.take() {
			client.handle(t, sub, d)
		}
		if step%4 == 3 {
			f.crash([]func(fs *disk) *disk{kill, cut}[step/4%2])
			sub = f.connect("sub", window(50))
		}
	}
	for payload, times := range client.got {
		f.equal(payload, times, 1)
	}
	f.settled()
	f.equal("walking", sub.Walking(), false)
}

// Client libraries subscribe again when they reconnect. That must not cancel what an earlier SUBSCRIBE is
// still owed.
func TestSubscribingAgainInTheMiddleOfAWalkLosesNothingOfIt(t *testing.T) {
	t.Parallel()
	f := setup(t, Options{})
	pub := f.connect("pub", clean)
	const n = 400
	for i := range n {
		pub.retain(fmt.Sprintf("a/%03d", i), fmt.Sprintf("%03d", i), 2)
	}
	f.settled()
	once := Subscription{Filter: "a/#", QoS: 2, RetainHandling: 1}
	sub := f.connect("sub", window(50))
	sub.subscribe(once)
	client := newSubscriber()
	for step := 0; client.count() < n; step++ {
		if step > 10_000 {
			t.Fatalf("only %d of %d after %d steps", client.count(), n, step)
		}
		if _, _, _, err := sub.NextRetained(nil); err != nil {
			t.Fatal(err)
		}
		f.settled()
		for _, d := range sub.take() {
			client.handle(t, sub, d)
		}
		if step%4 == 3 {
			if step%8 == 3 {
				f.crash(cut)
			} else {
				sub.fail()
			}
			sub = f.connect("sub", window(50))
			once.RetainHandling = 1 + uint8(step/4%2)
			sub.subscribe(once)
		}
	}
	for payload, times := range client.got {
		f.equal(payload, times, 1)
	}
}

// A publish may have waited for room since before the subscription: what tells old from new is the order
// in which they took effect.
func TestAMessageHeldUpSinceBeforeTheSubscriptionComesOnceAcrossACrash(t *testing.T) {
	t.Parallel()
	f := setup(t, Options{})
	pub := f.connect("pub", clean)
	pub.retain("a/first", "first", 2)
	f.settled()
	sub := f.connect("sub")
	received := f.Now() - 5000
	sub.subscribe(to("a/#", 2))
	pub.sendMessage("a/held", &message.Message{Payload: []byte("held"), QoS: 2, Retain: true, ReceivedAt: received})
	f.settled()
	f.crash(cut)
	sub = f.connect("sub")
	sub.walk()
	f.settled()
	f.equal("waiting", f.mailboxOf("sub").Ready+f.mailboxOf("sub").InFlight, 2)
}

func TestWhatIsRetainedDuringAWalkComesOnce(t *testing.T) {
	t.Parallel()
	for _, crash := range []bool{false, true} {
		f := setup(t, Options{})
		pub := f.connect("pub", clean)
		pub.retain("a/1", "old 1", 1)
		pub.retain("a/2", "old 2", 1)
		sub := f.connect("sub")
		sub.subscribe(to("a/#", 1))
		later := f.Now() + 1 // the clock tells old from new after a crash, to the millisecond
		f.eventually("the clock", func() bool { return f.Now() >= later })
		pub.retain("a/2", "new 2", 1)
		f.flushed(pub.retain("a/3", "new 3", 1).LSN)
		if crash {
			f.crash(kill)
			sub = f.connect("sub")
		}
		sub.walk()
		sub.expect("new 2", "new 3", "old 1!")
		f.stop()
	}
}

func TestNewsAtQoS0ThatNobodyKeptIsSentByTheWalk(t *testing.T) {
	t.Parallel()
	f := setup(t, Options{})
	pub := f.connect("pub", clean)
	pub.retain("a", "old", 0)
	sub := f.connect("sub")
	sub.subscribe(to("a", 1))
	sub.leave()
	pub.retain("a", "new", 0) // at QoS 0 and nobody there
	sub = f.connect("sub")
	f.equal("sent", sub.walk(), []string{"new!"})
}

func TestAMessageReplacedWhileAWalkReadItDoesNotComeBehindItsSuccessor(t *testing.T) {
	t.Parallel()
	f := setup(t, Options{})
	pub := f.connect("pub", clean)
	pub.retain("a", "old", 1)
	pub.retain("b", "removed", 1)
	sub := f.connect("sub")
	sub.subscribe(to("#", 1))
	w, next, err := sub.peekWalk(retainedChunk)
	if err != nil || len(next.values) != 2 {
		t.Fatal(next, err)
	}
	pub.retain("a", "new", 1)
	pub.retain("b", "", 1)
	b, err := f.store.Begin(0, next.size+100)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range next.values {
		f.equal("still the newest", sub.isNewest(&v), false)
	}
	sub.session.advance(b, w, &next)
	b.Commit()
	sub.expect("new", "")
}

func TestAWalkLeavesRoomForTheSessionsBound(t *testing.T) {
	t.Parallel()
	f := setup(t, Options{MaxQueued: 10})
	pub := f.connect("pub", clean)
	var want []string
	for i := range 100 {
		pub.retain(fmt.Sprintf("a/%03d", i), fmt.Sprintf("%03d", i), 1)
		want = append(want, fmt.Sprintf("%03d!", i))
	}
	sub := f.connect("sub", window(5))
	sub.subscribe(to("a/#", 1), to("live", 1))
	f.flushed(pub.send("live", "live", 1).LSN)
	got := sub.receive(1)
	f.equal("live comes first", got, []string{"live"})
	got = nil
	for len(got) < 100 {
		sub.walk()
		got = append(got, sub.receive(1)...)
	}
	f.equal("retained", got, want)
	f.equal("dropped", f.Counters().Dropped[0].Load(), 0)
}

func TestRetainedMessagesOfTheLargestSizeAreSentFromASmallJournal(t *testing.T) {
	t.Parallel()
	f := setupOn(t, Options{}, 1, journal.Options{SegmentBytes: 64 << 10, Segments: 8})
	pub := f.connect("pub", clean)
	body := strings.Repeat("x", 25_000)
	for i := range 3 {
		f.flushed(pub.retain(strings.Repeat("<", 1000)+fmt.Sprint("/", i), body, 1).LSN)
		if err := f.store.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	sub := f.connect("sub")
	sub.subscribe(to("#", 1))
	sub.walk()
	for _, got := range sub.receive(3) {
		f.equal("body", got == body+"!", true)
	}
}

func TestAWalkWhoseNextMessageNeverFitsIsGivenUpAlone(t *testing.T) {
	t.Parallel()
	f := setupOn(t, Options{}, 1, journal.Options{SegmentBytes: 64 << 10, Segments: 8})
	pub := f.connect("pub", clean)
	f.flushed(pub.retain("a", strings.Repeat("x", 25_000), 1).LSN)
	f.flushed(pub.retain("b", "small", 1).LSN)
	long := strings.Repeat("c", 7000)
	sub := f.connect(long)
	filter := "#" // with its records and the body more than a segment
	sub.subscribe(to(filter, 1), to("b", 1))
	sub.session.walks[0].sub.Filter = strings.Repeat("f", 40_000)
	sub.walk()
	sub.expect("small!")
	f.equal("walking", sub.Walking(), false)
}

func TestExpiredRetainedMessagesAreNotSentAndLeaveTheDisk(t *testing.T) {
	t.Parallel()
	f := setup(t, Options{})
	pub := f.connect("pub", clean)
	expiring := func(topic string, at int64) {
		pub.sendMessage(topic, &message.Message{Payload: []byte(topic), Retain: true, ExpiresAt: at})
	}
	soon := f.Now() + 1000 // both are there before one sweep takes them
	expiring("soon", soon)
	expiring("$x", soon) // which no wildcard finds
	expiring("late", soon+3_600_000)
	pub.retain("never", "never", 0)
	f.eventually("the sweep", func() bool { return f.Gauges().Retained == 2 })
	f.equal("ended", f.Counters().RetainedEnded.Load(), 2)
	f.settled()
	f.crash(cut)
	f.equal("found", f.Found().Retained, 2)
	f.wall.Add(3_700_000) // while it was down
	f.crash(cut)
	sub := f.connect("sub")
	sub.subscribe(to("#", 1))
	f.equal("sent", sub.walk(), []string{"never!"})
	f.eventually("the sweep after the start", func() bool { return f.Gauges().Retained == 1 })
}

func TestTheNumberOfRetainedMessagesIsBounded(t *testing.T) {
	t.Parallel()
	f := setup(t, Options{MaxRetained: 2})
	pub := f.connect("pub", clean)
	sub := f.connect("sub", clean)
	sub.subscribe(to("#", 0))
	pub.retain("a", "1", 0)
	pub.retain("b", "1", 0)
	f.equal("one more", pub.retain("c", "1", 1).Refused, true)
	f.equal("in place of another", pub.retain("a", "2", 0).Refused, false)
	f.equal("removal", pub.retain("b", "", 0).Refused, false)
	f.equal("room again", pub.retain("c", "2", 0).Refused, false)
	sub.expectLive("1", "1", "2", "", "2") // the refused one reached nobody
	f.equal("refused", f.Counters().Refused.Load(), 1)
}
