package broker

import (
	"fmt"
	"strings"
	"testing"

	"emanet/internal/message"
)

func TestAPublishToAnOfflineSessionIsAcknowledgedAndDeliveredOnlyAfterItsFlush(t *testing.T) {
	t.Parallel()
	f := setup(t, Options{})
	sub := f.connect("sub")
	sub.subscribe(to("a/+", 1))
	sub.leave()
	f.settled()

	pub := f.connect("pub", clean)
	release := f.holdFlushes()
	defer release()
	out := pub.send("a/b", "1", 1)
	if out.LSN == 0 || f.Flushed() >= out.LSN {
		t.Fatalf("LSN %d, flushed %d", out.LSN, f.Flushed())
	}
	f.equal("matched", out.Matched, 1)
	sub = f.connectAtOnce("sub")
	f.equal("session present", sub.present, true)
	f.equal("taken before the flush", len(sub.take()), 0)
	release()
	f.flushed(out.LSN)
	f.equal("got", sub.receive(1), []string{"1"})
}

func TestAPublishIsOneBatchWithOneBodyWhateverItsFanOut(t *testing.T) {
	t.Parallel()
	f := setup(t, Options{})
	for i := range 100 {
		c := f.connect(fmt.Sprint("sub", i))
		c.subscribe(to("a", 1))
		c.leave()
	}
	pub := f.connect("pub", clean)
	f.settled()
	appended, bytes := f.store.Appended(), f.store.Stats().GroupBytes
	out := pub.send("a", strings.Repeat("x", 10_000), 1)
	f.flushed(out.LSN)
	f.equal("batches", f.store.Appended()-appended, 1)
	if grown := f.store.Stats().GroupBytes - bytes; grown < 10_000 || grown > 12_000 {
		t.Fatalf("the journal has grown by %d bytes", grown)
	}
	f.equal("matched", out.Matched, 100)
}

func TestAPublishThatNobodyKeepsWaitsForNothingAndWritesNothing(t *testing.T) {
	t.Parallel()
	f := setup(t, Options{})
	durable := f.connect("durable")
	durable.subscribe(to("zero", 0))
	volatile := f.connect("volatile", clean)
	volatile.subscribe(to("one", 1), to("two", 2))
	pub := f.connect("pub", clean)
	f.settled()
	before := f.store.Appended()
	f.equal("nobody", pub.send("nobody", "x", 1), Outcome{})
	f.equal("QoS 0 subscription", pub.send("zero", "x", 1), Outcome{Matched: 1})
	f.equal("session that ends with its connection", pub.send("one", "y", 1), Outcome{Matched: 1})
	f.equal("QoS 2", pub.send("two", "z", 2), Outcome{Matched: 1})
	f.equal("appended", f.store.Appended(), before)
	durable.expectLive("x")
	volatile.expect("y", "z")
}

func TestOverlappingSubscriptionsGiveOneCopyAtTheHighestQoSWithAllIdentifiers(t *testing.T) { // [MQTT-3.3.4-2] [MQTT-3.3.4-4]
	t.Parallel()
	f := setup(t, Options{})
	sub := f.connect("sub")
	sub.subscribe(Subscription{Filter: "a/#", QoS: 0, ID: 1}, Subscription{Filter: "a/+", QoS: 2, ID: 2},
		Subscription{Filter: "a/b", QoS: 1}, Subscription{Filter: "#", QoS: 1, ID: 3}, Subscription{Filter: "other", QoS: 1, ID: 4})
	pub := f.connect("pub", clean)
	out := pub.send("a/b", "x", 2)
	f.flushed(out.LSN)
	f.equal("matched", out.Matched, 1)
	var got string
	f.eventually("the delivery", func() bool {
		for _, d := range sub.take() {
			f.equal("QoS", d.Attr&AttrQoS, 2)
			got += show(d.Message, d.Attr, d.Tag)
		}
		return got != ""
	})
	for _, id := range []string{"#1", "#2", "#3"} {
		if len(got) != len("x#1#2#3") || !strings.Contains(got, id) {
			t.Fatalf("got %q, without %s or with something else", got, id)
		}
	}
}

