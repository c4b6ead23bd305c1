package mqttserver

import (
	"bytes"
	"fmt"
	"testing"

	"emanet/internal/disk/powercut"
)

// Identifiers of what the server sends begin at 2: the first seq of a mailbox is 1, and the identifier is
// seq mod 65,535 + 1 (DESIGN 3).

// A keeper is a persistent subscriber of everything under t/, which is away.
func keep(r *rig, qos int) {
	r.Helper()
	p := r.connect(v5("keeper"))
	p.subscribe(5, "t/#", qos)
	p.leave()
}

func TestAnswersWaitForTheFlushAndComeInOrder(t *testing.T) { // [MQTT-3.3.4-1], [MQTT311-3.3.4-1]; in order as 4.6 asks of clients
	for _, version := range []int{4, 5} {
		t.Run(fmt.Sprint(version), func(t *testing.T) {
			r := start(t)
			keep(r, 2)
			p := r.connect(hello{version: version, id: "p"})
			var props, none5, unsubscribed []byte
			if version == 5 {
				props, none5, unsubscribed = none, []byte{0}, []byte{0x11}
			}
			release := r.holdFlushes()
			p.send(
				publish(1, 1, "t/a", "one", props),
				publish(2, 2, "t/a", "two", props),
				publish(1, 3, "t/a", "three", props),
				ack(0x62, 2), // before its PUBREC: it was received all the same
				pkt(0x82, uint16(4), none5, str("u"), 1),
				pkt(0xA2, uint16(5), none5, str("v")),
				publish(1, 6, "nobody/is/there", "", props),
			)
			p.nothing()
			release()
			p.expect(ack(0x40, 1), ack(0x50, 2), ack(0x40, 3), ack(0x70, 2),
				pkt(0x90, uint16(4), none5, 1), pkt(0xB0, uint16(5), none5, unsubscribed))
			if version == 5 {
				p.expect(ack(0x40, 6, 0x10))
			} else {
				p.expect(ack(0x40, 6))
			}
		})
	}
}

func TestAPublishThatNobodyKeepsIsAnsweredWithoutAFlush(t *testing.T) {
	r := start(t)
	sub := r.connect(v311live("s"))
	sub.subscribe(4, "t", 1)
	pub := r.connect(v311live("p"))
	r.holdFlushes()
	pub.send(pub311(1, 1, "t", "x"), pub311(2, 2, "t", "y"), ack(0x62, 2), pub311(1, 3, "u", "z"))
	pub.expect(ack(0x40, 1), ack(0x50, 2), ack(0x70, 2), ack(0x40, 3))
	sub.expect(pub311(1, 2, "t", "x"), pub311(1, 3, "t", "y"))
	sub.send(ack(0x40, 2), ack(0x40, 3))
	sub.nothing()
}

func TestPubrelWaitsForTheFlushOfPubrec(t *testing.T) { // ADR 0002, table 2
	r := start(t)
	sub := r.connect(v5("s"))
	sub.subscribe(5, "t", 2)
	pub := r.connect(v5live("p"))
	pub.send(pub5(2, 1, "t", "x"))
	pub.expect(ack(0x50, 1))
	sub.expect(pub5(2, 2, "t", "x"))
	release := r.holdFlushes()
	sub.send(ack(0x50, 2))
	sub.nothing()
	sub.send(ack(0x50, 2)) // again: still one PUBREL (R8)
	sub.nothing()
	release()
	sub.expect(ack(0x62, 2))
	sub.send(ack(0x70, 2))
	sub.nothing()
}

func TestADuplicateIsAnsweredNoEarlierThanItsOriginal(t *testing.T) { // DESIGN 1
	r := start(t)
	keep(r, 2)
	p := r.connect(v5("p"))
	release := r.holdFlushes()
	p.send(pub5(2, 1, "t/a", "x"), dup(pub5(2, 1, "t/a", "x")), ack(0x62, 9))
	p.nothing()
	p.nc.Close()
	p = r.dial()
	p.send(v5("p").bytes(), dup(pub5(2, 1, "t/a", "x")), ack(0x62, 1), ack(0x62, 1))
	other := r.connect(v5live("o"))
	other.nothing()
	release()
	p.expect(connack5(1), ack(0x50, 1), ack(0x70, 1), ack(0x70, 1, 0x92))
	if n := r.server.broker.Counters().Queued.Load(); n != 1 {
		t.Fatalf("queued %d times", n)
	}
}

func TestAcknowledgementsOfConsumersAreReadWhileAFlushTakesLong(t *testing.T) { // DESIGN 2
	r := start(t)
	p := r.connect(v311("p"))
	p.subscribe(4, "t/a", 1)
	for i := uint16(1); i <= 3; i++ {
		p.send(pub311(1, i, "t/a", "x"))
		p.expectBoth(ack(0x40, i), pub311(1, i+1, "t/a", "x"))
	}
	release := r.holdFlushes()
	p.send(pub311(1, 4, "t/a", "y")) // its flush takes long
	p.nothing()
	p.send(ack(0x40, 2), ack(0x40, 3), ack(0x40, 4))
	p.nothing()
	r.eventually("the settlements", func() bool { return r.server.broker.Gauges().Pending == 1 })
	release()
	p.expectBoth(ack(0x40, 4), pub311(1, 5, "t/a", "y"))
}

// expectBoth takes two packets that may come in either order.
func (p *peer) expectBoth(a, b []byte) {
	p.Helper()
	got := [2][]byte{p.next(), p.next()}
	if bytes.Equal(got[0], b) {
		a, b = b, a
	}
	if !bytes.Equal(got[0], a) || !bytes.Equal(got[1], b) {
		p.Fatalf("got %s and %s, want %s and %s", show(got[0]), show(got[1]), show(a), show(b))
	}
}

func TestAFailedFlushIsFollowedByNoAnswerAtAll(t *testing.T) { // DESIGN 1
	r := start(t)
	keep(r, 1)
	p := r.connect(v5("p"))
	idle := r.connect(v5("idle"))
	r.fs.SetHook(func(op powercut.Op) error {
		if op.Kind == powercut.Sync {
			return fmt.Errorf("the disk is gone")
		}
		return nil
	})
	p.send(pub5(1, 1, "t/a", "x"))
	<-r.store.Failed()
	p.send(pub5(1, 2, "t/a", "y"))
	p.closed()
	late := r.dial()
	late.send(v5("late").bytes())
	late.closed()
	r.server.Abort() // what the process does
	idle.closed()
	r.dial().closed()
}

func TestWhatWasAnsweredSurvivesACrash(t *testing.T) {
	r := start(t)
	keep(r, 1)
	p := r.connect(v311("p"))
	for i := uint16(1); i <= 5; i++ {
		p.send(pub311(1, i, "t/a", fmt.Sprint(i)))
		p.expect(ack(0x40, i))
	}
	r.crash()
	k := r.connect(v5("keeper"))
	for i := uint16(1); i <= 5; i++ {
		k.expect(pub5(1, i+1, "t/a", fmt.Sprint(i)))
	}
}
