// Package report prints the figures as Markdown.
package report

import (
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"emanet/bench/peer"
	"emanet/bench/scenario"
)

// Head prints what the figures were measured on and with.
func Head(w io.Writer, kinds []peer.Kind, s scenario.Settings) {
	fmt.Fprintf(w, "Measured %s on %s, %d cores, %s, %s; the load shares the machine with the broker.\n",
		time.Now().UTC().Format("2006-01-02 15:04 UTC"), processor(), runtime.NumCPU(), memory(), kernel())
	for _, k := range kinds {
		fmt.Fprintf(w, "%s: %s. ", k.Name, k.Version)
	}
	fmt.Fprintf(w, "Payload %d bytes. Median of runs in turns; each run has a broker with an empty data folder.\n", scenario.PayloadSize)
	fmt.Fprintf(w, "Burst %d messages, backlog %d messages, %d idle connections, %d logins, %d subscriptions, timed runs %d s, sustained %d s.\n",
		s.Burst, s.Backlog, s.Idle, s.Logins, s.Subscriptions, s.Seconds, s.SustainedSeconds)
}

// Table prints one scenario: a row for each metric, a column for each broker, and the ratio of the first broker
// to the second.
func Table(w io.Writer, sc scenario.Scenario, kinds []peer.Kind, figures []scenario.Figures) {
	fmt.Fprintf(w, "\n### %s\n\n%s.\n\n| metric |", sc.Name, sc.About)
	for _, k := range kinds {
		fmt.Fprintf(w, " %s |", k.Name)
	}
	if len(kinds) == 2 {
		fmt.Fprint(w, " ratio |")
	}
	columns := 2 + len(kinds)
	if len(kinds) == 2 {
		columns++
	}
	fmt.Fprintf(w, " bar |\n|%s\n", strings.Repeat(" --- |", columns))
	for _, m := range sc.Metrics {
		fmt.Fprintf(w, "| %s, %s |", m.Name, m.Unit)
		for _, f := range figures {
			if v, ok := f[m.Name]; ok {
				fmt.Fprintf(w, " %s |", number(v))
			} else {
				fmt.Fprint(w, " - |")
			}
		}
		if len(kinds) == 2 {
			ours, ok := figures[0][m.Name]
			theirs, also := figures[1][m.Name]
			if ok && also && theirs != 0 {
				fmt.Fprintf(w, " %.2fx |", ours/theirs)
			} else {
				fmt.Fprint(w, " - |")
			}
		}
		fmt.Fprintf(w, " %s |\n", m.Bar)
	}
}

// number rounds to what was measured: three digits, thousands apart.
func number(v float64) string {
	if v < 100 {
		return fmt.Sprintf("%.3g", v)
	}
	text := fmt.Sprintf("%.0f", math.Round(v))
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

func processor() string { return proc("/proc/cpuinfo", "model name") }

func memory() string {
	var kib int
	if _, err := fmt.Sscanf(proc("/proc/meminfo", "MemTotal"), "%d", &kib); err != nil {
		return "unknown memory"
	}
	return fmt.Sprintf("%d GiB", (kib+1<<19)>>20)
}

func proc(path, key string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == key {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

func kernel() string {
	out, err := exec.Command("uname", "-sr").Output()
	if err != nil {
		return runtime.GOOS
	}
	return strings.TrimSpace(string(out))
}
