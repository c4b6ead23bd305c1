package app

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"emanet/internal/config"
)

// smallBroker is a configuration on free ports and an empty directory.
func smallBroker(t *testing.T) config.Serve {
	t.Helper()
	cfg := config.Serve{
		Data: filepath.Join(t.TempDir(), "data"), DrainTimeout: drainTimeout, MQTT: "127.0.0.1:0", HTTP: "127.0.0.1:0",
		Store: config.StoreSizes{JournalSegments: 4, JournalSegmentBytes: 64 << 10, MemoryBudget: 1 << 20},
		Limits: config.MQTTLimits{MaxQueued: 10, MaxQueuedBytes: 1 << 20, MaxInflight: 10, ReceiveMaximum: 10, MaxTopicLevels: 10,
			ConnectTimeout: time.Second, MaxSubscriptions: 10, MaxQoS0Outbox: 1 << 10, MaxTopicBytes: 100, RouteCache: 1 << 10,
			SessionExpiry: config.Never, MaxSessionExpiry: config.Never},
		WS: config.WebSocket{MaxFrameBytes: 1 << 20}, MaxConnections: 10,
	}
	if err := cfg.Complete(); err != nil {
		t.Fatal(err)
	}
	return cfg
}

// The real parts, once around: everything starts on an empty directory, tells
// about itself, and ends without leaving a goroutine, which TestMain checks.
func TestTheWholeBrokerStartsShowsItsFiguresStopsAndIsInOrder(t *testing.T) {
	t.Parallel()
	cfg := smallBroker(t)
	var log bytes.Buffer
	host := testHost(&log)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	looker := Part{
		Name: "looker",
		Start: func(context.Context) error {
			defer cancel()
			lookAt(t, host.listeners[1].(string))
			return nil
		},
		Stop: func(context.Context) error { return nil },
	}
	if err := run(ctx, host, append(parts(cfg, host), looker), time.Now()); err != nil {
		t.Fatalf("%v\n%s", err, &log)
	}
	var out bytes.Buffer
	if err := Check(cfg.Data, &out); err != nil || !strings.Contains(out.String(), "no problems found") {
		t.Errorf("%v:\n%s", err, &out)
	}
	for _, want := range []string{"listeners.mqtt=127.0.0.1:", "sessions=0 pending_messages=0 ms=", "msg=stopped"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log does not say %q:\n%s", want, &log)
		}
	}
}

func TestACheckFindsWhatIsBroken(t *testing.T) {
	t.Parallel()
	cfg := smallBroker(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	host := testHost(io.Discard)
	list := parts(cfg, host)
	list = append(list, Part{Name: "end", Start: func(context.Context) error { cancel(); return nil },
		Stop: func(context.Context) error { return nil }})
	if err := run(ctx, host, list, time.Now()); err != nil {
		t.Fatal(err)
	}
	segments, err := filepath.Glob(filepath.Join(cfg.Data, "journal", "*.seg"))
	if err != nil || len(segments) == 0 {
		t.Fatalf("no segments: %v", err)
	}
	if err := os.Truncate(segments[0], 100); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := Check(cfg.Data, &out); err == nil {
		t.Errorf("a segment cut short was not found:\n%s", &out)
	}
	if strings.Contains(out.String(), "records,") {
		t.Errorf("numbers are told of what was not looked at:\n%s", &out)
	}
}

// lookAt asks a running broker for its health and its figures.
func lookAt(t *testing.T, address string) {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true}
	client := &http.Client{Transport: transport, Timeout: 10 * time.Second}
	for _, look := range [][2]string{
		{"/healthz", "ok"}, {"/metrics", "\nemanet_journal_flush_seconds_count "},
		{"/metrics", "\nemanet_wills_refused_total "}, {"/metrics", "\nemanet_retained_expired_total "},
		{"/metrics", "\nemanet_mqtt_timeouts_total "}, {"/metrics", "\nemanet_mqtt_subscriptions_refused_total "},
		{"/metrics", "\nemanet_mqtt_paced_total "},
	} {
		path, want := look[0], look[1]
		response, err := client.Get("http://" + address + path)
		if err != nil {
			t.Error(err)
			continue
		}
		body, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil || response.StatusCode != http.StatusOK || !strings.Contains(string(body), want) {
			t.Errorf("%s: %v, %d, no %q in\n%s", path, err, response.StatusCode, want, body)
		}
	}
}
