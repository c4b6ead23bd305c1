package mqttserver

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"emanet/internal/store"
)

// fill leaves no room in the store, not for the smallest change. Nothing is folded until release is called.
func (r *rig) fill() (release func()) {
	r.Helper()
	release = r.holdFolds()
	for size := 32 << 10; size >= store.SizeSettle; {
		b, err := r.store.Begin(store.Control, size)
		switch {
		case errors.Is(err, store.ErrFull):
			size /= 2
		case errors.Is(err, store.ErrBusy):
			room := make(chan struct{})
			r.store.NotifyRoom(&store.RoomWaiter{Class: store.Control, Size: size, F: func() { close(room) }})
			<-room
		case err != nil:
			r.Fatal(err)
		default: // what was not retained is removed
			b.Unretain(strings.Repeat("f", max(size-store.SizeSmall, 1)))
			b.Commit()
		}
	}
	return release
}

// busy leaves as much unflushed as may be, until release is called.
func (r *rig) busy() (release func()) {
	r.Helper()
	release = r.holdFlushes()
	for size := 16 << 10; size >= store.SizeSmall; {
		b, err := r.store.Begin(store.Control, size)
		switch {
		case errors.Is(err, store.ErrBusy) && size > store.SizeSmall:
			size = max(size/2, store.SizeSmall)
		case errors.Is(err, store.ErrBusy):
			size = 0
		case err != nil:
			r.Fatal(err)
		default: // what was not retained is removed
			b.Unretain(strings.Repeat("f", max(size-store.SizeSmall, 1)))
			b.Commit()
		}
	}
	return release
}

func TestAReaderThatWaitsForRoomKeepsNobodyElseWaiting(t *testing.T) {
	testWaitingReader(t, (*rig).fill)
}

func TestAReaderThatWaitsForAFlushKeepsNobodyElseWaiting(t *testing.T) {
	testWaitingReader(t, (*rig).busy)
}

// testWaitingReader has a client publish for another one and then ask for a change that must wait.
func testWaitingReader(t *testing.T, fill func(*rig) (release func())) {
	for name, change := range map[string][]byte{
		"a subscription": subscribe311(1, "s", 1),
		"a settlement":   ack(0x40, 2),
		"a PUBREL":       ack(0x62, 7),
	} {
		t.Run(name, func(t *testing.T) {
			r := start(t)
			other := r.connect(v311live("other"))
			other.subscribe(4, "u", 0)
			p := r.connect(v311("p"))
			p.subscribe(4, "t", 1)
			p.send(pub311(2, 7, "v", "x"))
			p.expect(ack(0x50, 7))
			p.send(pub311(1, 1, "t", "x"))
			p.expectBoth(ack(0x40, 1), pub311(1, 2, "t", "x"))
			release := fill(r)
			p.send(append(pub311(0, 0, "u", "x"), change...))
			other.expect(pub311(0, 0, "u", "x"))
			release()
			p.nothingBut(1)
		})
	}
}

// nothingBut reads up to the answer to a PINGREQ, and past answers at most.
func (p *peer) nothingBut(answers int) {
	p.Helper()
	p.send(pingreq)
	for range answers + 1 {
		if got := p.next(); got == nil || got[0] == pingresp[0] {
			return
		}
	}
	p.Fatal("too many answers")
}

func TestAChangeThatLosesEveryRaceForRoomGoesOnInTheEnd(t *testing.T) {
	r := start(t)
	r.connect(v311("p"))
	c := r.only()
	tries := 0
	err := c.whenRoom(func() error {
		if tries++; tries < 50 {
			return store.ErrFull
		}
		return nil
	})
	if err != nil || tries != 50 {
		t.Errorf("%d tries, %v", tries, err)
	}
}

func TestAMessageTooLargeForItsClientGivesItsCreditBackWhenTheStoreHasRoom(t *testing.T) {
	r := start(t)
	sub, pub := r.pipe(), r.connect(v311live("pub"))
	sub.sendAside(v5("sub").with(0x21, uint16(2), 0x27, uint32(100)).bytes()) // two in flight, of 100 bytes
	if got := sub.next(); got[0] != 0x20 {
		t.Fatal(show(got))
	}
	sub.sendAside(subscribe5(1, "t", 1))
	sub.expect(pkt(0x90, uint16(1), 0, 1))
	for i, payload := range []string{"first", kilobyte, "third"} {
		pub.send(pub311(1, uint16(i+1), "t", payload))
		pub.expect(ack(0x40, uint16(i+1)))
		if i == 0 { // the pipe is read no further: the writer stands still with it
			var began [1]byte
			if _, err := io.ReadFull(sub.nc, began[:]); err != nil {
				t.Fatal(err)
			}
			sub.in = bufio.NewReader(io.MultiReader(bytes.NewReader(began[:]), sub.nc))
		}
	}
	release := r.fill()
	sub.expect(pub5(1, 2, "t", "first"))
	r.eventually("the large one", func() bool { return r.stats().TooLargeDropped.Load() == 1 })
	release()
	sub.expect(pub5(1, 4, "t", "third"))
}
