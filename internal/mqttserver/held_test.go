package mqttserver

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"emanet/internal/disk/powercut"
	"emanet/internal/store"
)

// crowded is a rig whose store takes little while a flush is under way.
func crowded(r *rig) { r.journal.UnflushedMax = 8 << 10 }

var kilobyte = strings.Repeat("k", 1<<10)

// stall fills the store: the flush is held, and the next publishes of p find no room. It returns the ids sent.
func stall(r *rig, p *peer, n int) {
	r.Helper()
	for i := range n {
		p.send(pub311(1, uint16(i+1), "t/a", fmt.Sprint(i)+kilobyte))
	}
	p.nothing()
	if r.stats().StalledPublishes.Load() == 0 {
		r.Fatal("nothing is held")
	}
}

func TestPublishesWaitForRoomInOrder(t *testing.T) {
	r := start(t, crowded)
	keep(r, 1)
	p := r.connect(v311("p"))
	release := r.holdFlushes()
	stall(r, p, 30)
	p.send(pub311(0, 0, "u", "x"), pub311(2, 31, "t/a", "two"), ack(0x62, 31))
	p.nothing()
	release()
	// QoS 2's PUBREL came before its PUBLISH was taken in: there was no such id yet.
	seen := uint16(0)
	for seen < 31 {
		got := p.next()
		switch {
		case got == nil:
			t.Fatalf("the end after %d", seen)
		case got[0] == 0x40 || got[0] == 0x50:
			seen++
			if id := uint16(got[2])<<8 | uint16(got[3]); id != seen {
				t.Fatalf("%s comes as the %dth", show(got), seen)
			}
		}
	}
	k := r.connect(v5("keeper"))
	for i := range uint16(30) {
		k.expect(pub5(1, i+2, "t/a", fmt.Sprint(i)+kilobyte))
	}
	k.expect(pub5(1, 32, "t/a", "two"))
}

func TestAcknowledgementsAreReadWhilePublishesAreHeld(t *testing.T) { // DESIGN 2
	r := start(t, crowded)
	p := r.connect(v311("p"))
	p.subscribe(4, "t/a", 1)
	p.send(pub311(1, 50, "t/a", "x"))
	p.expectBoth(ack(0x40, 50), pub311(1, 2, "t/a", "x"))
	r.holdFlushes()
	stall(r, p, 30)
	before := r.server.broker.Gauges().Pending
	p.send(ack(0x40, 2))
	r.eventually("the settlement", func() bool { return r.server.broker.Gauges().Pending == before-1 })
}

