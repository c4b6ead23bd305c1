package app

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"emanet/internal/transport/certtest"
)

var update = flag.Bool("update", false, "write docs/metrics.md anew")

// metricsDocument lists every figure between these two lines.
const (
	metricsDocument = "../../docs/metrics.md"
	tableBegins     = "<!-- written by: go test ./internal/app -run Document -update -->\n"
	tableEnds       = "<!-- end -->\n"
)

// withBroker runs the whole broker, with all there is to have figures of, for as long as use takes.
func withBroker(t *testing.T, use func(host *Host)) {
	t.Helper()
	cfg := smallBroker(t)
	cfg.Users = filepath.Join(t.TempDir(), "users.toml")
	if err := os.WriteFile(cfg.Users, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cfg.MQTTS, cfg.HTTPS = "127.0.0.1:0", "127.0.0.1:0"
	cfg.TLS.Cert, cfg.TLS.Key = certtest.New(t).Issue("localhost").Files(t.TempDir())
	host := testHost(io.Discard)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	host.OnSummary(func() Pending { return Pending{} })
	list := append(parts(cfg, host), reloadPart(host, nil), Part{
		Name:  "use",
		Start: func(context.Context) error { use(host); cancel(); return nil },
		Stop:  func(context.Context) error { return nil },
	})
	if err := run(ctx, host, list, time.Now()); err != nil {
		t.Fatal(err)
	}
}

func TestTheDocumentListsTheFiguresOfARunningBrokerAndNoOthers(t *testing.T) {
	t.Parallel()
	var rows []string
	withBroker(t, func(host *Host) { rows = figures(t, host) })
	page, err := os.ReadFile(metricsDocument)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok1 := strings.Cut(string(page), tableBegins)
	_, after, ok2 := strings.Cut(rest, tableEnds)
	if !ok1 || !ok2 {
		t.Fatalf("%s has no table", metricsDocument)
	}
	want := before + tableBegins + "\n| name | type | labels | unit | meaning |\n| --- | --- | --- | --- | --- |\n" +
		strings.Join(rows, "") + "\n" + tableEnds + after
	if *update {
		if err := os.WriteFile(metricsDocument, []byte(want), 0o644); err != nil { //nolint:gosec // a page of the documentation
			t.Fatal(err)
		}
		return
	}
	if want != string(page) {
		t.Errorf("%s does not say what a running broker shows; go test ./internal/app -run Document -update writes it:\n%s",
			metricsDocument, difference(string(page), want))
	}
}

// figures are the rows of the table: every metric of ours.
func figures(t *testing.T, host *Host) []string {
	t.Helper()
	families, err := host.Metrics.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "emanet_") {
			continue
		}
		var labels []string
		for _, metric := range f.GetMetric() {
			for _, l := range metric.GetLabel() {
				if name := "`" + l.GetName() + "`"; !slices.Contains(labels, name) {
					labels = append(labels, name)
				}
			}
		}
		unit := ""
		for _, u := range []string{"seconds", "bytes"} {
			if strings.Contains(f.GetName()+"_", "_"+u+"_") {
				unit = u
			}
		}
		rows = append(rows, fmt.Sprintf("| `%s` | %s | %s | %s | %s |\n",
			f.GetName(), strings.ToLower(f.GetType().String()), strings.Join(labels, ", "), unit, f.GetHelp()))
	}
	return rows
}

// difference is the lines that only one of the two has.
func difference(is, want string) string {
	var out strings.Builder
	a, b := strings.Split(is, "\n"), strings.Split(want, "\n")
	for _, line := range a {
		if !slices.Contains(b, line) {
			out.WriteString("- " + line + "\n")
		}
	}
	for _, line := range b {
		if !slices.Contains(a, line) {
			out.WriteString("+ " + line + "\n")
		}
	}
	return out.String()
}

func TestFiguresAreNamedAsPrometheusAsks(t *testing.T) {
	t.Parallel()
	var page string
	withBroker(t, func(host *Host) { _, page = get(t, host, "GET", "/metrics") })
	problems, err := promlint.New(bytes.NewReader([]byte(page))).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}
