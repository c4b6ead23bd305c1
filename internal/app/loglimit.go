package app

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// logLinesMax lines of one message are written in logLinesTime; what is more is counted in one line. Ten thousand
// clients that come back within a second leave a hundred lines, not ten thousand. Errors are always written, and so is
// everything at the level debug, which whoever wants the whole story of one client in a crowd chooses.
const (
	logLinesMax  = 100
	logLinesTime = time.Second
)

// limitedLog is a slog.Handler that bounds how often each message is written.
type limitedLog struct {
	slog.Handler
	limits *logLimits // one for all that WithAttrs and WithGroup make
}

func limitLog(to slog.Handler) limitedLog {
	return limitedLog{to, &logLimits{to: to, lines: make(map[lineKind]*lineCount)}}
}

// Handle implements slog.Handler.
func (l limitedLog) Handle(ctx context.Context, r slog.Record) error { //nolint:gocritic // the interface's signature
	if r.Level >= slog.LevelError || l.Enabled(ctx, slog.LevelDebug) || l.limits.may(lineKind{r.Level, r.Message}) {
		return l.Handler.Handle(ctx, r)
	}
	return nil
}

// WithAttrs implements slog.Handler.
func (l limitedLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return limitedLog{l.Handler.WithAttrs(attrs), l.limits}
}

// WithGroup implements slog.Handler.
func (l limitedLog) WithGroup(name string) slog.Handler {
	return limitedLog{l.Handler.WithGroup(name), l.limits}
}

// lineKind is what lines have in common. A warning does not go under in a flood of the same message at the level info.
// Messages are constants of the program: there are few.
type lineKind struct {
	level   slog.Level
	message string
}

// logLimits counts lines by their kind.
type logLimits struct {
	to slog.Handler

	mu    sync.Mutex
	began time.Time // of the present second
	lines map[lineKind]*lineCount
	tell  *time.Timer // set while something is not told
}

type lineCount struct{ written, left int }

func (l *logLimits) may(kind lineKind) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); now.Sub(l.began) >= logLinesTime {
		l.began = now
		for _, n := range l.lines {
			n.written = 0
		}
	}
	n := l.lines[kind]
	if n == nil {
		n = &lineCount{}
		l.lines[kind] = n
	}
	if n.written < logLinesMax {
		n.written++
		return true
	}
	n.left++
	if l.tell == nil {
		l.tell = time.AfterFunc(logLinesTime, l.tellLeft)
	}
	return false
}

// tellLeft says how many lines were not written.
func (l *logLimits) tellLeft() {
	l.mu.Lock()
	if l.tell != nil {
		l.tell.Stop()
		l.tell = nil
	}
	left := make(map[lineKind]int)
	for kind, n := range l.lines {
		if n.left > 0 {
			left[kind] = n.left
			n.left = 0
		}
	}
	l.mu.Unlock()
	for kind, n := range left {
		r := slog.NewRecord(time.Now(), kind.level, "lines not written, --log-level debug writes all", 0)
		r.AddAttrs(slog.String("of", kind.message), slog.Int("count", n))
		_ = l.to.Handle(context.Background(), r) // a log that cannot be written has nobody to tell
	}
}