func TestHeldPublishesBoundWhatIsReadAndAPauseIsNotSilence(t *testing.T) {
	r := start(t, crowded, func(r *rig) { r.opt.MaxPacket = 1 << 20 })
	keep(r, 1)
	h := v311("p")
	h.keepAlive = 1
	p := r.connect(h)
	release := r.holdFlushes()
	stall(r, p, 30)
	const n = 200
	sent := make(chan error, 1)
	go func() { // more than is held, and than the socket's buffers may take
		big := strings.Repeat("b", 64<<10)
		for i := range n {
			if _, err := p.nc.Write(pub311(0, 0, "u", fmt.Sprint(i, big))); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	c := r.only()
	r.eventually("the bound", func() bool { return c.out.holdsMore(heldMax) })
	if c.out.holdsMore(heldMax + 128<<10) {
		t.Error("more is held than the bound and one packet")
	}
	// The deadline strikes while the reader does not read; there is no other way to bring that about.
	<-time.After(1600 * time.Millisecond)
	release()
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	for i := range uint16(30) {
		p.expect(ack(0x40, i+1))
	}
	p.nothing()
}

func TestAConnectionMayEndWhileItsPublishesAreHeld(t *testing.T) {
	for _, how := range []string{"DISCONNECT", "lost", "taken over", "shutdown", "abort", "beyond the bound"} {
		t.Run(how, func(t *testing.T) {
			r := start(t, crowded)
			keep(r, 1)
			p := r.connect(v311("p"))
			release := r.holdFlushes()
			stall(r, p, 30)
			switch how {
			case "DISCONNECT":
				p.send(disconnect)
			case "lost":
				p.nc.Close()
			case "taken over":
				// CONNECT waits for room as well.
				again := r.dial()
				again.send(v311("p").bytes())
				r.eventually("the takeover", func() bool { return r.server.broker.Counters().Takeovers.Load() == 1 })
				p.closed()
				release()
				again.expect(connack311p)
				return
			case "shutdown":
				done := make(chan struct{})
				go func() {
					defer close(done)
					ctx, cancel := context.WithCancel(context.Background())
					cancel()
					_ = r.server.Shutdown(ctx)
				}()
				p.closed()
				<-done
			case "abort":
				r.server.Abort()
				p.closed()
			case "beyond the bound":
				for range 20 {
					p.send(pub311(0, 0, "u", strings.Repeat("b", 64<<10)))
				}
				c := r.only()
				r.eventually("the bound", func() bool { return c.out.holdsMore(heldMax) })
				r.server.Abort()
				r.eventually("the end, with the store as it is", func() bool { return r.stats().Connections.Load() == 0 })
				if r.stats().HeldLost.Load() == 0 {
					t.Error("nothing was given up")
				}
			}
			release()
			r.eventually("the end", func() bool { return r.stats().Connections.Load() == 0 })
			if how == "DISCONNECT" || how == "lost" { // taken in, though nobody is told
				if n := r.server.broker.Counters().Queued.Load(); n != 30 {
					t.Errorf("%d of 30 queued", n)
				}
			}
		})
	}
}

// holdFolds keeps the store from folding, so that its journal fills.
func (r *rig) holdFolds() (release func()) {
	gate := make(chan struct{})
	r.fs.SetHook(func(op powercut.Op) error {
		if op.Kind == powercut.Write && strings.Contains(op.Name, "broker.db") {
			<-gate
		}
		return nil
	})
	release = sync.OnceFunc(func() { close(gate) })
	r.Cleanup(release)
	return release
}

func TestAFullStoreHoldsEverybodyAndGoesOnWhenThereIsRoom(t *testing.T) {
	r := start(t)
	keep(r, 1)
	p := r.connect(v311("p"))
	release := r.holdFolds()
	sent := 0 // until the journal is full: publishes leave the last quarter to changes
	full := func(class store.Class) bool {
		b, err := r.store.Begin(class, 32<<10)
		if err == nil {
			b.Abort()
		}
		return errors.Is(err, store.ErrFull)
	}
	for ; !full(store.Publish); sent++ {
		p.send(pub311(1, uint16(sent+1), "t/a", kilobyte))
	}
	changing := r.connect(v311("changing")) // changes have the rest, and wait when that is used up
	const changes = 200
	filter := strings.Repeat("f", 4000)
	go func() {
		for i := range uint16(changes) {
			if _, err := changing.nc.Write(subscribe311(i+1, fmt.Sprint(filter, i%50), 1)); err != nil {
				return
			}
		}
	}()
	r.eventually("a full journal", func() bool { return full(store.Control) })
	release()
	for i := range uint16(changes) {
		changing.expect(pkt(0x90, i+1, 1))
	}
	for i := range sent {
		p.expect(ack(0x40, uint16(i+1)))
	}
}

func TestChangesWaitForRoomToo(t *testing.T) {
	r := start(t, crowded)
	keep(r, 2)
	p := r.connect(v311("p"))
	release := r.holdFlushes()
	stall(r, p, 30)
	// More than twice the cap in changes: they wait, the connection lives.
	go func() {
		for i := range uint16(300) {
			if _, err := p.nc.Write(subscribe311(i+1, fmt.Sprintf("s/%d", i), 1)); err != nil {
				return
			}
		}
	}()
	r.eventually("most of them", func() bool { return r.server.broker.Gauges().Subscriptions > 10 })
	release()
	acks := 0
	for range 330 {
		got := p.next()
		if got == nil {
			t.Fatal("the connection has ended")
		}
		if got[0] == 0x90 {
			acks++
		}
	}
	if acks != 300 {
		t.Errorf("%d SUBACKs", acks)
	}
}
