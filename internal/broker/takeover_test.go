package broker

import (
	"fmt"
	"sync"
	"testing"

	"emanet/internal/message"
)

func TestALoserChangesNothingAnyMore(t *testing.T) {
	t.Parallel()
	f := setup(t, Options{})
	loser := f.connect("c")
	loser.subscribe(to("a", 1))
	pub := f.connect("pub", clean)
	f.flushed(pub.send("a", "x", 1).LSN)
	var taken []uint64
	f.eventually("the delivery", func() bool {
		for _, d := range loser.take() {
			taken = append(taken, d.Key)
		}
		return len(taken) == 1
	})
	winner := f.connect("c")
	f.equal("present", winner.present, true)
	f.equal("told", loser.takenBy.Load(), 1)
	f.equal("displaced", loser.Displaced(), true)
	gone := func(what string, err error) {
		t.Helper()
		if err != ErrGone {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err := loser.Publish([]byte("b"), &message.Message{QoS: 2}, 1)
	gone("publish", err)
	_, err = loser.Publish([]byte("b"), &message.Message{}, 0)
	gone("publish at QoS 0", err)
	_, _, err = loser.Subscribe([]Subscription{to("b", 1)})
	gone("subscribe", err)
	_, _, err = loser.Unsubscribe([]string{"a"})
	gone("unsubscribe", err)
	_, _, err = loser.Unreceive(1)
	gone("PUBREL", err)
	f.equal("settle", loser.Settle(taken), nil)
	_, ok, err := loser.Release(taken[0])
	f.equal("release", fmt.Sprint(ok, err), "false <nil>")
	f.equal("take", len(loser.take()), 0)
	loser.fail()
	f.equal("subscriptions", f.Gauges().Subscriptions, 1)
	f.eventually("the resend", func() bool {
		for _, d := range winner.take() {
			f.equal("DUP", d.Redelivered, true)
			return true
		}
		return false
	})
}

// Two goroutines take one session from each other a thousand times, while a third publishes to it at QoS 2.
// One survives each time, every loser is told once, and the client gets every message once.
func TestTakeoversThatRaceLoseAndDoubleNothing(t *testing.T) {
	t.Parallel()
	f := setup(t, Options{MaxQueued: 1 << 20})
	f.connect("c").subscribe(to("a", 2))
	const rounds, messages = 500, 1000

	var mu sync.Mutex // the client's state, and its connections
	client := newSubscriber()
	var conns []*conn
	session := func() {
		for range rounds {
			c := &conn{f: f}
			a, err := f.Attach(Connect{ClientID: "c", Expiry: Never, Window: 20, Receiver: c})
			if err != nil {
				t.Error(err)
				return
			}
			c.Client = a.Client
			mu.Lock()
			conns = append(conns, c)
			mu.Unlock()
			if !a.Present {
				t.Error("the session was not there")
			}
			f.flushed(a.LSN)
			mu.Lock()
			for _, d := range c.take() {
				client.handleOrLose(t, c, d)
			}
			mu.Unlock()
		}
	}
	var all sync.WaitGroup
	all.Go(session)
	all.Go(session)
	all.Go(func() { f.publishNumbers(messages) })
	all.Wait()
	survivors := 0
	for _, c := range conns {
		switch {
		case c.takenBy.Load() > 1:
			t.Errorf("a loser was told %d times", c.takenBy.Load())
		case c.takenBy.Load() == 0:
			survivors++
		}
		c.Detach(Goodbye{})
	}
	f.equal("survivors", survivors, 1)
	f.equal("takeovers", f.Counters().Takeovers.Load(), 2*rounds)
	last := f.connect("c")
	f.eventually("the rest", func() bool {
		for _, d := range last.take() {
			client.handle(t, last, d)
		}
		return client.count() == messages
	})
	for payload, times := range client.got {
		if times != 1 {
			t.Errorf("%s came %d times", payload, times)
		}
	}
}

// publishNumbers sends 0, 1 and so on at QoS 2, on a goroutine of its own.
func (f *fixture) publishNumbers(n int) {
	pub := &conn{f: f}
	a, err := f.Attach(Connect{ClientID: "pub", CleanStart: true, Window: 1, Receiver: pub})
	if err != nil {
		f.Error(err)
		return
	}
	pub.Client = a.Client
	for i := range n {
		pub.sendAs("a", &message.Message{Payload: []byte(fmt.Sprint(i)), QoS: 2}, uint16(i+1))
	}
	pub.Detach(Goodbye{Clean: true})
}
