package scenario

import (
	"fmt"
	"sync/atomic"
	"time"

	"emanet/bench/load"
	"emanet/bench/peer"
)

var pairs = Scenario{
	Name: "pairs",
	About: "QoS 1 end to end, 16 publishers to 16 subscribers in pairs, 100 in flight each, subscribers persistent and " +
		"online, for -seconds; deliveries are counted when the subscriber acknowledges",
	Metrics: []Metric{
		{Name: "end to end", Unit: "msg/s", Bar: ">= 1.2x, goal 1.5x"},
		{Name: "broker CPU", Unit: "us/msg", Less: true},
		{Name: "delivered of what was acknowledged", Unit: "%"},
	},
	Rounds: 3,
	Run:    func(b *peer.Broker, s Settings) (Figures, error) { return runPairs(b, b.Target(), s) },
}

const pairCount = 16

func runPairs(b *peer.Broker, at load.Target, s Settings) (Figures, error) {
	var received, acked atomic.Int64
	var ready atomic.Int32
	consumed, closeSubscribers, err := fleet(at, "subscriber", pairCount, false, func(i int, c conn) error {
		if err := load.SubscribeOn(c, fmt.Sprintf("pair/%d", i), 1); err != nil {
			return err
		}
		ready.Add(1)
		return load.Consume(c, &received)
	})
	if err != nil {
		return nil, err
	}
	defer closeSubscribers()
	if err := awaitReady(&ready, pairCount); err != nil {
		return nil, err
	}
	cpu, err := b.CPU()
	if err != nil {
		return nil, err
	}
	var stop atomic.Bool
	began := time.Now()
	wait, closePublishers, err := fleet(at, "publisher", pairCount, true, func(i int, c conn) error {
		return load.NewPublisher(c, fmt.Sprintf("pair/%d", i), PayloadSize, inFlight).Run(1<<40, &stop, &acked)
	})
	if err != nil {
		return nil, err
	}
	defer closePublishers()
	time.Sleep(time.Duration(s.Seconds) * time.Second)
	stop.Store(true)
	if err := wait(); err != nil {
		return nil, err
	}
	until := drained(&received)
	after, err := b.CPU()
	if err != nil {
		return nil, err
	}
	closeSubscribers()
	if err := consumed(); err != nil {
		return nil, err
	}
	n := float64(received.Load())
	return Figures{
		"end to end":                         n / until.Sub(began).Seconds(),
		"broker CPU":                         float64((after - cpu).Microseconds()) / max(n, 1),
		"delivered of what was acknowledged": 100 * n / float64(max(acked.Load(), 1)),
	}, nil
}

// awaitReady returns when so many subscribers have said that they are ready.
func awaitReady(ready *atomic.Int32, count int32) error {
	for limit := time.Now().Add(load.Patience); ready.Load() < count; time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			return fmt.Errorf("%d of %d subscribers are ready", ready.Load(), count)
		}
	}
	return nil
}
