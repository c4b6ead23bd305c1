package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"emanet/internal/config"
	"emanet/internal/disk"
)

// Part is one thing that is started and stopped with the process.
type Part struct {
	Name string
	// Start returns once the part does its work. What it leaves running ends in
	// Stop. A part whose Start failed is not stopped: it cleans up itself.
	Start func(ctx context.Context) error
	// Stop returns when nothing of the part runs any more and what it held (ports,
	// files, goroutines) is free. A ctx that ends asks for haste, not for leaks: peers are waited for no longer,
	// the disk is.
	Stop func(ctx context.Context) error
}

// UsageError is an error that the command line, the environment or the configuration file must mend.
type UsageError struct{ Err error }

// Error is that of Err, which names the flag.
func (e UsageError) Error() string { return e.Err.Error() }

// Unwrap gives Err.
func (e UsageError) Unwrap() error { return e.Err }

// badFile makes an error about a file at the start one that the operator must mend, and names the flag of the file.
func badFile(err error, flags map[string]string) error {
	var file *disk.FileError
	if !errors.As(err, &file) || flags[file.Name] == "" {
		return err
	}
	return UsageError{fmt.Errorf("--%s %w", flags[file.Name], err)}
}

// LoggedError is an error that the log has told.
type LoggedError struct{ Err error }

// Error is that of Err.
func (e LoggedError) Error() string { return e.Err.Error() }

// Unwrap gives Err.
func (e LoggedError) Unwrap() error { return e.Err }

// drainTimeout bounds the part of a clean stop that waits for others, unless the configuration says otherwise
// (--drain-timeout). Container runtimes kill ten seconds after SIGTERM; being killed loses nothing that was
// acknowledged, but the next start is slower than it need be.
const drainTimeout = 8 * time.Second

// Run starts the broker that cfg describes, serves until ctx ends or a part
// fails for good, and stops it. It returns nil after a clean stop that ctx
// asked for, else a LoggedError. Logs go to logOutput.
//
// A SIGHUP has everything read again that may change while the process runs (OnReload): first the
// configuration, by reread, which returns it complete.
func Run(ctx context.Context, cfg config.Serve, reread func() (config.Serve, error), logOutput io.Writer) error {
	began := time.Now()
	signals, undo := hangups()
	defer undo()
	var level slog.LevelVar
	level.Set(cfg.Logging.Level.Level())
	log, tellLeft := newLogger(logOutput, cfg.Logging.Format, &level)
	defer tellLeft()
	host := newHost(log)
	host.drain = cfg.DrainTimeout
	host.OnReload("configuration", host.reloadConfig(cfg, reread))
	host.OnConfig(func(cfg config.Serve) { level.Set(cfg.Logging.Level.Level()) })
	if err := host.findManager(); err != nil {
		host.Log.Error(cannotStart, "err", err)
		return LoggedError{err}
	}
	host.tell(host.manager.Status("starting on " + cfg.Data))
	warnAtStart(host.Log, cfg)
	if files, ok := openFilesMax(); ok {
		warnOfFiles(host.Log, cfg.MaxConnections, files)
	}
	if err := run(ctx, host, append(parts(cfg, host), reloadPart(host, signals)), began); err != nil {
		return LoggedError{err}
	}
	return nil
}

const cannotStart = "cannot start"

// run is Run with the parts made. It logs the errors it returns.
func run(ctx context.Context, host *Host, parts []Part, began time.Time) error {
	started, err := start(ctx, parts)
	if err != nil {
		host.Log.Error(cannotStart, "err", err)
	} else {
		host.logSummary(time.Since(began))
		host.Health.setReady()
		host.tell(host.manager.Ready(serving))
		select {
		case <-ctx.Done():
			host.Log.Info("stopping", "reason", context.Cause(ctx).Error())
		case err = <-host.failed:
			host.Log.Error("stopping: a part has failed for good", "err", err)
		}
	}
	host.Health.setStopping()
	host.tell(host.manager.Stopping("stopping"))
	return errors.Join(err, stop(host, started))
}

// start starts the parts in order and returns those that did.
func start(ctx context.Context, parts []Part) ([]Part, error) {
	for i, part := range parts {
		if err := ctx.Err(); err != nil {
			return parts[:i], nil //nolint:nilerr // told to stop while starting: that is a clean stop
		}
		if err := part.Start(ctx); err != nil {
			if usage := (UsageError{}); errors.As(err, &usage) { // which begins with the flag, all that it takes
				return parts[:i], err
			}
			return parts[:i], fmt.Errorf("starting %s: %w", part.Name, err)
		}
	}
	return parts, nil
}

// stop stops the parts in the reverse order, each even if another failed.
func stop(host *Host, started []Part) error {
	ctx, cancel := context.WithTimeout(context.Background(), host.drain)
	defer cancel()
	began := time.Now()
	var errs []error
	for i := len(started) - 1; i >= 0; i-- {
		if err := started[i].Stop(ctx); err != nil {
			host.Log.Error("a part has not stopped in good order", "part", started[i].Name, "err", err)
			errs = append(errs, fmt.Errorf("stopping %s: %w", started[i].Name, err))
		}
	}
	host.Log.Info("stopped", "ms", time.Since(began).Milliseconds())
	return errors.Join(errs...)
}
