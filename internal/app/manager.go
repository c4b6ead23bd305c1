package app

import (
	"context"
	"os"
	"time"

	"emanet/internal/store"
	"emanet/internal/systemd"
)

// tell tells the service manager something. One that cannot be told is worth a line, and nothing else.
func (h *Host) tell(err error) {
	if err != nil {
		h.Log.Warn("the service manager does not hear", "err", err)
	}
}

// findManager looks for the service manager that started the process.
func (h *Host) findManager() error {
	var err error
	h.manager, err = systemd.FromEnvironment(os.Getenv, os.Getpid())
	return err
}

// serving is what the service manager shows while all is well.
const serving = "serving"

// watchdogPart keeps the service manager's watchdog quiet as long as the store can acknowledge: a broker whose disk
// hangs serves nobody. The zero Part when nobody watches.
func watchdogPart(host *Host, c *core) Part {
	limit := host.manager.Watchdog()
	if limit == 0 {
		return Part{}
	}
	quit, done := make(chan struct{}), make(chan struct{})
	return Part{
		Name: "watchdog",
		Start: func(context.Context) error {
			go func() {
				defer close(done)
				var p pulse
				tick := time.NewTicker(limit / 3)
				defer tick.Stop()
				for {
					if p.alive(c.store) {
						host.tell(host.manager.Alive())
					}
					select {
					case <-quit:
						return
					case <-tick.C:
					}
				}
			}()
			return nil
		},
		Stop: func(context.Context) error {
			close(quit)
			<-done
			return nil
		},
	}
}

// flusher is the store, as far as its pulse goes.
type flusher interface {
	Appended() store.LSN
	Flushed() store.LSN
	Err() error
}

// pulse tells a store that flushes from one that does not get on.
type pulse struct {
	waits   bool      // something was not flushed
	flushed store.LSN // how far it was
}

// alive is to be asked in equal intervals. A store is not alive when it has failed, or when something was waiting for
// its flush the last time already and nothing at all has been flushed since.
func (p *pulse) alive(s flusher) bool {
	flushed, appended := s.Flushed(), s.Appended() // in this order: what comes between is no sign of a hang
	stuck := p.waits && flushed == p.flushed
	p.waits, p.flushed = appended > flushed, flushed
	return s.Err() == nil && !stuck
}
