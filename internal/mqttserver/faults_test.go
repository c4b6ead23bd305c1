package mqttserver

import (
	"strings"
	"sync"
	"testing"
	"time"
)

// book is a log that tests read.
type book struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *book) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *book) count(text string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Count(b.text.String(), text)
}

func TestSilenceIsCountedApartFromWhatClientsSend(t *testing.T) {
	r := start(t, func(r *rig) { r.opt.ConnectTimeout = 20 * time.Millisecond })
	r.dial().closed() // no CONNECT
	h := v5live("a")
	h.keepAlive = 1
	p := r.connect(h)
	p.goodbye(0x8D)
	r.eventually("the count", func() bool { return r.stats().TimedOut.Load() == 2 })
	if n := r.stats().Malformed.Load(); n != 0 {
		t.Errorf("%d counted as malformed", n)
	}
}

func TestSubscriptionsRefusedByTheBoundAreCounted(t *testing.T) {
	r := start(t, func(r *rig) { r.broOpt.MaxSubs = 1 })
	p := r.connect(v5live("a"))
	p.send(subscribe5(1, "a", 0, "b", 0, "c", 0))
	p.expect(pkt(0x90, uint16(1), 0, 0, 0x97, 0x97))
	if n := r.stats().OverQuota.Load(); n != 2 {
		t.Errorf("%d counted", n)
	}
}
