package local

import (
	"maps"
	"slices"
	"sync"
)

// alarms are what is wrong and not fatal, in words, one of each kind.
type alarms struct {
	mu     sync.Mutex
	active map[string]string
}

// Kinds of alarms.
const (
	alarmFold       = "fold"
	alarmCheckpoint = "checkpoint"
	alarmWAL        = "wal"
	alarmSpace      = "space"
	alarmStrays     = "strays"
	alarmRelease    = "release"
)

// set raises the alarm of a kind, or ends it when text is empty. It tells whether that is news.
func (a *alarms) set(kind, text string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	was, on := a.active[kind]
	switch {
	case text == "":
		delete(a.active, kind)
		return on
	case a.active == nil:
		a.active = map[string]string{}
	}
	a.active[kind] = text
	return !on || was != text
}

func (a *alarms) list() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := make([]string, 0, len(a.active))
	for _, kind := range slices.Sorted(maps.Keys(a.active)) {
		out = append(out, a.active[kind])
	}
	return out
}
