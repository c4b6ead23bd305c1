package app

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// exitInterrupted is what a shell reports for a program that SIGINT ended.
const exitInterrupted = 130

// UntilSignal returns a context that the first SIGINT or SIGTERM ends, with the
// signal as its cause. A second signal exits the process at once: nothing that
// was acknowledged depends on a clean stop. The returned function undoes it.
func UntilSignal(parent context.Context, stderr io.Writer) (context.Context, func()) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	ctx, undo := untilSignal(parent, signals, func(second os.Signal) {
		fmt.Fprintf(stderr, "emanet: second signal (%v): exiting without a clean stop\n", second)
		os.Exit(exitInterrupted)
	})
	return ctx, func() {
		signal.Stop(signals)
		undo()
	}
}

func untilSignal(parent context.Context, signals <-chan os.Signal, exit func(os.Signal)) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	undone, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case first := <-signals:
			cancel(fmt.Errorf("signal: %v", first))
		case <-undone:
			return
		}
		select {
		case second := <-signals:
			exit(second)
		case <-undone:
		}
	}()
	return ctx, func() {
		close(undone)
		<-ended
		cancel(context.Canceled)
	}
}
