package harness

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"syscall"
)

// Metrics gives what /metrics says now: each series by its name with its labels, as Prometheus writes them.
func (b *Broker) Metrics() map[string]float64 {
	b.t.Helper()
	res, err := http.Get(b.URL("/metrics"))
	if err != nil {
		b.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		b.t.Fatalf("/metrics answers %s, %v", res.Status, err)
	}
	series := make(map[string]float64)
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		at := strings.LastIndexByte(line, ' ')
		if at < 0 || line[0] == '#' {
			continue
		}
		value, err := strconv.ParseFloat(line[at+1:], 64)
		if err != nil {
			b.t.Fatalf("/metrics has a line that is none: %q", line)
		}
		series[line[:at]] = value
	}
	return series
}

// Reload sends SIGHUP and waits until the reload has ended as the result says: "ok" or "failed".
func (b *Broker) Reload(result string) {
	b.t.Helper()
	name := fmt.Sprintf("emanet_reloads_total{result=%q}", result)
	before := b.Metrics()[name]
	if err := b.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		b.t.Fatal(err)
	}
	Eventually(b.t, name+" has grown", func() bool { return b.Metrics()[name] == before+1 })
}
