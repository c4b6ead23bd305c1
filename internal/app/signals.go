package app

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// exitInterrupted is what a shell reports for a program that SIGINT ended.
const exitInterrupted = 130

// sameRequest is how long after the first signal another one is taken for the same request: `timeout` and some
// supervisors signal both a process and its group, and nobody who has lost patience is as fast.
const sameRequest = time.Second

// UntilSignal returns a context that the first SIGINT or SIGTERM ends, with the
// signal as its cause. A second signal, a second later or more, exits the process at once:
// nothing that was acknowledged depends on a clean stop. The returned function undoes it.
func UntilSignal(parent context.Context, stderr io.Writer) (context.Context, func()) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	ctx, undo := untilSignal(parent, signals, time.Now, func(second os.Signal) {
		fmt.Fprintf(stderr, "emanet: second signal (%v): exiting without a clean stop\n", second)
		os.Exit(exitInterrupted)
	})
	return ctx, func() {
		signal.Stop(signals)
		undo()
	}
}

func untilSignal(parent context.Context, signals <-chan os.Signal, now func() time.Time, exit func(os.Signal)) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	undone, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		var began time.Time
		select {
		case first := <-signals:
			began = now()
			cancel(fmt.Errorf("signal: %v", first))
		case <-undone:
			return
		}
		for {
			select {
			case second := <-signals:
				if now().Sub(began) >= sameRequest {
					exit(second)
					return
				}
			case <-undone:
				return
			}
		}
	}()
	return ctx, func() {
		close(undone)
		<-ended
		cancel(context.Canceled)
	}
}
