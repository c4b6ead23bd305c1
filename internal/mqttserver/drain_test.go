package mqttserver

import (
	"context"
	"testing"
	"time"
)

// shutDown begins a shutdown within limit and returns a channel that is closed at its end.
func (r *rig) shutDown(limit time.Duration) <-chan struct{} {
	r.Helper()
	_ = r.ln.Close()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	r.Cleanup(cancel)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := r.server.Shutdown(ctx); err != nil {
			r.Error(err)
		}
	}()
	r.eventually("the end of the connections to be decided", func() bool {
		r.server.mu.Lock()
		defer r.server.mu.Unlock()
		for c := range r.server.conns {
			if _, ended := c.out.ended(); !ended {
				return false
			}
		}
		return r.server.stopping
	})
	return done
}

// durable gives the publishes to topic t somebody to be flushed for.
func (r *rig) durable() {
	r.Helper()
	p := r.connect(v311("keeper"))
	p.subscribe(4, "t", 1)
	p.leave()
	r.eventually("the keeper's leave", func() bool { return r.stats().Connections.Load() == 0 })
}

func (r *rig) publishesIn() uint64 {
	t := r.server.Traffic()
	return t.In.Publishes()
}

func TestAShutdownAcknowledgesWhatWasReadBeforeItSaysGoodbye(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.durable()
	new5, old := r.connect(v5live("5")), r.connect(v311live("3.1.1"))
	release := r.holdFlushes()
	new5.send(pub5(1, 1, "t", "a"), pub5(2, 2, "t", "b"))
	old.send(pub311(1, 3, "t", "c"))
	r.eventually("the publishes", func() bool { return r.publishesIn() == 3 })
	done := r.shutDown(patience)
	release()
	new5.expect(ack(0x40, 1), ack(0x50, 2))
	new5.goodbyeWith(0x8B)
	old.expect(ack(0x40, 3))
	old.closed() // 3.1.1 has no word for it
	<-done
}

func TestAShutdownWaitsNoLongerThanItsBoundAndAcknowledgesNothingThatIsNotFlushed(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.durable()
	p := r.connect(v5live("p"))
	release := r.holdFlushes()
	defer release()
	p.send(pub5(1, 1, "t", "a"))
	r.eventually("the publish", func() bool { return r.publishesIn() == 1 })
	began := time.Now()
	done := r.shutDown(400 * time.Millisecond)
	p.goodbyeWith(0x8B)
	if after := time.Since(began); after < 150*time.Millisecond {
		t.Errorf("it waited for the flush for %v only", after)
	}
	_ = p.nc.Close()
	<-done
}

// goodbyeWith expects DISCONNECT with a code and whatever reason string, and the end.
func (p *peer) goodbyeWith(code byte) {
	p.Helper()
	if got := p.next(); len(got) < 3 || got[0] != 0xE0 || got[2] != code {
		p.Fatalf("got %s, not DISCONNECT %#x", show(got), code)
	}
	p.closed()
}
