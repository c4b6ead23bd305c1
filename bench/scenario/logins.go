package scenario

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"emanet/bench/peer"
)

const users = 5000

var logins = Scenario{
	Name: "logins",
	About: "-logins connections with user and password, each a user of its own, as fast as 16 dialers can; then all leave " +
		"and come again. emanet's verifiers are SCRAM-SHA-256 with 4,096 iterations and are remembered; mosquitto's are " +
		"what mosquitto_passwd writes, PBKDF2 with 101, each time",
	Metrics: []Metric{
		{Name: "first logins", Unit: "connections/s"},
		{Name: "logins again", Unit: "connections/s", Bar: ">= 1x"},
		{Name: "memory each, with the user", Unit: "KiB", Less: true},
	},
	Needs:  peer.Needs{Users: users},
	Rounds: 1,
	Run:    runLogins,
}

func runLogins(b *peer.Broker, s Settings) (Figures, error) {
	count := min(s.Logins, users)
	before, err := b.SettledMemory(5 * time.Second)
	if err != nil {
		return nil, err
	}
	first, err := logIn(b, count)
	defer func() { first.leave() }()
	if err != nil {
		return nil, err
	}
	after, err := b.SettledMemory(5 * time.Second)
	if err != nil {
		return nil, err
	}
	first.leave()
	again, err := logIn(b, count)
	defer again.leave()
	if err != nil {
		return nil, err
	}
	return Figures{
		"first logins":               float64(count) / first.took.Seconds(),
		"logins again":               float64(count) / again.took.Seconds(),
		"memory each, with the user": float64(after-before) / 1024 / float64(count),
	}, nil
}

type crowd struct {
	conns []net.Conn
	took  time.Duration
}

func logIn(b *peer.Broker, count int) (crowd, error) {
	const dialers = 16
	all := crowd{conns: make([]net.Conn, count)}
	errs := make([]error, dialers)
	began := time.Now()
	var group sync.WaitGroup
	for d := range dialers {
		group.Go(func() {
			for i := d; i < count && errs[d] == nil; i += dialers {
				all.conns[i], errs[d] = b.TargetOf(i).Dial(fmt.Sprintf("login-%d", i), true)
			}
		})
	}
	group.Wait()
	all.took = time.Since(began)
	return all, errors.Join(errs...)
}

// leave cuts the connections without TIME_WAIT, which would keep their ports.
func (c *crowd) leave() {
	for _, nc := range c.conns {
		if tcp, ok := nc.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
			_ = tcp.Close()
		}
	}
	c.conns = nil
}
