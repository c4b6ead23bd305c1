package broker

import (
	"fmt"
	"sync"
	"testing"

	"emanet/internal/message"
)

// drainer is a connection that takes what came when it is woken, and only then.
type drainer struct {
	conn
	got []string
}

func (d *drainer) Wake() {
	d.mu.Lock()
	d.got = append(d.got, d.live...)
	d.live = nil
	d.mu.Unlock()
	for _, x := range d.Take(nil) {
		d.mu.Lock()
		d.got = append(d.got, string(x.Message.Payload))
		d.mu.Unlock()
		if err := d.Settle([]uint64{x.Key}); err != nil {
			panic(err)
		}
	}
}

// Whoever publishes to a recipient that somebody else has noted leaves the waking to that one. However
// bursts and flushes interleave, the last wake comes after the last message.
func TestNoWakeIsLostBetweenPublishersOfOneRecipient(t *testing.T) {
	t.Parallel()
	for round := range 10 {
		f := setup(t, Options{})
		d := &drainer{conn: conn{f: f}}
		a, err := f.Attach(Connect{ClientID: "sub", Window: 10_000, Receiver: d})
		if err != nil {
			t.Fatal(err)
		}
		d.Client = a.Client
		d.subscribe(to("#", uint8(round%2)))
		const publishers, messages = 4, 300
		var all sync.WaitGroup
		for p := range publishers {
			pub := f.connect(fmt.Sprint("pub", p), clean)
			all.Go(func() {
				for i := range messages {
					m := &message.Message{Payload: []byte(fmt.Sprint(p, i)), QoS: 1}
					if _, err := pub.Publish([]byte("a"), m, 0); err != nil {
						t.Error(err)
					}
					if i%7 == p {
						pub.Flush()
					}
				}
				pub.Flush()
			})
		}
		all.Wait()
		d.mu.Lock()
		f.equal("woken for", len(d.got), publishers*messages)
		d.mu.Unlock()
		d.Detach(Goodbye{Clean: true})
		f.stop()
	}
}
