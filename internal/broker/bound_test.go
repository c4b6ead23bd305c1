package broker

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"emanet/internal/disk/powercut"
	"emanet/internal/journal"
	"emanet/internal/mailbox"
	"emanet/internal/message"
	"emanet/internal/store"
)

func TestTheOldestIsDroppedAndStaysAway(t *testing.T) {
	t.Parallel()
	f := setup(t, Options{MaxQueued: 3})
	c := f.connect("c")
	c.subscribe(to("a", 1))
	c.leave()
	pub := f.connect("pub", clean)
	var out Outcome
	for i := range 10 {
		out = pub.send("a", fmt.Sprint(i), 1)
	}
	f.flushed(out.LSN)
	f.equal("dropped", f.Counters().Dropped[mailbox.ReasonOverflow].Load(), 7)
	f.crash(cut)
	f.connect("c").expect("7", "8", "9")
}

func TestRejectNewBoundsSessionsThatEndWithTheirConnectionToo(t *testing.T) {
	t.Parallel()
	f := setup(t, Options{MaxQueued: 5, RejectNew: true})
	f.connect("stuck", clean, window(1)).subscribe(to("a", 1))
	pub := f.connect("pub", clean)
	refused := 0
	for range 50 {
		if pub.send("a", "x", 1).Refused {
			refused++
		}
	}
	if waiting := f.mailboxOf("stuck").Ready; waiting > 5+1 || refused < 40 {
		t.Fatalf("%d wait and %d of 50 were refused", waiting, refused)
	}
}

func TestRejectNewIsAllOrNothingOverAllRecipients(t *testing.T) {
	t.Parallel()
	f := setup(t, Options{MaxQueued: 2, RejectNew: true})
	for _, id := range []string{"full", "empty"} {
		c := f.connect(id)
		c.subscribe(to("both", 2), to(id, 1))
		c.leave()
	}
	live := f.connect("live", clean)
	live.subscribe(to("both", 0))
	pub := f.connect("pub")
	pub.send("full", "1", 1)
	pub.send("full", "2", 1)
	f.settled()
	before := f.store.Appended()
	out := pub.sendMessage("both", &message.Message{Payload: []byte("x"), QoS: 2, Retain: true})
	f.equal("outcome", out, Outcome{Refused: true})
	f.equal("appended", f.store.Appended(), before)
	f.equal("empty", f.mailboxOf("empty").Ready, 0)
	f.equal("retained", f.Gauges().Retained, 0)
	f.equal("its packet id is not remembered", pub.Received(), 0)
	live.expectLive()
	f.equal("QoS 0 is not bounded", pub.send("both", "zero", 0).Refused, false)
	live.expectLive("zero")
	f.connect("full").expect("1", "2")
	f.settled()
	f.equal("room again", pub.send("both", "y", 2).Refused, false)
	f.equal("counted", f.Counters().Refused.Load(), 1)
}

func TestAPublishForWhichThereIsNoRoomLeavesNoTrace(t *testing.T) {
	t.Parallel()
	f := setupOn(t, Options{}, 1, journal.Options{SegmentBytes: 64 << 10, Segments: 4})
	c := f.connect("c")
	c.subscribe(to("a", 2))
	live := f.connect("live", clean)
	live.subscribe(to("a", 0))
	pub := f.connect("pub")
	release := f.fill()
	defer release()
	before, taken := f.store.Appended(), f.Counters().Published.Load()
	m := &message.Message{Payload: make([]byte, 4000), QoS: 2, Retain: true}
	out, err := pub.Publish([]byte("a"), m, 1)
	if !isNoRoom(err) || out.Room == 0 {
		t.Fatalf("%+v, %v", out, err)
	}
	f.equal("appended", f.store.Appended(), before)
	f.equal("counted", f.Counters().Published.Load(), taken)
	f.equal("queued", f.mailboxOf("c").Ready, 0)
	f.equal("packet id", pub.Received(), 0)
	if _, ok := f.Broker.retained.Get("a"); ok {
		t.Fatal("it is retained")
	}
	live.expectLive()
	room := make(chan struct{})
	f.NotifyRoom(&store.RoomWaiter{Class: store.Publish, Size: out.Room, F: func() { close(room) }})
	release()
	<-room
	out, err = pub.Publish([]byte("a"), m, 1)
	if err != nil || out.Duplicate || out.Matched != 2 {
		t.Fatalf("%+v, %v", out, err)
	}
}

