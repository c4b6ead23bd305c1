package broker

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// taker is a connection that takes what comes and settles it at once, on a goroutine of its own.
type taker struct {
	sink
	client *Client
	wake   chan struct{}
	stop   chan struct{}
	got    *atomic.Int64
}

func (t *taker) Wake() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

func (t *taker) run(b *testing.B) {
	var keys []uint64
	deliveries := t.client.Take(nil)
	for {
		for keys = keys[:0]; ; {
			for i := range deliveries {
				keys = append(keys, deliveries[i].Key)
			}
			if deliveries = t.client.Take(deliveries[:0]); len(deliveries) == 0 {
				break
			}
		}
		if err := t.client.Settle(keys); err != nil {
			b.Error(err)
		}
		t.got.Add(int64(len(keys)))
		select {
		case <-t.wake:
		case <-t.stop:
			return
		}
		deliveries = t.client.Take(deliveries[:0])
	}
}

// One publisher to one session, and to eight members of a shared subscription.
func BenchmarkDeliveryAtQoS1(b *testing.B) {
	for _, kind := range []struct {
		name   string
		expiry uint32
	}{{"clean", 0}, {"persistent", Never}} {
		for _, members := range []int{1, 8} {
			b.Run(fmt.Sprintf("%s to %d", kind.name, members), func(b *testing.B) {
				br := benchBroker(b)
				br.opt.MaxQueued = 0
				filter := "site/+/temperature"
				if members > 1 {
					filter = "$share/g/" + filter
				}
				var got atomic.Int64
				stop := make(chan struct{})
				var running sync.WaitGroup
				var takers []*taker
				for i := range members {
					t := &taker{wake: make(chan struct{}, 1), stop: stop, got: &got}
					a, err := br.Attach(Connect{ClientID: fmt.Sprint("sub", i), Expiry: kind.expiry, Window: 100, Receiver: t})
					if err != nil {
						b.Fatal(err)
					}
					t.client = a.Client
					if _, _, err := t.client.Subscribe([]Subscription{to(filter, 1)}); err != nil {
						b.Fatal(err)
					}
					takers = append(takers, t)
				}
				for _, t := range takers {
					running.Go(func() { t.run(b) })
				}
				benchPublish(b, br, 1)
				for got.Load() < int64(b.N/32*32) {
					runtime.Gosched()
				}
				b.StopTimer()
				close(stop)
				running.Wait()
			})
		}
	}
}
