package scenario

import (
	"fmt"
	"net"
	"sync"
	"time"

	"emanet/bench/load"
	"emanet/bench/peer"
)

var idle = Scenario{
	Name:  "idle",
	About: "-idle plain TCP connections, each a clean session with one subscription, that do nothing",
	Metrics: []Metric{
		{Name: "memory each", Unit: "KiB", Bar: "<= 16", Less: true},
		{Name: "accepted", Unit: "connections/s"},
	},
	Rounds: 1,
	Run:    runIdle,
}

func runIdle(b *peer.Broker, s Settings) (Figures, error) {
	const dialers = 16
	before, err := b.SettledMemory(5 * time.Second)
	if err != nil {
		return nil, err
	}
	conns := make([]net.Conn, s.Idle)
	defer func() {
		for _, c := range conns {
			if c != nil {
				c.Close()
			}
		}
	}()
	errs := make([]error, dialers)
	began := time.Now()
	var group sync.WaitGroup
	for d := range dialers {
		group.Go(func() {
			for i := d; i < len(conns); i += dialers {
				c, err := b.Target().Dial(fmt.Sprintf("idle-%d", i), true)
				if err == nil {
					conns[i] = c
					err = load.SubscribeOn(c, fmt.Sprintf("idle/%d", i), 0)
				}
				if err != nil {
					errs[d] = fmt.Errorf("connection %d: %w", i, err)
					return
				}
			}
		})
	}
	group.Wait()
	took := time.Since(began)
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	after, err := b.SettledMemory(15 * time.Second)
	if err != nil {
		return nil, err
	}
	return Figures{
		"memory each": float64(after-before) / 1024 / float64(s.Idle),
		"accepted":    float64(s.Idle) / took.Seconds(),
	}, nil
}
