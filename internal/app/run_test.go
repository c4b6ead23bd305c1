package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"emanet/internal/config"
)

// diary records in which order the fakes are started and stopped.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) write(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, line)
}

func (d *diary) String() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.Join(d.lines, ", ")
}

func (d *diary) part(name string, startErr, stopErr error) Part {
	return Part{
		Name:  name,
		Start: func(context.Context) error { d.write("+" + name); return startErr },
		Stop:  func(context.Context) error { d.write("-" + name); return stopErr },
	}
}

func testHost(output io.Writer) *Host {
	log, _ := newLogger(output, config.LogText, slog.LevelDebug)
	return newHost(log)
}

var errBroken = errors.New("broken")

func TestPartsStopInTheReverseOrder(t *testing.T) {
	t.Parallel()
	var d diary
	ctx, cancel := context.WithCancel(context.Background())
	last := Part{
		Name:  "last",
		Start: func(context.Context) error { cancel(); return nil },
		Stop:  func(context.Context) error { return nil },
	}
	err := run(ctx, testHost(io.Discard), []Part{d.part("lock", nil, nil), d.part("store", nil, nil), last}, time.Now())
	if err != nil || d.String() != "+lock, +store, -store, -lock" {
		t.Errorf("%v: %v", err, &d)
	}
}

func TestAPartThatCannotStartStopsThoseBeforeIt(t *testing.T) {
	t.Parallel()
	var d diary
	parts := []Part{d.part("lock", nil, nil), d.part("store", errBroken, nil), d.part("broker", nil, nil)}
	err := run(context.Background(), testHost(io.Discard), parts, time.Now())
	if !errors.Is(err, errBroken) || !strings.Contains(err.Error(), "starting store") {
		t.Errorf("err = %v", err)
	}
	if d.String() != "+lock, +store, -lock" {
		t.Errorf("order: %v", &d)
	}
}

func TestAnEndedContextStartsNothing(t *testing.T) {
	t.Parallel()
	var d diary
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := run(ctx, testHost(io.Discard), []Part{d.part("lock", nil, nil)}, time.Now()); err != nil || d.String() != "" {
		t.Errorf("%v: %v", err, &d)
	}
}

func TestAFailedStopDoesNotKeepOthersFromStopping(t *testing.T) {
	t.Parallel()
	var d diary
	ctx, cancel := context.WithCancel(context.Background())
	host := testHost(io.Discard)
	host.OnSummary(func() Pending { cancel(); return Pending{} })
	err := run(ctx, host, []Part{d.part("lock", nil, nil), d.part("store", nil, errBroken)}, time.Now())
	if !errors.Is(err, errBroken) || d.String() != "+lock, +store, -store, -lock" {
		t.Errorf("%v: %v", err, &d)
	}
}

func TestAFailureForGoodStopsTheProcessWithThatError(t *testing.T) {
	t.Parallel()
	host := testHost(io.Discard)
	host.OnSummary(func() Pending {
		host.Fail("journal", errBroken)
		host.Fail("journal", errors.New("a consequence"))
		return Pending{}
	})
	err := run(context.Background(), host, nil, time.Now())
	if !errors.Is(err, errBroken) || !strings.Contains(err.Error(), "journal: broken") {
		t.Errorf("err = %v", err)
	}
	if len(host.Health.Alarms()) != 1 {
		t.Errorf("alarms: %q", host.Health.Alarms())
	}
}

func TestAFailureIsToldToThoseWhoAskedAndToLatecomers(t *testing.T) {
	t.Parallel()
	host, told := testHost(io.Discard), 0
	host.OnFail(func() { told++ })
	host.Fail("journal", errBroken)
	host.Fail("journal", errBroken)
	if told != 1 {
		t.Errorf("told %d times of the first failure", told)
	}
	host.OnFail(func() { told++ })
	if told != 2 {
		t.Error("who came after the failure was not told")
	}
}

