package broker

import (
	"fmt"
	"sync/atomic"
	"testing"

	"emanet/internal/journal"
	"emanet/internal/message"
	"emanet/internal/store"
	"emanet/internal/store/local"
)

// sink is a connection that takes everything and keeps nothing.
type sink struct{ live atomic.Int64 }

func (s *sink) Live(*message.Message, uint8, string) bool { s.live.Add(1); return false }
func (s *sink) Pace()                                     {}
func (s *sink) TakenOver()                                {}
func (s *sink) Wake()                                     {}
func (s *sink) Flushed(store.LSN)                         {}
func (s *sink) FlushedAlone(store.LSN)                    {}

// benchBroker is a broker on the operating system's disk.
func benchBroker(b *testing.B) *Broker {
	st, err := local.Open(b.TempDir(), local.Options{Journal: journal.Options{SegmentBytes: 8 << 20, Segments: 8}})
	if err != nil {
		b.Fatal(err)
	}
	br, err := Open(st, Options{MaxQueued: 1000})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		br.Close()
		if err := st.Close(); err != nil {
			b.Error(err)
		}
	})
	return br
}

func benchClient(b *testing.B, br *Broker, id string, expiry uint32) *Client {
	a, err := br.Attach(Connect{ClientID: id, Expiry: expiry, Window: 20, Receiver: &sink{}})
	if err != nil {
		b.Fatal(err)
	}
	return a.Client
}

func benchPublish(b *testing.B, br *Broker, qos uint8) {
	pub := benchClient(b, br, "pub", 0)
	name, payload := []byte("site/7/temperature"), make([]byte, 100)
	there := make(chan struct{}, 1)
	room := store.RoomWaiter{Class: store.Publish, F: func() { there <- struct{}{} }}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		m := &message.Message{Payload: payload, QoS: qos, ReceivedAt: br.Now()}
		for {
			out, err := pub.Publish(name, m, 0)
			if err == nil {
				break
			}
			if !isNoRoom(err) {
				b.Fatal(err)
			}
			room.Size = out.Room
			br.NotifyRoom(&room)
			<-there
		}
		if i%32 == 31 { // a burst
			pub.Flush()
		}
	}
}

func BenchmarkPublishQoS1ToOneOfflineSession(b *testing.B) {
	br := benchBroker(b)
	c := benchClient(b, br, "sub", Never)
	if _, _, err := c.Subscribe([]Subscription{to("site/+/temperature", 1)}); err != nil {
		b.Fatal(err)
	}
	c.Detach(Goodbye{})
	benchPublish(b, br, 1)
}

func BenchmarkPublishQoS0ToLiveReceivers(b *testing.B) {
	for _, n := range []int{1, 50} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			br := benchBroker(b)
			for i := range n {
				c := benchClient(b, br, fmt.Sprint("sub", i), 0)
				if _, _, err := c.Subscribe([]Subscription{to("site/+/temperature", 0)}); err != nil {
					b.Fatal(err)
				}
			}
			benchPublish(b, br, 0)
		})
	}
}

func BenchmarkPublishQoS1ToAThousandSessions(b *testing.B) {
	br := benchBroker(b)
	for i := range 1000 {
		c := benchClient(b, br, fmt.Sprint("sub", i), Never)
		if _, _, err := c.Subscribe([]Subscription{to("site/+/temperature", 1)}); err != nil {
			b.Fatal(err)
		}
		c.Detach(Goodbye{})
	}
	benchPublish(b, br, 1)
}
