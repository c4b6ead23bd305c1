package scenario

import (
	"fmt"
	"regexp"
	"strconv"
	"sync/atomic"
	"time"

	"emanet/bench/load"
	"emanet/bench/peer"
)

var backlog = Scenario{
	Name: "backlog",
	About: "-backlog messages queued for one offline session by 16 publishers; then kill -9, and the time from the start " +
		"of the process to the first accepted CONNECT; then the session comes and drains",
	Metrics: []Metric{
		{Name: "queued", Unit: "msg/s"},
		{Name: "memory, peak while queueing", Unit: "MiB", Bar: "<= 256", Less: true},
		{Name: "memory, settled", Unit: "MiB", Bar: "<= 256", Less: true},
		{Name: "start to first CONNACK after kill -9", Unit: "ms", Bar: "<= 1000", Less: true},
		{Name: "there after kill -9", Unit: "%", Bar: "100"},
		{Name: "drained", Unit: "msg/s"},
		{Name: "memory, peak after the restart", Unit: "MiB", Bar: "<= 256", Less: true},
	},
	Rounds: 1,
	Run:    runBacklog,
}

const mib = 1 << 20

func runBacklog(b *peer.Broker, s Settings) (Figures, error) {
	const session, topic = "offline", "backlog/t"
	if err := b.Target().Offline(session, "backlog/#"); err != nil {
		return nil, err
	}
	queued, err := publishQoS1(b, b.Target(), topic, 16, s.Backlog, 10*time.Minute)
	if err != nil {
		return nil, err
	}
	if queued.messages != int64(s.Backlog) {
		return nil, fmt.Errorf("%d of %d messages queued in ten minutes", queued.messages, s.Backlog)
	}
	_, peak, err := b.Memory()
	if err != nil {
		return nil, err
	}
	settled, err := b.SettledMemory(15 * time.Second)
	if err != nil {
		return nil, err
	}
	if err := b.Kill(); err != nil {
		return nil, err
	}
	began := time.Now()
	if err := b.Exec(); err != nil {
		return nil, err
	}
	if err := b.FirstAccepted(); err != nil {
		return nil, err
	}
	started := time.Since(began)
	figures := Figures{
		"queued":                               queued.rate(),
		"memory, peak while queueing":          float64(peak) / mib,
		"memory, settled":                      float64(settled) / mib,
		"start to first CONNACK after kill -9": float64(started.Microseconds()) / 1e3,
	}
	if n, ok := pending(b.Log()); ok && n != s.Backlog {
		return nil, fmt.Errorf("the start-up line says %d pending messages, not %d", n, s.Backlog)
	}
	return figures, drain(b, session, s.Backlog, figures)
}

// drain takes all that is left of the backlog and adds what that tells.
func drain(b *peer.Broker, session string, want int, figures Figures) error {
	c, err := b.Target().Dial(session, false)
	if err != nil {
		return err
	}
	var received atomic.Int64
	done := make(chan error, 1)
	began := time.Now()
	go func() { done <- load.Consume(c, &received) }()
	var last time.Time
	for limit := began.Add(10 * time.Minute); time.Now().Before(limit); {
		if last = drained(&received); received.Load() >= int64(want) || time.Since(last) > time.Second {
			break
		}
	}
	c.Close()
	if err := <-done; err != nil {
		return err
	}
	_, peak, err := b.Memory()
	if err != nil {
		return err
	}
	figures["there after kill -9"] = 100 * float64(received.Load()) / float64(want)
	if received.Load() > 0 {
		figures["drained"] = float64(received.Load()) / last.Sub(began).Seconds()
	}
	figures["memory, peak after the restart"] = float64(peak) / mib
	return nil
}

var pendingAttribute = regexp.MustCompile(`\bsessions=\d+ pending_messages=(\d+)`)

// pending reads how many messages the start-up line says are there.
func pending(log string) (int, bool) {
	m := pendingAttribute.FindStringSubmatch(log)
	if m == nil {
		return 0, false
	}
	n, err := strconv.Atoi(m[1])
	return n, err == nil
}
