package app

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"emanet/internal/config"
)

func TestHooksRunInOrderAndAFailureIsWarnedOfUntilTheNextSuccess(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	host := testHost(&log)
	var order []string
	var fails error
	host.OnReload("users", func() error { order = append(order, "users"); return fails })
	host.OnReload("certificates", func() error { order = append(order, "certificates"); return nil })

	fails = errors.New("line 3: no such thing")
	host.reload()
	if got := strings.Join(order, " "); got != "users certificates" {
		t.Errorf("the hooks ran as %q: one that fails must not keep the next from running", got)
	}
	if warnings := host.Health.Warnings(); len(warnings) != 1 || !strings.HasPrefix(warnings[0], "users: ") || !strings.Contains(warnings[0], "line 3") {
		t.Errorf("warnings: %q", warnings)
	}
	if text := log.String(); !strings.Contains(text, "part=users") || !strings.Contains(text, "part=certificates") {
		t.Errorf("the log does not tell of each hook:\n%s", text)
	}

	fails = nil
	host.reload()
	if warnings := host.Health.Warnings(); len(warnings) != 0 {
		t.Errorf("after a success: %q", warnings)
	}
	host.Metrics.Add(host.reloads.samples)
	if _, body := get(t, host, "GET", "/metrics"); !strings.Contains(body, `emanet_reloads_total{result="ok"} 1`) ||
		!strings.Contains(body, `emanet_reloads_total{result="failed"} 1`) {
		t.Error("emanet_reloads_total does not count one of each")
	}
}

func TestASignalReloadsAndOneThatComesDuringAReloadIsNotLost(t *testing.T) {
	t.Parallel()
	host := testHost(io.Discard)
	signals := make(chan os.Signal, 1)
	entered, leave := make(chan struct{}), make(chan struct{})
	host.OnReload("slow", func() error { entered <- struct{}{}; <-leave; return nil })
	part := reloadPart(host, signals)
	if err := part.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	signals <- syscall.SIGHUP
	<-entered
	signals <- syscall.SIGHUP
	leave <- struct{}{}
	<-entered
	leave <- struct{}{}
	if err := part.Stop(context.Background()); err != nil {
		t.Error(err)
	}
}

func TestAReloadThatHangsHoldsUpTheStopForItsTimeOnly(t *testing.T) {
	t.Parallel()
	host := testHost(io.Discard)
	signals := make(chan os.Signal, 1)
	entered, leave := make(chan struct{}), make(chan struct{})
	host.OnReload("hangs", func() error { close(entered); <-leave; return nil })
	part := reloadPart(host, signals)
	if err := part.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	signals <- syscall.SIGHUP
	<-entered
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	if err := part.Stop(ctx); err == nil {
		t.Error("the stop says nothing of the reload that goes on")
	}
	close(leave)
}

func TestAConfigurationThatCannotBeReadChangesNothing(t *testing.T) {
	t.Parallel()
	host := testHost(io.Discard)
	running := config.Serve{MaxConnections: 1}
	var applied int
	host.OnConfig(func(config.Serve) { applied++ })
	broken := errors.New("not TOML")
	hook := host.reloadConfig(running, func() (config.Serve, error) { return config.Serve{MaxConnections: 2}, broken })
	if err := hook(); !errors.Is(err, broken) || applied != 0 {
		t.Errorf("%v; applied %d times", err, applied)
	}
}
