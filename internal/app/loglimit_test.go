package app

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"emanet/internal/config"
)

// lockedBuffer may be read while somebody writes.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func TestAStormLeavesAHundredLinesASecondAndANumber(t *testing.T) {
	t.Parallel()
	var out lockedBuffer
	log, told := newLogger(&out, config.LogText, slog.LevelInfo)
	const storm = 10_000
	for i := range storm {
		log.With("n", i).Info("connected")
	}
	log.Warn("connected") // another level is another kind
	log.Info("something else")
	log.Error("an error")
	told()
	lines := strings.Count(out.String(), "msg=connected")
	if lines < logLinesMax || lines > 20*logLinesMax { // 20 seconds would be a slow machine
		t.Errorf("%d lines of a storm of %d", lines, storm)
	}
	left := strings.Index(out.String(), "of=connected count=")
	if left < 0 || !strings.Contains(out.String(), "something else") || !strings.Contains(out.String(), "an error") ||
		!strings.Contains(out.String(), "level=WARN msg=connected") {
		t.Errorf("the log ends:\n%s", out.String()[max(0, len(out.String())-500):])
	}
	told()
	if strings.Count(out.String(), "of=connected") != strings.Count(out.String(), "lines not written") {
		t.Error("told of what was written")
	}
}

func TestErrorsAndTheLevelDebugAreWrittenWhole(t *testing.T) {
	t.Parallel()
	var out lockedBuffer
	log, told := newLogger(&out, config.LogText, slog.LevelInfo)
	for range 3 * logLinesMax {
		log.Error("an error")
	}
	told()
	if n := strings.Count(out.String(), "an error"); n != 3*logLinesMax {
		t.Errorf("%d of %d errors", n, 3*logLinesMax)
	}
	var whole lockedBuffer
	log, told = newLogger(&whole, config.LogJSON, slog.LevelDebug)
	for range 3 * logLinesMax {
		log.Info("connected")
	}
	told()
	if n := strings.Count(whole.String(), `"msg":"connected"`); n != 3*logLinesMax {
		t.Errorf("%d of %d lines at the level debug", n, 3*logLinesMax)
	}
}

func TestAValueOfALogLineIsClipped(t *testing.T) {
	t.Parallel()
	for _, form := range []config.LogFormat{config.LogText, config.LogJSON} {
		var out bytes.Buffer
		log, _ := newLogger(&out, form, slog.LevelInfo)
		long := strings.Repeat("ü", 30_000)
		log.Warn("connection ended", "client", long, "err", errors.New(long), "remote", "here", slog.Group("g", "topic", long))
		if n := out.Len(); n > 4*logValueMax {
			t.Errorf("%s: a line of %d bytes", form, n)
		}
		for _, want := range []string{"ü… (60000 bytes)", "here"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: no %q in %s", form, want, &out)
			}
		}
	}
}
