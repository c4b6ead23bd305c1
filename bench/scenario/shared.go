package scenario

import (
	"fmt"
	"sync/atomic"
	"time"

	"emanet/bench/load"
	"emanet/bench/peer"
)

var shared = Scenario{
	Name: "shared",
	About: "QoS 1 end to end, 1 publisher with 500 in flight, for half of -seconds to 1 subscriber, then for as long to a " +
		"shared subscription with 8 members; subscribers persistent and online",
	Metrics: []Metric{
		{Name: "1 subscriber", Unit: "msg/s"},
		{Name: "8 members", Unit: "msg/s"},
		{Name: "8 members / 1 subscriber", Unit: "x", Bar: ">= 1"},
		{Name: "delivered of what was acknowledged", Unit: "%"},
	},
	Rounds: 3,
	Run:    runShared,
}

const (
	sharedMembers  = 8
	sharedInFlight = 500
)

func runShared(b *peer.Broker, s Settings) (Figures, error) {
	length := time.Duration(s.Seconds) * time.Second / 2
	one, err := oneToMany(b, "single", "single/t", 1, length)
	if err != nil {
		return nil, fmt.Errorf("to one subscriber: %w", err)
	}
	many, err := oneToMany(b, "member", "$share/group/shared/t", sharedMembers, length)
	if err != nil {
		return nil, fmt.Errorf("to the group: %w", err)
	}
	return Figures{
		"1 subscriber":                       one.rate,
		"8 members":                          many.rate,
		"8 members / 1 subscriber":           many.rate / one.rate,
		"delivered of what was acknowledged": 100 * many.delivered,
	}, nil
}

type flow struct {
	rate      float64 // messages a second, settled by subscribers
	delivered float64 // share of those acknowledged to the publisher
}

// oneToMany publishes from one connection to subscribers that all have the same filter.
func oneToMany(b *peer.Broker, name, filter string, subscribers int32, length time.Duration) (flow, error) {
	topic := filter
	if subscribers > 1 {
		topic = "shared/t"
	}
	var received, acked atomic.Int64
	var ready atomic.Int32
	consumed, closeSubscribers, err := fleet(b.Target(), name, int(subscribers), false, func(_ int, c conn) error {
		if err := load.SubscribeOn(c, filter, 1); err != nil {
			return err
		}
		ready.Add(1)
		return load.Consume(c, &received)
	})
	if err != nil {
		return flow{}, err
	}
	defer closeSubscribers()
	if err := awaitReady(&ready, subscribers); err != nil {
		return flow{}, err
	}
	var stop atomic.Bool
	began := time.Now()
	wait, closePublisher, err := fleet(b.Target(), name+"-publisher", 1, true, func(_ int, c conn) error {
		return load.NewPublisher(c, topic, PayloadSize, sharedInFlight).Run(1<<40, &stop, &acked)
	})
	if err != nil {
		return flow{}, err
	}
	defer closePublisher()
	time.Sleep(length)
	stop.Store(true)
	if err := wait(); err != nil {
		return flow{}, err
	}
	until := drained(&received)
	closeSubscribers()
	if err := consumed(); err != nil {
		return flow{}, err
	}
	n := float64(received.Load())
	return flow{n / until.Sub(began).Seconds(), n / float64(max(acked.Load(), 1))}, nil
}
