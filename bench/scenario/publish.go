package scenario

import (
	"math"
	"time"

	"emanet/bench/load"
	"emanet/bench/peer"
)

const publishers = 64

var burst = Scenario{
	Name: "burst",
	About: "64 publishers, 100 in flight each, QoS 1, one offline persistent subscriber; as many messages as -burst says, " +
		"which fit the journal",
	Metrics: []Metric{
		{Name: "acknowledged", Unit: "msg/s", Bar: ">= 2x"},
		{Name: "broker CPU", Unit: "us/msg", Bar: "<= 4", Less: true},
	},
	Rounds: 3,
	Run: func(b *peer.Broker, s Settings) (Figures, error) {
		return publishToOffline(b, b.Target(), "burst", s.Burst, load.Patience)
	},
}

var sustained = Scenario{
	Name:  "sustained",
	About: "the same for -sustained seconds",
	Metrics: []Metric{
		{Name: "acknowledged", Unit: "msg/s", Bar: ">= 1x"},
		{Name: "broker CPU", Unit: "us/msg", Bar: "<= 8", Less: true},
	},
	Rounds: 1,
	Run: func(b *peer.Broker, s Settings) (Figures, error) {
		return publishToOffline(b, b.Target(), "burst", math.MaxInt32, time.Duration(s.SustainedSeconds)*time.Second)
	},
}

// publishToOffline is for names not used before: the session is new, and nobody else has what is published.
func publishToOffline(b *peer.Broker, at load.Target, name string, total int, limit time.Duration) (Figures, error) {
	if err := at.Offline(name, name+"/#"); err != nil {
		return nil, err
	}
	o, err := publishQoS1(b, at, name+"/t", publishers, total, limit)
	if err != nil {
		return nil, err
	}
	return Figures{"acknowledged": o.rate(), "broker CPU": o.perMessage()}, nil
}
