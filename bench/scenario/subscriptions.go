package scenario

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"emanet/bench/load"
	"emanet/bench/peer"
)

var subscriptions = Scenario{
	Name: "subscriptions",
	About: "-subscriptions that match nothing, 1,000 to a connection, every fourth with +; the pairs before them and beside " +
		"them, and what they take",
	Metrics: []Metric{
		{Name: "made", Unit: "subscriptions/s"},
		{Name: "memory each", Unit: "B", Less: true},
		{Name: "pairs before them", Unit: "msg/s"},
		{Name: "pairs beside them", Unit: "msg/s"},
		{Name: "beside / before", Unit: "x"},
	},
	Rounds: 1,
	Run:    runSubscriptions,
}

const (
	perConnection = 1000
	perSubscribe  = 250
)

func runSubscriptions(b *peer.Broker, s Settings) (Figures, error) {
	before, err := runPairs(b, b.Target(), s)
	if err != nil {
		return nil, err
	}
	memory, err := b.SettledMemory(15 * time.Second)
	if err != nil {
		return nil, err
	}
	conns := make([]net.Conn, (s.Subscriptions+perConnection-1)/perConnection)
	defer func() {
		for _, c := range conns {
			if c != nil {
				c.Close()
			}
		}
	}()
	began := time.Now()
	if err := subscribeAll(b, conns, s.Subscriptions); err != nil {
		return nil, err
	}
	took := time.Since(began)
	after, err := b.SettledMemory(15 * time.Second)
	if err != nil {
		return nil, err
	}
	beside, err := runPairs(b, b.Target(), s)
	if err != nil {
		return nil, err
	}
	return Figures{
		"made":              float64(s.Subscriptions) / took.Seconds(),
		"memory each":       float64(after-memory) / float64(s.Subscriptions),
		"pairs before them": before["end to end"],
		"pairs beside them": beside["end to end"],
		"beside / before":   beside["end to end"] / before["end to end"],
	}, nil
}

func subscribeAll(b *peer.Broker, conns []net.Conn, total int) error {
	const dialers = 8
	errs := make([]error, dialers)
	var group sync.WaitGroup
	for d := range dialers {
		group.Go(func() {
			for i := d; i < len(conns) && errs[d] == nil; i += dialers {
				from := i * perConnection
				conns[i], errs[d] = subscribed(b, from, min(from+perConnection, total))
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// subscribed is a connection with the subscriptions of these numbers.
func subscribed(b *peer.Broker, from, to int) (net.Conn, error) {
	c, err := b.Target().Dial(fmt.Sprintf("holder-%d", from), true)
	if err != nil {
		return nil, err
	}
	for at := from; at < to; at += perSubscribe {
		var filters []string
		for i := at; i < min(at+perSubscribe, to); i++ {
			form := "plant/%d/device%d/state"
			if i%4 == 3 {
				form = "plant/%d/device%d/+"
			}
			filters = append(filters, fmt.Sprintf(form, i%50, i))
		}
		if err := load.SubscribeMany(c, 1, filters...); err != nil {
			return c, err
		}
	}
	return c, nil
}
