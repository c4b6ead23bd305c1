package harness

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Log is what the broker has written since its last start.
func (b *Broker) Log() string { return b.log() }

// checkLogs fails the test when any run of the broker has panicked, or raced in a build that looks for it.
func (p *process) checkLogs(t testing.TB) {
	t.Helper()
	for run := 1; run <= p.run; run++ {
		text, err := os.ReadFile(p.logOf(run))
		if err != nil {
			continue
		}
		for _, sign := range []string{"panic:", "fatal error:", "WARNING: DATA RACE"} {
			if _, after, found := strings.Cut(string(text), sign); found {
				t.Errorf("run %d of the broker: %s%.4000s", run, sign, after)
			}
		}
	}
}

// Recovered gives what the start-up line says: sessions, pending messages, and milliseconds it took.
func (b *Broker) Recovered() (sessions, pending, ms int) {
	b.t.Helper()
	for line := range strings.Lines(b.log()) {
		if s, ok := attribute(line, "sessions"); ok {
			pending, _ = attribute(line, "pending_messages")
			ms, _ = attribute(line, "ms")
			return s, pending, ms
		}
	}
	b.t.Fatalf("no start-up line with sessions= in the log:\n%s", tail(b.log()))
	return 0, 0, 0
}

func attribute(line, name string) (int, bool) {
	m := regexp.MustCompile(`\b` + name + `=(\d+)`).FindStringSubmatch(line)
	if m == nil {
		return 0, false
	}
	n, err := strconv.Atoi(m[1])
	return n, err == nil
}
