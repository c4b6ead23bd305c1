// Command bench measures emanet beside Mosquitto with one load program and prints Markdown for
// docs/benchmarks.md. It starts both brokers itself and ends only what it has started.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"emanet/bench/peer"
	"emanet/bench/report"
	"emanet/bench/scenario"
)

type options struct {
	scenario.Settings
	scenarios, brokers, binary string
	rounds                     int
}

func main() {
	var o options
	flag.StringVar(&o.scenarios, "scenario", "", "names of the scenarios to run, separated by commas; all when empty")
	flag.StringVar(&o.brokers, "brokers", "emanet,mosquitto", "brokers to measure; the ratio is of the first to the second")
	flag.StringVar(&o.binary, "emanet", "", "path of the emanet binary; built from this repository when empty")
	flag.StringVar(&o.Dir, "dir", os.TempDir(), "where data folders are made; should be on a real disk")
	flag.IntVar(&o.rounds, "rounds", 0, "runs of each scenario on each broker; as the scenario says when 0")
	flag.IntVar(&o.Seconds, "seconds", 8, "length of the timed scenarios")
	flag.IntVar(&o.SustainedSeconds, "sustained", 60, "length of the sustained scenario")
	flag.IntVar(&o.Burst, "burst", 500_000, "messages of the burst")
	flag.IntVar(&o.Backlog, "backlog", 5_000_000, "messages of the backlog")
	flag.IntVar(&o.Idle, "idle", 10_000, "idle connections")
	flag.IntVar(&o.Logins, "logins", 5000, "connections with passwords, at most 5000")
	flag.IntVar(&o.Subscriptions, "subscriptions", 1_000_000, "subscriptions that match nothing")
	flag.Parse()
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(o options) error {
	chosen, err := choose(o.scenarios)
	if err != nil {
		return err
	}
	if err := raiseOpenFiles(uint64(o.Idle) + 1000); err != nil {
		return err
	}
	if o.Dir, err = os.MkdirTemp(o.Dir, "emanet-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(o.Dir)
	kinds, err := brokers(o)
	if err != nil {
		return err
	}
	report.Head(os.Stdout, kinds, o.Settings)
	var failed error
	for _, sc := range chosen {
		figures, err := measure(sc, kinds, o)
		if err != nil { // the others still count
			failed = errors.Join(failed, err)
			fmt.Fprintln(os.Stderr, "bench:", err)
			continue
		}
		report.Table(os.Stdout, sc, kinds, figures)
	}
	return failed
}

// measure runs a scenario against the brokers in turns and gives the median for each.
func measure(sc scenario.Scenario, kinds []peer.Kind, o options) ([]scenario.Figures, error) {
	rounds := sc.Rounds
	if o.rounds > 0 {
		rounds = o.rounds
	}
	runs := make([][]scenario.Figures, len(kinds))
	for round := range rounds {
		for i, kind := range kinds {
			fmt.Fprintf(os.Stderr, "%s, round %d of %d, %s … ", sc.Name, round+1, rounds, kind.Name)
			figures, err := once(sc, kind, o.Settings)
			if err != nil {
				fmt.Fprintln(os.Stderr)
				return nil, fmt.Errorf("%s against %s: %w", sc.Name, kind.Name, err)
			}
			fmt.Fprintln(os.Stderr, figures)
			runs[i] = append(runs[i], figures)
		}
	}
	medians := make([]scenario.Figures, len(kinds))
	for i := range kinds {
		medians[i] = scenario.Median(runs[i])
	}
	return medians, nil
}

func once(sc scenario.Scenario, kind peer.Kind, s scenario.Settings) (figures scenario.Figures, err error) {
	b, err := peer.Start(kind, sc.Needs, s.Dir)
	if b != nil {
		defer func() { err = errors.Join(err, b.Remove()) }()
	}
	if err != nil {
		return nil, err
	}
	figures, err = sc.Run(b, s)
	if err != nil {
		err = fmt.Errorf("%w; the broker's log ends:\n%s", err, tail(b.Log()))
	}
	return figures, err
}

func tail(log string) string { return log[max(0, len(log)-3000):] }

func choose(names string) ([]scenario.Scenario, error) {
	if names == "" {
		return scenario.All, nil
	}
	var chosen []scenario.Scenario
	for name := range strings.SplitSeq(names, ",") {
		before := len(chosen)
		for _, sc := range scenario.All {
			if sc.Name == name {
				chosen = append(chosen, sc)
			}
		}
		if len(chosen) == before {
			var all []string
			for _, sc := range scenario.All {
				all = append(all, sc.Name)
			}
			return nil, fmt.Errorf("no scenario %q; there are %s", name, strings.Join(all, ", "))
		}
	}
	return chosen, nil
}

func brokers(o options) (kinds []peer.Kind, err error) {
	for name := range strings.SplitSeq(o.brokers, ",") {
		switch name {
		case "emanet":
			if o.binary == "" {
				if o.binary, err = build(o.Dir); err != nil {
					return nil, err
				}
			}
			kinds = append(kinds, peer.Emanet(o.binary, firstLine("git", "rev-parse", "--short", "HEAD")))
		case "mosquitto":
			if _, err := exec.LookPath("mosquitto"); err != nil {
				return nil, fmt.Errorf("the peer is not installed: %w", err)
			}
			kinds = append(kinds, peer.Mosquitto(firstLine("mosquitto", "-h")))
		default:
			return nil, fmt.Errorf("no broker %q; there are emanet and mosquitto", name)
		}
	}
	return kinds, nil
}

// build makes the binary from the module above this one.
func build(dir string) (string, error) {
	out := filepath.Join(dir, "emanet")
	cmd := exec.Command("go", "build", "-o", out, "./cmd/emanet")
	top, err := exec.Command("git", "rev-parse", "--show-toplevel").Output()
	if err != nil {
		return "", fmt.Errorf("finding the repository: %w", err)
	}
	cmd.Dir = strings.TrimSpace(string(top))
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building emanet: %w\n%s", err, text)
	}
	return out, nil
}

// firstLine of what a command prints; some print their version and fail.
func firstLine(name string, args ...string) string {
	out, _ := exec.Command(name, args...).Output()
	line, _, _ := strings.Cut(string(out), "\n")
	return line
}

// raiseOpenFiles lets this process and the brokers it starts hold many sockets.
func raiseOpenFiles(want uint64) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	if limit.Max < want {
		limit.Max = want
	}
	limit.Cur = max(want, limit.Cur)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("raising the limit of open files to %d: %w", want, err)
	}
	return nil
}
