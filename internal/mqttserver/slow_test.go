package mqttserver

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// drain publishes nothing, reads all that comes until want packets are there.
func (p *peer) drain(want int) [][]byte {
	p.Helper()
	var all [][]byte
	for len(all) < want {
		got := p.next()
		if got == nil {
			p.Fatalf("the end after %d of %d", len(all), want)
		}
		all = append(all, got)
	}
	return all
}

func TestASlowReaderMissesQoS0AboveTheBoundAndNobodyElseDoes(t *testing.T) {
	r := start(t, func(r *rig) { r.opt.MaxLiveBytes = 20 * (1<<10 + 1 + 64) })
	slow, quick := r.pipe(), r.connect(v311live("quick"))
	slow.sendAside(v311live("slow").bytes())
	slow.expect(connack311)
	slow.sendAside(subscribe311(1, "t", 0))
	slow.expect(pkt(0x90, uint16(1), 0))
	quick.subscribe(4, "t", 0)
	pub := r.connect(v311live("pub"))
	for i := range 100 {
		pub.send(pub311(0, 0, "t", fmt.Sprintf("%04d", i)+kilobyte[4:]))
		quick.expect(pub311(0, 0, "t", fmt.Sprintf("%04d", i)+kilobyte[4:]))
	}
	// Some are with the writer, which is stuck, and the bound holds 20 more.
	got := slow.drain(1)
	dropped := int(r.stats().LiveDropped.Load())
	got = append(got, slow.drain(100-dropped-1)...)
	if dropped < 60 || dropped >= 80 {
		t.Errorf("%d dropped, of 100 with room for 20", dropped)
	}
	for i := 1; i < len(got); i++ {
		if bytes.Compare(got[i-1][6:10], got[i][6:10]) >= 0 {
			t.Fatalf("%q behind %q", got[i][6:10], got[i-1][6:10])
		}
	}
	pub.send(pub311(0, 0, "t", "after"))
	slow.expect(pub311(0, 0, "t", "after"))
}

func TestAMessageLargerThanTheBoundGoesWhenNothingElseWaits(t *testing.T) {
	r := start(t, func(r *rig) { r.opt.MaxLiveBytes = 100 })
	sub, pub := r.connect(v311live("s")), r.connect(v311live("p"))
	sub.subscribe(4, "t", 0)
	for range 3 {
		pub.send(pub311(0, 0, "t", kilobyte))
		sub.expect(pub311(0, 0, "t", kilobyte))
	}
}

func TestASlowReaderHoldsAWindowAndItsAcknowledgementsFlow(t *testing.T) { // [MQTT-3.3.4-9]
	r := start(t, func(r *rig) { r.broOpt.UnsentMax = 4 << 10 })
	h := v5live("s").with(0x21, uint16(5))
	sub, pub := r.connect(h), r.connect(v311live("p"))
	sub.subscribe(5, "t", 1)
	for i := range uint16(20) {
		pub.send(pub311(1, i+1, "t", fmt.Sprint(i)+kilobyte))
		pub.expect(ack(0x40, i+1))
	}
	for i := range uint16(20) {
		if i%5 == 0 {
			for k := range uint16(5) {
				sub.expect(pub5(1, i+k+2, "t", fmt.Sprint(i+k)+kilobyte))
			}
			sub.nothing() // the window is full
		}
		if i%5 == 4 {
			sub.send(ack(0x40, i-2), ack(0x40, i-1), ack(0x40, i), ack(0x40, i+1), ack(0x40, i+2))
		}
	}
}

