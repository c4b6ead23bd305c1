package broker

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"emanet/internal/journal"
	"emanet/internal/message"
	"emanet/internal/store"
)

func TestAMoveGoesOnWhenTheStoreHasRoomAgain(t *testing.T) {
	t.Parallel()
	f := setupOn(t, Options{}, 1, journal.Options{SegmentBytes: 256 << 10, Segments: 8, UnflushedMax: 32 << 10})
	f.connect("away").subscribe(to("$share/g/a", 2), to("z", 1))
	f.conns[0].leave()
	c := f.connect("clean", clean, window(1))
	c.subscribe(to("b", 1), to("$share/g/a", 2))
	pub := f.connect("pub", clean)
	pub.send("b", "its own", 1)
	_, keys, _ := c.takes(1)
	var last Outcome
	for i := range 3 {
		last = pub.send("a", fmt.Sprint(i+1), 2)
	}
	f.flushed(last.LSN)
	f.idle()

	release := f.holdFlushes()
	defer release()
	for _, size := range []int{1000, 50} { // until not even the smallest batch has room
		for {
			b, err := f.store.Begin(store.Control, size)
			if errors.Is(err, store.ErrBusy) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			b.Delete(kindShare, strings.Repeat("x", size-40))
			b.Commit()
		}
	}
	c.settle(keys...) // which leaves room, and takes no batch
	g := f.groups.all()[0]
	f.eventually("the move to be refused", g.pump.blocked.Load)
	f.idleNow()
	f.equal("nothing is lost", fmt.Sprint(g.mailbox.Status().Ready, g.mailbox.Status().InFlight), "3 0")
	release()
	for i := range 3 {
		got, keys, _ := c.takes(1)
		f.equal("got", got, []string{fmt.Sprint(i + 1)})
		if _, ok, err := c.Release(keys[0]); !ok || err != nil {
			t.Fatal(ok, err)
		}
		c.settle(keys...)
	}
}

// visitor comes, takes, settles some and goes, one way or another.
type visitor struct {
	t    *testing.T
	f    *fixture
	name string
	rng  *rand.Rand
	got  func(payload string, qos uint8)
	held map[uint64]bool // QoS 2, between PUBLISH and the end
}

func (v *visitor) visit() {
	c := &conn{f: v.f}
	want := Connect{ClientID: v.name, Expiry: 100, Window: 1 + v.rng.IntN(8), Receiver: c, CleanStart: v.rng.IntN(2) == 0}
	if v.rng.IntN(2) == 0 {
		want.Expiry = 0
	}
	a, err := v.f.Attach(want)
	if err != nil {
		v.t.Error(err)
		return
	}
	c.Client = a.Client
	v.f.flushed(a.LSN)
	if !a.Present {
		v.held = map[uint64]bool{}
	}
	if _, _, err := c.Subscribe([]Subscription{to("$share/g/a", uint8(1+v.rng.IntN(2)))}); err != nil {
		v.t.Error(err)
	}
	for range 1 + v.rng.IntN(20) {
		v.f.settled()
		v.answer(c)
	}
	if v.rng.IntN(3) == 0 {
		if _, _, err := c.Unsubscribe([]string{"$share/g/a"}); err != nil {
			v.t.Error(err)
		}
		v.answer(c)
	}
	if v.rng.IntN(3) > 0 { // else the next visit takes the session over
		c.Detach(Goodbye{Clean: true, HasExpiry: true, Expiry: uint32(v.rng.IntN(2) * 100)})
	}
}

// answer takes what there is and settles most of it.
func (v *visitor) answer(c *conn) {
	var keys []uint64
	for _, d := range c.Take(nil) {
		qos := d.Attr & AttrQoS
		if !v.held[d.Key] {
			v.got(string(d.Message.Payload), qos)
		}
		v.held[d.Key] = qos == 2
		if v.rng.IntN(5) > 0 {
			delete(v.held, d.Key)
			keys = append(keys, d.Key)
		}
	}
	if err := c.Settle(keys); err != nil {
		v.t.Error(err)
	}
}