func TestAMessageTooLargeIsRefusedByName(t *testing.T) {
	t.Parallel()
	f := setup(t, Options{})
	f.connect("c").subscribe(to("a", 1))
	pub := f.connect("pub")
	_, err := pub.Publish([]byte("a"), &message.Message{Payload: make([]byte, 300<<10), QoS: 1}, 0)
	if !errors.Is(err, store.ErrTooLarge) {
		t.Fatal(err)
	}
	f.equal("the next", pub.send("a", "x", 1).Matched, 1)
}

func TestSettlementsOfABurstFitIntoASmallJournal(t *testing.T) {
	t.Parallel()
	f := setupOn(t, Options{}, 1, journal.Options{SegmentBytes: 64 << 10, Segments: 8})
	c := f.connect("c", window(5000))
	c.subscribe(to("a", 1))
	pub := f.connect("pub", clean)
	for range 4000 {
		f.send(pub, "a", &message.Message{Payload: []byte("x"), QoS: 1})
	}
	f.equal("received", len(c.receive(4000)), 4000) // acknowledged in few calls
}

func TestExpiryWorksInASmallJournal(t *testing.T) {
	t.Parallel()
	f := setupOn(t, Options{}, 1, journal.Options{SegmentBytes: 64 << 10, Segments: 8})
	c := f.connect("c")
	c.subscribe(to("a", 1))
	c.leave()
	pub := f.connect("pub", clean)
	for range 2000 {
		f.send(pub, "a", &message.Message{Payload: []byte("x"), QoS: 1, ReceivedAt: f.Now(), ExpiresAt: f.Now() + 50})
	}
	f.eventually("all to be dropped", func() bool { return f.mailboxOf("c").Ready == 0 })
}

// A flush fails while publishes, settlements, sessions and wills are under way: nothing after it is
// acknowledged, everything says so, and nothing panics.
func TestAfterAFailedFlushNothingIsAcknowledged(t *testing.T) {
	t.Parallel()
	f := setup(t, Options{})
	c := f.connect("c", withWill(will("w", 1)))
	c.subscribe(to("a", 2))
	pub := f.connect("pub")
	f.flushed(pub.send("a", "before", 2).LSN)
	var failing atomic.Bool
	f.fs.SetHook(func(op powercut.Op) error {
		if failing.Load() && op.Kind == powercut.Sync && strings.Contains(op.Name, "/journal/") {
			return errors.New("the disk is gone")
		}
		return nil
	})
	failing.Store(true)
	lost := pub.send("a", "lost", 2)
	<-f.store.Failed()
	for what, do := range map[string]func() error{
		"publish":     func() error { _, err := pub.Publish([]byte("a"), &message.Message{QoS: 1}, 0); return err },
		"subscribe":   func() error { _, _, err := pub.Subscribe([]Subscription{to("b", 1)}); return err },
		"unsubscribe": func() error { _, _, err := pub.Unsubscribe([]string{"b"}); return err },
		"PUBREL":      func() error { _, _, err := pub.Unreceive(1); return err },
		"settle":      func() error { return c.Settle([]uint64{1}) },
		"PUBREC":      func() error { _, _, err := c.Release(1); return err },
		"attach":      func() error { _, err := f.tryConnect("c"); return err },
	} {
		if err := do(); !errors.Is(err, store.ErrFailed) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if f.Flushed() >= lost.LSN {
		t.Fatal("it passes for flushed")
	}
	f.equal("what needs no disk goes on", pub.send("nobody", "x", 0).Matched, 0)
	c.take()
	f.Gauges()
	c.fail()
	pub.leave()
	f.crash(cut)
	f.eventually("the will of the connection that was cut off", func() bool { return f.Counters().WillsPublished.Load() == 1 })
	c = f.connect("c")
	if got := c.receive(1); got[0] != "before" {
		t.Fatalf("got %v", got)
	}
}

func TestSessionsPastTheirBudgetLeaveTheirMessagesToTheDisk(t *testing.T) {
	t.Parallel()
	f := setup(t, Options{MemoryBudget: 100 << 10})
	const n = 2000
	for i := range 3 {
		c := f.connect(fmt.Sprint("c", i), window(1000))
		c.subscribe(to("a", 1))
		c.leave()
	}
	pub := f.connect("pub", clean)
	for i := range n {
		f.send(pub, "a", &message.Message{Payload: []byte(fmt.Sprintf("%0100d", i)), QoS: 1})
	}
	f.eventually("eviction", func() bool { return f.Gauges().Memory < 400<<10 })
	f.equal("pending", f.Gauges().Pending, 3*n)
	for i := range 3 {
		c := f.connect(fmt.Sprint("c", i), window(1000))
		got := c.receive(n)
		for k := range got {
			f.equal("in order", got[k], fmt.Sprintf("%0100d", k))
		}
	}
}
