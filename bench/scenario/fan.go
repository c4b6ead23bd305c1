package scenario

import (
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"emanet/bench/load"
	"emanet/bench/peer"
)

type conn = net.Conn

var fanMetrics = []Metric{
	{Name: "in", Unit: "msg/s"},
	{Name: "out", Unit: "msg/s", Bar: ">= 1.5x"},
	{Name: "delivered of what should be", Unit: "%"},
	{Name: "broker CPU", Unit: "us/delivery", Less: true},
}

var fanIn = Scenario{
	Name:    "fan-in",
	About:   "QoS 0, 50 publishers to 1 subscriber, as fast as the sockets take it, for -seconds",
	Metrics: fanMetrics,
	Rounds:  3,
	Run:     func(b *peer.Broker, s Settings) (Figures, error) { return fan(b, b.Target(), s, 50, 1) },
}

var fanOut = Scenario{
	Name:    "fan-out",
	About:   "QoS 0, 1 publisher to 50 subscribers, as fast as the socket takes it, for -seconds",
	Metrics: fanMetrics,
	Rounds:  3,
	Run:     func(b *peer.Broker, s Settings) (Figures, error) { return fan(b, b.Target(), s, 1, 50) },
}

// fan publishes for some seconds, then waits until nothing more arrives. The rate out counts all deliveries over
// the time until the last one.
func fan(b *peer.Broker, at load.Target, s Settings, publishers, subscribers int) (Figures, error) {
	const topic = "fan/t"
	var received, sent atomic.Int64
	counted, closeSubscribers, err := fleet(at, "subscriber", subscribers, true, func(_ int, c conn) error {
		if err := load.SubscribeOn(c, topic, 0); err != nil {
			return err
		}
		received.Add(1) // tells that it is ready
		load.Count(c, topic, PayloadSize, &received)
		return nil
	})
	if err != nil {
		return nil, err
	}
	defer closeSubscribers()
	for limit := time.Now().Add(load.Patience); received.Load() < int64(subscribers); time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			return nil, fmt.Errorf("%d of %d subscribers are ready", received.Load(), subscribers)
		}
	}
	cpu, err := b.CPU()
	if err != nil {
		return nil, err
	}
	var stop atomic.Bool
	received.Store(0)
	began := time.Now()
	wait, closePublishers, err := fleet(at, "publisher", publishers, true, func(_ int, c conn) error {
		n, err := load.Blast(c, topic, PayloadSize, &stop)
		sent.Add(n)
		return err
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
	published := time.Since(began)
	until := drained(&received)
	after, err := b.CPU()
	if err != nil {
		return nil, err
	}
	closeSubscribers()
	if err := counted(); err != nil {
		return nil, err
	}
	deliveries := float64(received.Load())
	return Figures{
		"in":                          float64(sent.Load()) / published.Seconds(),
		"out":                         deliveries / until.Sub(began).Seconds(),
		"delivered of what should be": 100 * deliveries / float64(sent.Load()*int64(subscribers)),
		"broker CPU":                  float64((after - cpu).Microseconds()) / max(deliveries, 1),
	}, nil
}