// Members of every kind come and go on goroutines of their own, while publishers publish and the pump hands out.
func TestMembersComeAndGoWhileMessagesAreHandedOut(t *testing.T) {
	t.Parallel()
	const publishers, each = 2, 400
	f := setupOn(t, Options{}, 1, journal.Options{SegmentBytes: 1 << 20, Segments: 8})
	keeper := f.connect("keeper")
	keeper.subscribe(to("$share/g/a", 2))
	var mu sync.Mutex
	got, two := map[string]int{}, map[string]int{}
	note := func(payload string, qos uint8) {
		mu.Lock()
		defer mu.Unlock()
		got[payload]++
		if qos == 2 {
			two[payload]++
		}
	}
	var visiting, publishing sync.WaitGroup
	stop := make(chan struct{})
	for i := range 4 {
		v := &visitor{t: t, f: f, name: fmt.Sprint("visitor", i), rng: rand.New(rand.NewPCG(uint64(i), 5)), got: note}
		visiting.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					v.visit()
				}
			}
		})
	}
	for i := range publishers {
		pub := f.connect(fmt.Sprint("pub", i), clean)
		publishing.Go(func() {
			for k := range each {
				m := &message.Message{Payload: fmt.Append(nil, i, "/", k), QoS: uint8(1 + k%2), ReceivedAt: f.Now()}
				out, err := pub.Publish([]byte("a"), m, uint16(k+1)*uint16(k%2))
				if err != nil {
					t.Error(err)
					return
				}
				pub.Flush()
				f.flushed(out.LSN)
			}
		})
	}
	publishing.Wait()
	close(stop)
	visiting.Wait()
	for i := range 4 { // sessions that are left end: what they hold is the keeper's
		f.connect(fmt.Sprint("visitor", i), cleanStart, expiry(0)).leave()
	}
	keeper.keep(note)
	for i := range publishers {
		for k := range each {
			payload := fmt.Sprint(i, "/", k)
			if got[payload] == 0 {
				t.Errorf("%s is lost", payload)
			}
			if two[payload] > 1 {
				t.Errorf("%s came %d times at QoS 2", payload, two[payload])
			}
		}
	}
}

// keep takes and settles all there is.
func (c *conn) keep(note func(payload string, qos uint8)) {
	c.f.Helper()
	c.f.eventually("the keeper to have the rest", func() bool {
		c.f.settled()
		var keys []uint64
		for _, d := range c.take() {
			note(string(d.Message.Payload), d.Attr&AttrQoS)
			keys = append(keys, d.Key)
		}
		c.settle(keys...)
		g := c.f.Gauges()
		return g.GroupsPending+g.Pending == 0
	})
}

func TestAMessageFromMemoryIsOnDiskBeforeAPersistentMemberIsSentItAtQoS2(t *testing.T) {
	t.Parallel()
	f := setup(t, Options{})
	f.connect("clean", clean, window(1)).subscribe(to("$share/g/a", 2))
	pub := f.connect("pub", clean)
	for i := range 3 {
		pub.send("a", fmt.Sprint(i+1), 2)
	}
	f.idle()
	c := f.connect("persistent")
	c.subscribe(to("$share/g/a", 2))
	got, keys, _ := c.takes(2)
	f.equal("got", got, []string{"2", "3"})
	f.crash(cut)
	again, keysAgain, dup := f.connect("persistent").takes(2)
	f.equal("the same", fmt.Sprint(again, keysAgain, dup), fmt.Sprint(got, keys, []bool{true, true}))
}

func TestWhatMovedToAMemberStaysInOrderWhileNobodyElseIsThere(t *testing.T) {
	t.Parallel()
	f := setup(t, Options{})
	c := f.members(1, 2, window(3))[0]
	f.burst(6, 2)
	c.fail()
	f.idle()
	f.equal("with the member", f.mailboxOf("member0").Ready, 3)
	c = f.connect("member0", window(3))
	f.equal("in order", strings.Join(c.receive(6), " "), "1 2 3 4 5 6")

	f.burst(6, 2)
	c.fail()
	f.idle()
	other := f.connect("other", window(10))
	other.subscribe(to("$share/g/a", 2))
	f.idle()
	f.equal("the other's", strings.Join(other.receive(6), " "), "4 5 6 1 2 3")
	f.equal("left with the member", f.mailboxOf("member0").Ready, 0)
}
