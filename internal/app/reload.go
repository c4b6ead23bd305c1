package app

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"emanet/internal/config"
)

// reloads is what a SIGHUP sets going.
type reloads struct {
	mu             sync.Mutex
	hooks          []reloadHook
	ok, failed     uint64
	configurations []func(config.Serve)
}

type reloadHook struct {
	name string
	run  func() error
}

// OnReload has hook called at each SIGHUP, after the hooks that were there before. It reads again what name stands
// for. An error keeps the old state, is logged, and warns in /healthz under that name until the next success.
// Hooks run one after the other, and not before every part has started.
func (h *Host) OnReload(name string, hook func() error) {
	h.reloads.mu.Lock()
	defer h.reloads.mu.Unlock()
	h.reloads.hooks = append(h.reloads.hooks, reloadHook{name, hook})
}

// OnConfig has apply called when a reload has changed a value that can change while the process runs (the tag
// `live` in package config), with the whole configuration that holds from then on. The configuration is checked:
// what apply cannot do is the programmer's fault.
func (h *Host) OnConfig(apply func(config.Serve)) {
	h.reloads.mu.Lock()
	defer h.reloads.mu.Unlock()
	h.reloads.configurations = append(h.reloads.configurations, apply)
}

// reload runs all hooks.
func (h *Host) reload() {
	r := &h.reloads
	r.mu.Lock()
	hooks := r.hooks
	r.mu.Unlock()
	h.Log.Info("reloading")
	h.tell(h.manager.Reloading())
	var failed bool
	for _, hook := range hooks {
		began := time.Now()
		if err := hook.run(); err != nil {
			failed = true
			h.Log.Error("reload failed; what was there stays", "part", hook.name, "err", err)
			h.Health.Warn(hook.name, "reload: "+err.Error())
			continue
		}
		h.Log.Info("reloaded", "part", hook.name, "ms", time.Since(began).Milliseconds())
		h.Health.Clear(hook.name)
	}
	text := serving
	if failed {
		text = "a reload failed, see the log"
	}
	h.tell(h.manager.Ready(text))
	r.mu.Lock()
	defer r.mu.Unlock()
	if failed {
		r.failed++
	} else {
		r.ok++
	}
}

func (r *reloads) samples(emit func(Sample)) {
	r.mu.Lock()
	ok, failed := r.ok, r.failed
	r.mu.Unlock()
	const name, help = "emanet_reloads_total", "Reloads by SIGHUP; failed when any part kept its old state."
	emit(Sample{Name: name, Help: help, Kind: Counter, Value: float64(ok), Labels: []string{"result", "ok"}})
	emit(Sample{Name: name, Help: help, Kind: Counter, Value: float64(failed), Labels: []string{"result", "failed"}})
}

// reloadPart reloads at each signal. It starts when everything else has, so that every hook has what it needs.
// Signals that come sooner, or during a reload, lead to one more.
func reloadPart(host *Host, signals <-chan os.Signal) Part {
	quit, done := make(chan struct{}), make(chan struct{})
	return Part{
		Name: "reload",
		Start: func(context.Context) error {
			host.Metrics.Add(host.reloads.samples)
			go func() {
				defer close(done)
				for {
					select {
					case <-quit:
						return
					case <-signals:
						host.reload()
					}
				}
			}()
			return nil
		},
		Stop: func(ctx context.Context) error {
			close(quit)
			select {
			case <-done:
				return nil
			case <-ctx.Done():
				return errors.New("a reload does not end")
			}
		},
	}
}

// hangups delivers SIGHUP from now on: one that comes during the start must not end the process.
func hangups() (signals <-chan os.Signal, undo func()) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGHUP)
	return c, func() { signal.Stop(c) }
}

// reloadConfig is the hook that reads the configuration again. Values that can change take effect; of others it
// says that they need a restart, at each reload until they are as they were or the restart has come.
func (h *Host) reloadConfig(running config.Serve, reread func() (config.Serve, error)) func() error {
	return func() error {
		next, err := reread()
		if err != nil {
			return err
		}
		merged, changes, err := config.Adopt(running, next)
		if err != nil {
			return err
		}
		live := false
		for _, c := range changes {
			level, text := slog.LevelInfo, "configuration changed"
			if !c.Live {
				level, text = slog.LevelWarn, "a changed value needs a restart"
			}
			live = live || c.Live
			h.Log.Log(context.Background(), level, text, "flag", "--"+c.Flag, "from", c.From, "to", c.To)
		}
		if !live {
			return nil
		}
		running = merged
		h.reloads.mu.Lock()
		applies := h.reloads.configurations
		h.reloads.mu.Unlock()
		for _, apply := range applies {
			apply(running)
		}
		return nil
	}
}
