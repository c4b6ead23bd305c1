package app

import (
	"context"
	"os"
	"strings"
	"syscall"
	"testing"
)

func TestTheFirstSignalEndsTheContextAndTheSecondTheProcess(t *testing.T) {
	t.Parallel()
	signals := make(chan os.Signal)
	exited := make(chan os.Signal, 1)
	ctx, undo := untilSignal(context.Background(), signals, func(s os.Signal) { exited <- s })
	defer undo()

	signals <- syscall.SIGTERM
	<-ctx.Done()
	if cause := context.Cause(ctx).Error(); !strings.Contains(cause, "terminated") {
		t.Errorf("the cause %q does not name the signal", cause)
	}
	signals <- os.Interrupt
	if second := <-exited; second != os.Interrupt {
		t.Errorf("exited for %v", second)
	}
}

func TestWithoutASignalNothingIsLeftBehind(t *testing.T) {
	t.Parallel()
	ctx, undo := UntilSignal(context.Background(), os.Stderr)
	undo()
	if ctx.Err() == nil {
		t.Error("the context outlived its undoing")
	}
}