func TestAClientThatSendsAndNeverReadsIsReadNoMore(t *testing.T) {
	r := start(t)
	p := r.pipe()
	p.sendAside(v311live("p").bytes())
	p.expect(connack311)
	burst := bytes.Repeat(pingreq, inputBuffer/2)
	stuck := make(chan error, 1)
	go func() {
		for {
			if _, err := p.nc.Write(burst); err != nil {
				stuck <- err
				return
			}
		}
	}()
	c := r.only()
	waiting := func() int {
		c.out.mu.Lock()
		defer c.out.mu.Unlock()
		return c.out.pongs + c.out.answers.len()
	}
	r.eventually("the bound", func() bool { return waiting() > answersMax })
	other := r.connect(v311live("o"))
	for range 50 {
		other.nothing()
	}
	if n := waiting(); n > answersMax+inputBuffer/2 {
		t.Errorf("%d answers wait", n)
	}
	r.server.Abort()
	<-stuck
}

func TestLargeAndSmallPayloadsComeWholeAndInOrder(t *testing.T) {
	for _, open := range []func(*rig) *peer{(*rig).dial, (*rig).pipe} {
		r := start(t, func(r *rig) { r.journal.SegmentBytes = 4 << 20; r.journal.Segments = 4 })
		sub, pub := open(r), r.connect(v311live("p"))
		sub.sendAside(v311live("s").bytes(), subscribe311(1, "t", 1))
		sub.expect(connack311, pkt(0x90, uint16(1), 1))
		sizes := []int{1, largePayload - 1, largePayload, 10, largePayload + 1, flushAt, 0, 2*flushAt + 7, 3, 100_000, 5000, 5000}
		for qos := range 2 {
			var all []byte
			for i, n := range sizes {
				all = append(all, pub311(qos, uint16(i+1), "t", strings.Repeat(string(rune('a'+i)), n))...)
			}
			pub.sendAside(all)
			for i, n := range sizes {
				sub.expect(pub311(qos, uint16(i+2), "t", strings.Repeat(string(rune('a'+i)), n)))
			}
		}
	}
}

// A backlog leaves in pieces. What comes while one of them is on its way is announced then, and must be
// looked for when the last piece has left.
func TestWhatComesWhileABacklogLeavesIsSentBehindIt(t *testing.T) {
	r := start(t)
	sub := r.pipe()
	sub.sendAside(v311live("s").bytes(), subscribe311(1, "t", 0))
	sub.expect(connack311, pkt(0x90, uint16(1), 0))
	c := r.only()
	pub := r.connect(v311live("p"))
	const n, size = 10, 60_000
	large := pub311(0, 0, "t", strings.Repeat("x", size))
	for range n {
		pub.send(large)
	}
	pub.nothing()     // all of them wait, but the first, which the pipe does not take
	sub.expect(large) // now as many as leave in one piece are on their way
	r.eventually("the next piece", func() bool {
		c.out.mu.Lock()
		defer c.out.mu.Unlock()
		return c.out.liveB < (n-2)*size
	})
	late := pub311(0, 0, "t", "late")
	pub.send(late)
	pub.nothing()
	for range n - 1 {
		sub.expect(large)
	}
	sub.expect(late)
}

func TestMessagesDoNotAliasTheBuffersTheyCameIn(t *testing.T) {
	r := start(t)
	pub := r.connect(v5live("p"))
	props := cat(0x03, str("content type"), 0x08, str("response/topic"), 0x09, str("correlation"), 0x26, str("key"), str("value"))
	kept := retain(publish(1, 1, "kept/topic", "kept payload", props))
	pub.send(v5live("x").bytes()[:0], kept)
	pub.expect(ack(0x40, 1, 0x10))
	for i := range 50 { // buffers are reused, and filled with something else
		pub.send(publish(0, 0, strings.Repeat("z", 10+i), strings.Repeat("Z", 60_000), cat(0x03, str(strings.Repeat("q", 200)))))
	}
	pub.nothing()
	sub := r.connect(v5live("s"))
	sub.send(subscribe5(1, "kept/#", 1))
	sub.expect(pkt(0x90, uint16(1), 0, 1), retain(publish(1, 2, "kept/topic", "kept payload", props)))
}
