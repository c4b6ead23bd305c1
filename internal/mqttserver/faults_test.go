package mqttserver

import (
	"context"
	"log/slog"
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

func TestClientsAtFaultHaveALineEachUpToABoundAndTheRestOneTogether(t *testing.T) {
	var log book
	r := start(t, func(r *rig) { r.opt.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	r.server.faults.mu.Lock()
	r.server.faults.began = time.Now().Add(time.Hour) // the second that the test takes place in does not end
	r.server.faults.mu.Unlock()
	const clients = faultsMax + 30
	for range clients {
		p := r.dial()
		p.send(pingreq)
		p.closed()
	}
	r.eventually("the end of all", func() bool { return r.stats().Malformed.Load() == clients })
	r.eventually("the end of all", func() bool { return r.stats().Connections.Load() == 0 })
	r.eventually("the line for the rest", func() bool { return log.count("not told one by one") > 0 })
	if n := log.count("connection ended"); n != faultsMax {
		t.Errorf("%d lines of their own", n)
	}
}

func TestAShutdownTellsOfTheFaultsNotToldYet(t *testing.T) {
	var log book
	f := faults{log: slog.New(slog.NewTextHandler(&log, nil))}
	for range faultsMax + 2 {
		f.mayTell()
	}
	s := New(nil, Options{Logger: f.log})
	s.faults.more, s.faults.late = f.more, f.late
	if err := s.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	if log.count("count=2") != 1 {
		t.Error("the two beyond the bound were not told of")
	}
	f.more = 0
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
