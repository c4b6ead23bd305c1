package app

import (
	"log/slog"
	"sync"
	"time"

	"emanet/internal/systemd"
)

// Host is what the process offers to its parts.
type Host struct {
	Log     *slog.Logger
	Health  *Health
	Metrics *Metrics

	manager *systemd.Manager // nil when nobody wants to know
	drain   time.Duration    // how long a stop may wait for clients

	// failed has room for one error: the first failure stops the process, and
	// later ones are most often its consequences.
	failed chan error

	mu        sync.Mutex
	listeners []any          // alternating flag and bound address, as slog takes them
	pending   func() Pending // nil when no broker runs
	isFailed  bool
	onFail    []func()

	reloads reloads
}

// Pending is what a start has found on disk.
type Pending struct {
	Sessions int   // persistent sessions
	Messages int64 // messages that wait for a session
}

func newHost(log *slog.Logger) *Host {
	h := &Host{Log: log, Health: newHealth(), Metrics: newMetrics(), drain: drainTimeout, failed: make(chan error, 1)}
	h.Metrics.Add(h.Health.samples)
	return h
}

// Fail reports that a part cannot go on: /healthz turns red, the process stops
// and exits with a failure. It never blocks and may be called more than once.
func (h *Host) Fail(part string, err error) {
	h.Health.Raise(part, err.Error())
	h.mu.Lock()
	hooks := h.onFail
	h.isFailed, h.onFail = true, nil
	h.mu.Unlock()
	for _, hook := range hooks {
		hook()
	}
	select {
	case h.failed <- &partError{part, err}:
	default: // an earlier failure already stops the process
	}
}

// OnFail has hook called at the first Fail, before anything is stopped, or at
// once when that has been. It must not block.
func (h *Host) OnFail(hook func()) {
	h.mu.Lock()
	isFailed := h.isFailed
	if !isFailed {
		h.onFail = append(h.onFail, hook)
	}
	h.mu.Unlock()
	if isFailed {
		hook()
	}
}

type partError struct {
	part string
	err  error
}

func (e *partError) Error() string { return e.part + ": " + e.err.Error() }
func (e *partError) Unwrap() error { return e.err }

// OnSummary sets where the start-up summary gets its numbers from.
func (h *Host) OnSummary(pending func() Pending) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pending = pending
}

func (h *Host) listening(name, address string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.listeners = append(h.listeners, name, address)
}

// logSummary says in one line what the start has led to.
func (h *Host) logSummary(took time.Duration) {
	h.mu.Lock()
	attributes, pending := []any{slog.Group("listeners", h.listeners...)}, h.pending
	h.mu.Unlock()
	if pending != nil {
		found := pending()
		attributes = append(attributes, "sessions", found.Sessions, "pending_messages", found.Messages)
	}
	h.Log.Info("started", append(attributes, "ms", took.Milliseconds())...)
}
