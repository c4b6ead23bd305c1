package mqttserver

import (
	"strings"
	"testing"
	"time"
)

// paced is a rig whose QoS 0 messages wait in a small outbox, and payloads of which 40 are half of it.
func paced(r *rig) { r.opt.MaxLiveBytes = 80 * (4<<10 + 100) }

var fourKilobytes = strings.Repeat("4", 4<<10)

// listener is a subscriber whose end of the pipe holds nothing: what is not read is not taken.
func (r *rig) listener(id string) *peer {
	r.Helper()
	p := r.pipe()
	p.sendAside(v311live(id).bytes())
	p.expect(connack311)
	p.sendAside(subscribe311(1, "t", 0))
	p.expect(pkt(0x90, uint16(1), 0))
	return p
}

// flood publishes until the connection ends.
func (p *peer) flood() (ended chan struct{}) {
	ended = make(chan struct{})
	burst := []byte(strings.Repeat(string(pub311(0, 0, "t", fourKilobytes)), 16))
	go func() {
		defer close(ended)
		for {
			if _, err := p.nc.Write(burst); err != nil {
				return
			}
		}
	}()
	return ended
}

func TestTheOnlyReaderOfAFloodSlowsItsPublisherDownWhileItReads(t *testing.T) {
	r := start(t, paced)
	sub, pub := r.listener("s"), r.connect(v311live("p"))
	ended := pub.flood()
	for began := time.Now(); r.stats().Paced.Load() < 3; {
		if time.Since(began) > patience {
			t.Fatal("the publisher was never made to wait")
		}
		sub.expect(pub311(0, 0, "t", fourKilobytes))
	}
	_ = pub.nc.Close()
	<-ended
}

func TestAClientAboveItsRateIsReadInHandfuls(t *testing.T) {
	const rate, above = 1000, 300 // 300 ms, a handful is 10
	r := start(t, func(r *rig) { r.opt.PublishRate = rate })
	p := r.connect(v311live("p"))
	began := time.Now()
	p.send([]byte(strings.Repeat(string(pub311(0, 0, "t", "x")), rate+above)))
	p.nothing()
	took := time.Since(began)
	if took < above*time.Second/rate*9/10 {
		t.Errorf("%d messages above a rate of %d were taken in %v", above, rate, took)
	}
	if waits := r.stats().Hits[HitPublishRate].Load(); waits == 0 || waits > uint64(took/paceEarn)+1 {
		t.Errorf("the client was made to wait %d times in %v", waits, took)
	}
}

func TestAReaderThatHasStoppedDelaysNobody(t *testing.T) {
	r := start(t, paced)
	r.listener("s")
	c := r.only()
	pub := r.connect(v311live("p"))
	ended := pub.flood()
	// Its outbox is full, and the moments are over in which it might have been reading.
	r.eventually("a full outbox", func() bool { return r.stats().LiveDropped.Load() > 100 })
	r.eventually("the time after which it has stopped", func() bool {
		c.out.mu.Lock()
		defer c.out.mu.Unlock()
		return time.Since(c.out.drainedAt) > paceStall
	})
	before, dropped := r.stats().Paced.Load(), r.stats().LiveDropped.Load()
	r.eventually("the flood", func() bool { return r.stats().LiveDropped.Load() > dropped+2000 })
	if n := r.stats().Paced.Load() - before; n > 1 { // one burst may have begun to wait just then
		t.Errorf("%d bursts had to wait for it", n)
	}
	_ = pub.nc.Close()
	<-ended
}

func TestTwoReadersOfATopicSlowNobodyDown(t *testing.T) {
	r := start(t, paced)
	r.listener("stopped")
	sub, pub := r.listener("s"), r.connect(v311live("p"))
	ended := pub.flood()
	for began := time.Now(); r.stats().LiveDropped.Load() < 2000; {
		if time.Since(began) > patience {
			t.Fatal("nothing was dropped, so nobody was slow")
		}
		sub.expect(pub311(0, 0, "t", fourKilobytes))
	}
	if n := r.stats().Paced.Load(); n != 0 {
		t.Errorf("%d bursts had to wait", n)
	}
	_ = pub.nc.Close()
	<-ended
}
