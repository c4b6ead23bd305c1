package app

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"emanet/internal/config"
)

// get asks the handler without a socket and returns status code and body.
func get(t *testing.T, host *Host, method, path string) (int, string) {
	t.Helper()
	recorder := httptest.NewRecorder()
	newHTTPServer(newSite(config.Serve{}, host, new(core)), new(users).guard(config.Serve{}, "127.0.0.1:0")).server.Handler.ServeHTTP(recorder, httptest.NewRequest(method, path, nil))
	return recorder.Code, recorder.Body.String()
}

func TestHealthIsRedWithItsReasonsUntilEveryAlarmIsCleared(t *testing.T) {
	t.Parallel()
	host := testHost(io.Discard)
	if code, body := get(t, host, http.MethodGet, "/healthz"); code != http.StatusOK || body != "ok\n" {
		t.Errorf("all well: %d %q", code, body)
	}
	host.Health.Raise("store", "disk full")
	host.Health.Raise("fold", "first\nsecond")
	if code, body := get(t, host, http.MethodGet, "/healthz"); code != http.StatusServiceUnavailable ||
		body != "fold: first second\nstore: disk full\n" {
		t.Errorf("two alarms: %d %q", code, body)
	}
	host.Health.Clear("fold")
	host.Health.Clear("never raised")
	if code, body := get(t, host, http.MethodGet, "/healthz"); code != http.StatusServiceUnavailable || body != "store: disk full\n" {
		t.Errorf("one alarm: %d %q", code, body)
	}
	host.Health.Clear("store")
	if code, _ := get(t, host, http.MethodGet, "/healthz"); code != http.StatusOK {
		t.Errorf("cleared: %d", code)
	}
}

func TestAWarningIsToldAndLeavesHealthGreen(t *testing.T) {
	t.Parallel()
	host := testHost(io.Discard)
	host.Health.Warn("users", "line 3")
	if code, body := get(t, host, http.MethodGet, "/healthz"); code != http.StatusOK || body != "ok\nwarning: users: line 3\n" {
		t.Errorf("a warning: %d %q", code, body)
	}
	host.Health.Raise("store", "disk full")
	if code, body := get(t, host, http.MethodGet, "/healthz"); code != http.StatusServiceUnavailable ||
		body != "store: disk full\nwarning: users: line 3\n" {
		t.Errorf("a warning beside an alarm: %d %q", code, body)
	}
	host.Health.Clear("store")
	host.Health.Clear("users")
	if code, body := get(t, host, http.MethodGet, "/healthz"); code != http.StatusOK || body != "ok\n" {
		t.Errorf("cleared: %d %q", code, body)
	}
}

func TestReadyOnlyBetweenStartAndStop(t *testing.T) {
	t.Parallel()
	host := testHost(io.Discard)
	expect := func(wantCode int, wantBody string) {
		t.Helper()
		if code, body := get(t, host, http.MethodGet, "/readyz"); code != wantCode || body != wantBody {
			t.Errorf("%d %q, want %d %q", code, body, wantCode, wantBody)
		}
	}
	expect(http.StatusServiceUnavailable, "starting\n")
	host.Health.setReady()
	expect(http.StatusOK, "ready\n")
	host.Health.setStopping()
	host.Health.setReady() // a start that ends late does not undo the stop
	expect(http.StatusServiceUnavailable, "stopping\n")
}

func TestMetricsCarryWhatThePartsCount(t *testing.T) {
	t.Parallel()
	host := testHost(io.Discard)
	published := 0.0
	host.Metrics.Add(func(emit func(Sample)) {
		published++
		emit(Sample{Name: "emanet_published_total", Help: "Messages.", Kind: Counter, Value: published, Labels: []string{"qos", "1"}})
		emit(Sample{Name: "emanet_flush_seconds", Help: "Flushes.", Kind: Histogram, Value: 1.5,
			Bounds: []float64{0.1, 1}, Counts: []uint64{2, 3}, Count: 4})
		emit(Sample{Name: "emanet_sessions", Help: "Sessions.", Kind: Gauge, Value: 7})
	})
	_, _ = get(t, host, http.MethodGet, "/metrics")
	code, body := get(t, host, http.MethodGet, "/metrics")
	for _, want := range []string{
		"# TYPE emanet_published_total counter\nemanet_published_total{qos=\"1\"} 2\n",
		"# TYPE emanet_sessions gauge\nemanet_sessions 7\n", "emanet_build_info{",
		"emanet_flush_seconds_bucket{le=\"1\"} 3\n", "emanet_flush_seconds_sum 1.5\nemanet_flush_seconds_count 4\n", "go_goroutines ",
	} {
		if code != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%d: no %q in\n%s", code, want, body)
		}
	}
}

func TestOnlyKnownPathsAndMethodsAreServed(t *testing.T) {
	t.Parallel()
	host := testHost(io.Discard)
	if code, _ := get(t, host, http.MethodGet, "/"); code != http.StatusNotFound {
		t.Errorf("GET /: %d", code)
	}
	if code, _ := get(t, host, http.MethodPost, "/healthz"); code != http.StatusMethodNotAllowed {
		t.Errorf("POST /healthz: %d", code)
	}
}

func TestMoreHTTPConnectionsThanTheLimitAreClosed(t *testing.T) {
	t.Parallel()
	host := testHost(io.Discard)
	cfg := config.Serve{HTTP: "127.0.0.1:0", MaxConnections: 2}
	s := newSite(cfg, host, new(core))
	part := httpPart(cfg, host, "http", s, nil)
	if err := part.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := part.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	ask := func() (net.Conn, string) {
		nc, err := net.Dial("tcp", host.listeners[1].(string))
		if err != nil {
			t.Fatal(err)
		}
		_ = nc.SetDeadline(time.Now().Add(10 * time.Second))
		if _, err := io.WriteString(nc, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		line, _ := bufio.NewReader(nc).ReadString('\n')
		return nc, line
	}
	for range 2 {
		nc, line := ask()
		defer func() { _ = nc.Close() }()
		if !strings.HasPrefix(line, "HTTP/1.1 200 ") {
			t.Errorf("answered with %q", line)
		}
	}
	third, line := ask()
	defer func() { _ = third.Close() }()
	if line != "" {
		t.Errorf("the third is answered with %q", line)
	}
	if n := s.refused.Load(); n != 1 {
		t.Errorf("%d counted", n)
	}
	cfg.MaxConnections = 3
	for _, apply := range host.reloads.configurations {
		apply(cfg)
	}
	more, line := ask()
	defer func() { _ = more.Close() }()
	if !strings.HasPrefix(line, "HTTP/1.1 200 ") {
		t.Errorf("after a reload that allows three: %q", line)
	}
}
