package app

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
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
	if _, body := get(t, host, http.MethodGet, "/metrics"); !strings.Contains(body, "\nemanet_alarms 0\n") || !strings.Contains(body, "\nemanet_warnings 1\n") {
		t.Errorf("a warning is not counted in\n%s", body)
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

func TestAWebSocketAtAnotherPathIsToldTheRightOneAndLogged(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	s := newSite(config.Serve{}, testHost(&log), new(core))
	handler := newHTTPServer(s, new(users).guard(config.Serve{}, "127.0.0.1:0")).server.Handler
	paths := []string{"/", "/ws", "/mqtt/", "/healthz"}
	for _, path := range paths {
		r := httptest.NewRequest(http.MethodGet, path+"?secret", nil)
		r.Header.Set("Upgrade", "websocket")
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, r)
		want := fmt.Sprintf("the path is %q, and MQTT over WebSocket is at /mqtt\n", path)
		if recorder.Code != http.StatusNotFound || recorder.Body.String() != want {
			t.Errorf("%s: %d %q", path, recorder.Code, recorder.Body)
		}
	}
	if n := s.webSocket.Rejected.Load(); n != uint64(len(paths)) {
		t.Errorf("%d counted", n)
	}
	first, _, _ := strings.Cut(log.String(), "\n")
	if !strings.Contains(first, "WebSocket refused") || !strings.Contains(first, `the path is \"/\", and MQTT over WebSocket is at /mqtt`) ||
		strings.Contains(first, "secret") {
		t.Errorf("the log says %q", first)
	}
}

// served starts the HTTP listener of cfg; send opens a connection and writes to it.
func served(t *testing.T, cfg config.Serve) (s *site, host *Host, send func(text string) net.Conn) {
	t.Helper()
	host = testHost(io.Discard)
	s = newSite(cfg, host, new(core))
	part := httpPart(cfg, host, "http", s, nil)
	if err := part.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := part.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s, host, func(text string) net.Conn {
		nc, err := net.Dial("tcp", host.listeners[1].(string))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = nc.Close() })
		_ = nc.SetDeadline(time.Now().Add(10 * time.Second))
		if _, err := io.WriteString(nc, text); err != nil {
			t.Fatal(err)
		}
		return nc
	}
}

const healthRequest = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"

// status reads an answer, and is empty where the connection has ended.
func status(nc net.Conn) string {
	answer, err := http.ReadResponse(bufio.NewReader(nc), nil)
	if err != nil {
		return ""
	}
	_, _ = io.Copy(io.Discard, answer.Body)
	_ = answer.Body.Close()
	return answer.Status
}

func TestMoreHTTPConnectionsThanTheLimitAreClosed(t *testing.T) {
	t.Parallel()
	cfg := config.Serve{HTTP: "127.0.0.1:0", MaxConnections: 2}
	s, host, send := served(t, cfg)
	for range 2 {
		send("GET /heal")
	}
	if got := status(send(healthRequest)); got != "" {
		t.Errorf("the third is answered with %q", got)
	}
	if n := s.refused.Load(); n != 1 {
		t.Errorf("%d counted", n)
	}
	// The client sees its connection end before the server has counted that.
	for began := time.Now(); s.open.Load() != 2; runtime.Gosched() {
		if time.Since(began) > 10*time.Second {
			t.Fatalf("%d are open", s.open.Load())
		}
	}
	cfg.MaxConnections = 3
	for _, apply := range host.reloads.configurations {
		apply(cfg)
	}
	if got := status(send(healthRequest)); got != "200 OK" {
		t.Errorf("after a reload that allows three: %q", got)
	}
}

func TestAnHTTPConnectionBetweenTwoRequestsMakesRoomForANewOne(t *testing.T) {
	t.Parallel()
	s, _, send := served(t, config.Serve{HTTP: "127.0.0.1:0", MaxConnections: 2})
	idle := make([]net.Conn, 2)
	for i := range idle {
		idle[i] = send(healthRequest)
		if got := status(idle[i]); got != "200 OK" {
			t.Fatalf("answered with %q", got)
		}
		for began := time.Now(); s.idle.len() != i+1; runtime.Gosched() {
			if time.Since(began) > 10*time.Second {
				t.Fatalf("%d are idle", s.idle.len())
			}
		}
	}
	if got := status(send(healthRequest)); got != "200 OK" {
		t.Errorf("the third is answered with %q", got)
	}
	if got := status(idle[0]); got != "" {
		t.Errorf("the first goes on with %q", got)
	}
	if _, err := io.WriteString(idle[1], healthRequest); err != nil {
		t.Fatal(err)
	}
	if got := status(idle[1]); got != "200 OK" || s.refused.Load() != 0 {
		t.Errorf("the second goes on with %q; %d refused", got, s.refused.Load())
	}
}

func (i *idleConns) len() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.order.Len()
}