func TestTheSummarySaysWhatTheStartFound(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	host := testHost(&log)
	host.listening("mqtt", "127.0.0.1:1883")
	host.OnSummary(func() Pending { return Pending{Sessions: 1, Messages: 3} })
	host.logSummary(42 * time.Millisecond)
	for _, want := range []string{"msg=started", "listeners.mqtt=127.0.0.1:1883", "sessions=1", "pending_messages=3", "ms=42"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("%q does not say %q", log.String(), want)
		}
	}
}

func TestStartAndStopLeaveNoPortBehind(t *testing.T) {
	t.Parallel()
	cfg := config.Serve{HTTP: "127.0.0.1:0", MQTT: config.Off}
	host := testHost(io.Discard)
	address := startListening(t, host, cfg)
	again, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatalf("after the stop: %v", err)
	}
	_ = again.Close()
}

func testHTTPPart(cfg config.Serve, host *Host) Part {
	cfg.MaxConnections = 10
	return httpPart(cfg, host, "http", newSite(cfg, host, new(core)), nil)
}

// startListening runs the parts of cfg once and returns the address they had.
func startListening(t *testing.T, host *Host, cfg config.Serve) string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	host.OnSummary(func() Pending { cancel(); return Pending{} })
	if err := run(ctx, host, []Part{testHTTPPart(cfg, host)}, time.Now()); err != nil {
		t.Fatal(err)
	}
	return host.listeners[1].(string)
}

func TestAPortInUseNamesTheFlagToChange(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	address := config.Address(taken.Addr().String())
	cfg := config.Serve{HTTP: address, MQTT: config.Off}
	err = run(context.Background(), testHost(io.Discard), []Part{testHTTPPart(cfg, testHost(io.Discard))}, time.Now())
	if err == nil || !strings.Contains(err.Error(), "--http "+string(address)) || !strings.Contains(err.Error(), "in use") {
		t.Errorf("err = %v", err)
	}
}

// deafServer is a protocol server that ends by itself, which none should.
type deafServer struct{}

func (deafServer) Serve(net.Listener) error       { return errBroken }
func (deafServer) Shutdown(context.Context) error { return nil }

func TestAServerThatStopsServingFailsTheProcess(t *testing.T) {
	t.Parallel()
	host := testHost(io.Discard)
	open := listen(config.Listener{Flag: "mqtt", Address: "127.0.0.1:0"}, config.Serve{}, nil)
	part := listenerPart(host, "mqtt", open, func() Server { return deafServer{} })
	if err := run(context.Background(), host, []Part{part}, time.Now()); !errors.Is(err, errBroken) {
		t.Errorf("err = %v", err)
	}
}

func TestAnOpenListenerIsWarnedOfAtEachStart(t *testing.T) {
	t.Parallel()
	for address, want := range map[config.Address]bool{"127.0.0.1:1883": false, "0.0.0.0:1883": true} {
		var log bytes.Buffer
		logger, _ := newLogger(&log, config.LogText, slog.LevelInfo)
		warnAtStart(logger, config.Serve{MQTT: address, HTTP: config.Off})
		if warned := strings.Contains(log.String(), "level=WARN") && strings.Contains(log.String(), "--mqtt"); warned != want {
			t.Errorf("%s: %q", address, log.String())
		}
	}
}

func TestAStartWarnsOfTooFewFilesForTheConnectionsAllowed(t *testing.T) {
	t.Parallel()
	for files, want := range map[uint64]bool{1024: true, 20_000: true, 20_100: false, 1 << 20: false} {
		var log bytes.Buffer
		logger, _ := newLogger(&log, config.LogText, slog.LevelInfo)
		warnOfFiles(logger, 20_000, files)
		warned := strings.Contains(log.String(), "level=WARN") && strings.Contains(log.String(), "--max-connections") &&
			strings.Contains(log.String(), fmt.Sprintf("open_files=%d max_connections=20000", files))
		if warned != want {
			t.Errorf("%d files: %q", files, log.String())
		}
	}
}