func TestTheRecipientsQoSIsTheLowerOfPublishAndSubscription(t *testing.T) {
	t.Parallel()
	f := setup(t, Options{})
	sub := f.connect("sub")
	sub.subscribe(to("0", 0), to("1", 1), to("2", 2))
	pub := f.connect("pub", clean)
	for _, c := range []struct {
		topic  string
		qos    uint8
		stored bool
	}{{"0", 2, false}, {"1", 0, false}, {"1", 1, true}, {"1", 2, true}, {"2", 0, false}, {"2", 1, true}, {"2", 2, true}} {
		out := pub.send(c.topic, "x", c.qos)
		if stored := out.LSN != 0; stored != c.stored {
			t.Errorf("publish QoS %d to subscription %s: stored %v", c.qos, c.topic, stored)
		}
		if !c.stored {
			sub.expectLive("x")
			continue
		}
		var qos uint8
		f.eventually("the delivery", func() bool {
			ds := sub.take()
			for _, d := range ds {
				qos = d.Attr & AttrQoS
				if err := sub.Settle([]uint64{d.Key}); err != nil {
					t.Fatal(err)
				}
			}
			return len(ds) > 0
		})
		f.equal("QoS", fmt.Sprint(qos), fmt.Sprint(min(c.qos, c.topic[0]-'0')))
	}
}

func TestNoLocalSubscriptionsDoNotHearTheirOwnClient(t *testing.T) { // [MQTT-3.8.3-3]
	t.Parallel()
	f := setup(t, Options{})
	c := f.connect("c")
	c.subscribe(Subscription{Filter: "a", QoS: 1, NoLocal: true}, Subscription{Filter: "b", QoS: 1})
	other := f.connect("other", clean)
	f.equal("own", c.send("a", "own", 1).Matched, 0)
	f.equal("another's", other.send("a", "other", 1).Matched, 1)
	f.equal("own to a plain one", c.send("b", "own", 1).Matched, 1)
	c.expect("other", "own")
}

func TestRetainIsKeptAsPublishedOnlyForThoseWhoAsk(t *testing.T) { // [MQTT-3.3.1-13]
	t.Parallel()
	f := setup(t, Options{})
	plain, asks := f.connect("plain"), f.connect("asks")
	plain.subscribe(to("a", 1))
	asks.subscribe(Subscription{Filter: "a", QoS: 1, RetainAsPublished: true})
	pub := f.connect("pub", clean)
	pub.retain("a", "kept", 1)
	pub.send("a", "not", 1)
	plain.expect("kept", "not")
	asks.expect("kept!", "not")
}

func TestARouteIsMatchedAgainWhenSubscriptionsChange(t *testing.T) {
	t.Parallel()
	f := setup(t, Options{})
	pub := f.connect("pub", clean)
	f.equal("nobody yet", pub.send("a", "0", 1).Matched, 0)
	sub := f.connect("sub")
	sub.subscribe(to("a", 1))
	f.equal("now one", pub.send("a", "1", 1).Matched, 1)
	if _, _, err := sub.Unsubscribe([]string{"a"}); err != nil {
		t.Fatal(err)
	}
	f.equal("nobody again", pub.send("a", "2", 1).Matched, 0)
	for i := range 2 * routesMax { // more topics than are remembered
		f.equal("nobody", pub.send(fmt.Sprint("t", i), "x", 0).Matched, 0)
	}
	sub.expect("1")
}

func TestAMessageThatExpiresBeforeItIsSentIsDroppedAndCounted(t *testing.T) {
	t.Parallel()
	f := setup(t, Options{})
	sub := f.connect("sub")
	sub.subscribe(to("a", 1))
	sub.leave()
	pub := f.connect("pub", clean)
	pub.sendMessage("a", &message.Message{Payload: []byte("short"), QoS: 1, ExpiresAt: f.Now() + 30})
	pub.send("a", "long", 1)
	f.eventually("the drop", func() bool { return f.Counters().Dropped[1].Load() == 1 })
	f.equal("waiting", f.mailboxOf("sub").Ready, 1)
	f.connect("sub").expect("long")
}

func TestOnlyTheSoleReceiverOfAFloodSlowsItsPublisherDown(t *testing.T) {
	t.Parallel()
	f := setup(t, Options{})
	slow, other := f.connect("slow", clean), f.connect("other", clean)
	slow.much = true
	slow.subscribe(to("alone", 0), to("both", 0))
	other.subscribe(to("both", 0))
	pub := f.connect("pub", clean)
	pub.send("both", "x", 0)
	pub.Client.Pace()
	f.equal("with another receiver", slow.paced.Load(), 0)
	pub.send("alone", "x", 0)
	pub.Client.Pace()
	pub.Client.Pace()
	f.equal("alone", slow.paced.Load(), 1)
}
