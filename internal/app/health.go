package app

import (
	"sort"
	"strings"
	"sync"
	"sync/atomic"
)

// Health is what /healthz and /readyz answer from. It is green until an alarm
// is raised, and green again when every alarm has been cleared. Warnings are
// told and leave it green: whoever restarts what is red would trade a broker
// that works for one that may not start.
type Health struct {
	phase atomic.Int32

	mu       sync.Mutex
	alarms   map[string]string // name -> reason
	warnings map[string]string
}

// The phases of the process, in the only order they can come in.
const (
	phaseStarting = iota
	phaseReady
	phaseStopping
)

var phaseNames = [...]string{"starting", "ready", "stopping"}

func newHealth() *Health {
	return &Health{alarms: map[string]string{}, warnings: map[string]string{}}
}

// Raise turns health red under a name, with the reason an operator will read.
// Raising a name again replaces its reason.
func (h *Health) Raise(name, reason string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.alarms[name] = reason
}

// Warn tells of something that needs an operator and does not keep the broker
// from its work, such as a file that could not be read again.
func (h *Health) Warn(name, reason string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.warnings[name] = reason
}

// Clear takes the alarm and the warning of that name back. Clearing what was
// never raised does nothing.
func (h *Health) Clear(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.alarms, name)
	delete(h.warnings, name)
}

// Alarms lists what is wrong, one "name: reason" a line in the order of the
// names; it is empty when all is well.
func (h *Health) Alarms() []string { return h.lines(h.alarms) }

// Warnings lists what was warned of, in the same form.
func (h *Health) Warnings() []string { return h.lines(h.warnings) }

func (h *Health) lines(reasons map[string]string) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	lines := make([]string, 0, len(reasons))
	for name, reason := range reasons {
		// A reason may quote what a client sent; a line stays a line.
		lines = append(lines, name+": "+strings.ReplaceAll(reason, "\n", " "))
	}
	sort.Strings(lines)
	return lines
}

// samples tells how many alarms and warnings there are.
func (h *Health) samples(emit func(Sample)) {
	h.mu.Lock()
	alarms, warnings := len(h.alarms), len(h.warnings)
	h.mu.Unlock()
	emit(Sample{Name: "emanet_alarms", Help: "Reasons that /healthz gives for being red; 0 is healthy.", Kind: Gauge, Value: float64(alarms)})
	emit(Sample{Name: "emanet_warnings", Help: "Warnings that /healthz tells while it stays green.", Kind: Gauge, Value: float64(warnings)})
}

func (h *Health) setReady()    { h.phase.CompareAndSwap(phaseStarting, phaseReady) }
func (h *Health) setStopping() { h.phase.Store(phaseStopping) }

func (h *Health) phaseName() (name string, ready bool) {
	phase := h.phase.Load()
	return phaseNames[phase], phase == phaseReady
}
