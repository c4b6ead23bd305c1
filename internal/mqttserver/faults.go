package mqttserver

import (
	"log/slog"
	"sync"
	"time"
)

// faultsMax lines about clients' faults are logged in faultsTime; what is more is counted in one line. A fleet
// gone mad, or one client that comes back at once and for ever, must not fill the log's disk.
const (
	faultsMax  = 100
	faultsTime = time.Second
)

// faults bounds what the log tells of clients that are at fault.
type faults struct {
	log *slog.Logger

	mu    sync.Mutex
	began time.Time
	told  int // since began
	more  int // not told
	late  *time.Timer
}

// mayTell counts a fault, and says whether it may have a line of its own.
func (f *faults) mayTell() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := time.Now(); now.Sub(f.began) >= faultsTime {
		f.began, f.told = now, 0
	}
	if f.told < faultsMax {
		f.told++
		return true
	}
	if f.more++; f.more == 1 {
		f.late = time.AfterFunc(faultsTime, f.tell)
	}
	return false
}

func (f *faults) warn(text string, attrs ...any) {
	if f.mayTell() {
		f.log.Warn(text, attrs...)
	}
}

// tell says how many had no line.
func (f *faults) tell() {
	f.mu.Lock()
	n := f.more
	if f.more = 0; n > 0 {
		f.late.Stop()
	}
	f.mu.Unlock()
	if n > 0 {
		f.log.Warn("more clients at fault, not told one by one", "count", n)
	}
}
