// Package scenario holds the measurements, one to a file. Each runs against one broker that it is given, with an
// empty data folder, and says what it measured; none knows which broker that is.
package scenario

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"emanet/bench/load"
	"emanet/bench/peer"
)

// Metric is one figure that a scenario measures.
type Metric struct {
	Name string
	Unit string
	// Bar is what the project asks of emanet, in words.
	Bar string
	// Less is set when a smaller figure is the better one.
	Less bool
}

// Scenario is one measurement.
type Scenario struct {
	Name    string
	About   string
	Metrics []Metric
	// Needs is what the broker is started with beside MQTT over TCP.
	Needs peer.Needs
	// Rounds is how often it runs against each broker, in turns; the median counts.
	Rounds int
	Run    func(*peer.Broker, Settings) (Figures, error)
}

// Figures are the values of one run, by the name of the metric. A metric that has no meaning for a broker is
// absent.
type Figures map[string]float64

// Settings scale a run.
type Settings struct {
	// Dir is on the disk on which the brokers keep their data.
	Dir string
	// Seconds is how long the timed scenarios run, SustainedSeconds the sustained one.
	Seconds, SustainedSeconds int
	// Burst, Backlog and Idle are counts of messages, messages and connections; Logins of connections with passwords.
	Burst, Backlog, Idle, Logins int
	// Subscriptions are those that are there and match nothing.
	Subscriptions int
}

// PayloadSize is the size of every message's payload.
const PayloadSize = 100

// All lists the scenarios in the order of the report.
var All = slices.Concat(
	[]Scenario{lone, burst, sustained, fanIn, fanOut, pairs, idle, backlog},
	overTLS, overWebSocket,
	[]Scenario{shared, logins, subscriptions},
)

// fleet runs one function on each of several connections at once.
func fleet(at load.Target, name string, count int, clean bool, run func(i int, c conn) error) (wait func() error, closeAll func(), err error) {
	var conns []conn
	closeAll = func() {
		for _, c := range conns {
			_ = load.Cut(c)
		}
	}
	for i := range count {
		c, err := at.Dial(fmt.Sprintf("%s-%d", name, i), clean)
		if err != nil {
			closeAll()
			return nil, nil, err
		}
		conns = append(conns, c)
	}
	var group sync.WaitGroup
	errs := make([]error, count)
	for i, c := range conns {
		group.Go(func() { errs[i] = run(i, c) })
	}
	return func() error {
		group.Wait()
		return errors.Join(errs...)
	}, closeAll, nil
}

// publishQoS1 lets publishers with 100 messages in flight each publish until the total is reached or the time is
// over, and gives messages acknowledged, time taken and the broker's CPU time.
func publishQoS1(b *peer.Broker, at load.Target, topic string, publishers, total int, limit time.Duration) (outcome, error) {
	var stop atomic.Bool
	var acked atomic.Int64
	cpu, err := b.CPU()
	if err != nil {
		return outcome{}, err
	}
	began := time.Now()
	wait, closeAll, err := fleet(at, "publisher", publishers, true, func(i int, c conn) error {
		quota := total / publishers
		if i < total%publishers {
			quota++
		}
		return load.NewPublisher(c, topic, PayloadSize, inFlight).Run(quota, &stop, &acked)
	})
	if err != nil {
		return outcome{}, err
	}
	defer closeAll()
	timer := time.AfterFunc(limit, func() { stop.Store(true) })
	defer timer.Stop()
	if err := wait(); err != nil {
		return outcome{}, err
	}
	took := time.Since(began)
	after, err := b.CPU()
	return outcome{acked.Load(), took, after - cpu}, err
}

const inFlight = 100

type outcome struct {
	messages int64
	took     time.Duration
	cpu      time.Duration
}

func (o outcome) rate() float64 { return float64(o.messages) / o.took.Seconds() }

// microseconds of CPU for each message.
func (o outcome) perMessage() float64 {
	return float64(o.cpu.Microseconds()) / float64(max(o.messages, 1))
}

// drained returns when the counter has not changed for a second, at most after load.Patience, with the
// moment of its last change.
func drained(counter *atomic.Int64) (last time.Time) {
	seen := counter.Load()
	last = time.Now()
	for limit := time.Now().Add(load.Patience); time.Now().Before(limit); time.Sleep(5 * time.Millisecond) {
		if now := counter.Load(); now != seen {
			seen, last = now, time.Now()
		} else if time.Since(last) > time.Second {
			break
		}
	}
	return last
}

func percentile(sorted []time.Duration, p int) float64 {
	return float64(sorted[min(len(sorted)*p/100, len(sorted)-1)].Nanoseconds()) / 1e3
}

// Median of figures of several runs, metric by metric.
func Median(runs []Figures) Figures {
	values := map[string][]float64{}
	for _, run := range runs {
		for name, v := range run {
			values[name] = append(values[name], v)
		}
	}
	out := Figures{}
	for name, vs := range values {
		slices.Sort(vs)
		out[name] = (vs[(len(vs)-1)/2] + vs[len(vs)/2]) / 2
	}
	return out
}
