package config

import (
	"slices"
	"strings"
	"testing"
)

func TestAReloadAdoptsLiveValuesAndNamesTheOthers(t *testing.T) {
	t.Parallel()
	current := mustParse(t, nil, "--max-connections=10", "--log-level=info")
	next := mustParse(t, nil, "--max-connections=20", "--log-level=debug", "--journal-segments=8", "--mqtt=off")
	merged, changes, err := Adopt(current, next)
	if err != nil {
		t.Fatal(err)
	}
	if merged.MaxConnections != 20 || merged.Logging.Level != next.Logging.Level {
		t.Errorf("live values were not adopted: %+v", merged)
	}
	if merged.Store.JournalSegments != current.Store.JournalSegments || merged.MQTT != current.MQTT {
		t.Errorf("what needs a restart was adopted: %+v", merged)
	}
	var live, restart []string
	for _, c := range changes {
		if c.Live {
			live = append(live, c.Flag+" "+c.From+" "+c.To)
		} else {
			restart = append(restart, c.Flag+" "+c.From+" "+c.To)
		}
	}
	slices.Sort(live)
	slices.Sort(restart)
	if got := strings.Join(live, ", "); got != "log-level info debug, max-connections 10 20" {
		t.Errorf("live: %s", got)
	}
	if got := strings.Join(restart, ", "); got != "journal-segments 16 8, mqtt 127.0.0.1:1883 off" {
		t.Errorf("restart: %s", got)
	}
	if _, changes, _ := Adopt(merged, merged); len(changes) != 0 {
		t.Errorf("no difference is %v", changes)
	}
}

func TestEveryLiveFlagIsAFlagOfServe(t *testing.T) {
	t.Parallel()
	var live []string
	for _, flag := range Flags() {
		if flag.Live {
			live = append(live, flag.Name)
		}
	}
	for _, want := range []string{"max-connections", "log-level"} {
		if !slices.Contains(live, want) {
			t.Errorf("%s is not live: %v", want, live)
		}
	}
	for _, never := range []string{"data", "mqtt", "http", "config", "journal-segments", "journal-segment-bytes"} {
		if slices.Contains(live, never) {
			t.Errorf("%s cannot change while the process runs", never)
		}
	}
}
