package app

import (
	"context"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// tellTime gives what is sent to it, one answer for each question.
func tellTime(times <-chan time.Duration) func() time.Time {
	return func() time.Time { return time.Unix(0, 0).Add(<-times) }
}

func TestTheFirstSignalEndsTheContextAndTheSecondTheProcess(t *testing.T) {
	t.Parallel()
	signals := make(chan os.Signal)
	exited := make(chan os.Signal, 1)
	times := make(chan time.Duration, 2)
	times <- 0
	times <- sameRequest
	ctx, undo := untilSignal(context.Background(), signals, tellTime(times), func(s os.Signal) { exited <- s })
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

// `timeout` signals the process and then its group, in which the process is.
func TestASignalThatComesTwiceAtOnceIsOneRequest(t *testing.T) {
	t.Parallel()
	signals := make(chan os.Signal)
	exited := make(chan os.Signal, 3)
	times := make(chan time.Duration, 3)
	for _, at := range []time.Duration{0, time.Millisecond, sameRequest - 1} {
		times <- at
	}
	ctx, undo := untilSignal(context.Background(), signals, tellTime(times), func(s os.Signal) { exited <- s })
	signals <- syscall.SIGTERM
	<-ctx.Done()
	signals <- syscall.SIGTERM
	signals <- syscall.SIGTERM
	undo() // after it nothing exits any more
	if len(exited) > 0 || len(times) > 0 {
		t.Errorf("exited for %d signals, %d not looked at", len(exited), len(times))
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
