package app

import (
	"io"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"emanet/internal/config"
)

// limitRow is a row of the table of limits.
type limitRow struct{ limit, value, answer, metrics, reload, tests string }

// limitTable reads the table of docs/operations.md whose rows begin with a flag and have six cells.
func limitTable(t *testing.T) map[string]limitRow {
	t.Helper()
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(page), "\n## Limits\n")
	if !found {
		t.Fatal("docs/operations.md has no section on limits")
	}
	section, _, _ := strings.Cut(rest, "\n## ")
	rows := map[string]limitRow{}
	for line := range strings.Lines(section) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 6 || !strings.HasPrefix(strings.TrimSpace(cells[0]), "`--") {
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		flag := strings.Trim(cells[0], "`-")
		if _, twice := rows[flag]; twice {
			t.Errorf("--%s has two rows", flag)
		}
		rows[flag] = limitRow{cells[0], cells[1], cells[2], cells[3], cells[4], cells[5]}
	}
	return rows
}

var quoted = regexp.MustCompile("`([^`]+)`")

// words gives what stands between backquotes, without labels.
func words(cell string) []string {
	var all []string
	for _, m := range quoted.FindAllStringSubmatch(cell, -1) {
		word, _, _ := strings.Cut(m[1], "{")
		all = append(all, word)
	}
	return all
}

// tests gives all tests there are, by name, with the file's text.
func testsByName(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	name := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	for _, pattern := range []string{"../../e2e/*_test.go", "../../internal/*/*_test.go", "../../internal/store/*/*_test.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range name.FindAllStringSubmatch(string(text), -1) {
				all[m[1]] = string(text)
			}
		}
	}
	return all
}

// The table of limits is held against the flags, the figures of a running broker and the tests it names.
func TestEveryLimitHasARowAMetricAndATest(t *testing.T) {
	t.Parallel()
	table, tests := limitTable(t), testsByName(t)
	shown := map[string]bool{}
	var limitsShown []string
	withBroker(t, func(host *Host) {
		families, err := host.Metrics.registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			shown[f.GetName()] = true
			if f.GetName() == "emanet_limit" {
				for _, m := range f.GetMetric() {
					limitsShown = append(limitsShown, m.GetLabel()[0].GetValue())
				}
			}
		}
	})
	for _, flag := range config.Flags() {
		row, ok := table[flag.Name]
		// The one bounds nothing, and behind the other nobody is there to ask for a figure.
		if !flag.Limit || flag.Name == "sys-interval" || flag.Name == "drain-timeout" {
			if ok {
				t.Errorf("--%s has a row, and is no limit", flag.Name)
			}
			continue
		}
		if !ok {
			t.Errorf("--%s has no row in the table of limits of docs/operations.md", flag.Name)
			continue
		}
		delete(table, flag.Name)
		if flag.Default != "" && row.value != flag.Default {
			t.Errorf("--%s: the default is %s, the table says %q", flag.Name, flag.Default, row.value)
		}
		if want := map[bool]string{true: "yes", false: "no"}[flag.Live]; row.reload != want {
			t.Errorf("--%s: reload is %q, and should be %q", flag.Name, row.reload, want)
		}
		if !slices.Contains(limitsShown, flag.Name) {
			t.Errorf("--%s has no emanet_limit on /metrics", flag.Name)
		}
		metrics := words(row.metrics)
		if len(metrics) == 0 || row.answer == "" {
			t.Errorf("--%s has no metric, or no answer", flag.Name)
		}
		for _, name := range metrics {
			if !shown[name] && !slices.Contains(limitsShown, name) {
				t.Errorf("--%s: no metric of a running broker has the name %s", flag.Name, name)
			}
		}
		named := words(row.tests)
		if len(named) == 0 {
			t.Errorf("--%s has no test", flag.Name)
		}
		for _, name := range named {
			if text := tests[name]; !strings.Contains(text, flag.Name) {
				t.Errorf("--%s: there is no test %s that knows the flag", flag.Name, name)
			}
		}
	}
	for flag := range table {
		t.Errorf("--%s has a row and is no flag", flag)
	}
}

// A value that a reload may change must reach whoever heeds it.
func TestEveryLiveValueReachesTheServerOrTheBroker(t *testing.T) {
	t.Parallel()
	cfg := smallBroker(t)
	host := testHost(io.Discard)
	next := cfg
	grammar, err := kong.New(&next, kong.NoDefaultHelp())
	if err != nil {
		t.Fatal(err)
	}
	for _, flag := range grammar.Model.Flags {
		if !flag.Tag.Has("live") || flag.Name == "log-level" { // which the log heeds
			continue
		}
		before := flag.Target.Int()
		flag.Target.SetInt(int64(3 * time.Hour)) // more than any of them, in whole seconds
		if reflect.DeepEqual(mqttOptions(cfg, host), mqttOptions(next, host)) &&
			reflect.DeepEqual(brokerOptions(cfg, host), brokerOptions(next, host)) {
			t.Errorf("--%s is live, and changes nothing", flag.Name)
		}
		flag.Target.SetInt(before)
	}
}
