package app

import (
	"context"
	"errors"
	"time"

	"emanet/internal/broker"
	"emanet/internal/config"
	"emanet/internal/store"
)

// sysPart announces the figures of the $SYS topics; the zero Part when they are off.
func sysPart(cfg config.Serve, host *Host, c *core) Part {
	if cfg.SysInterval == 0 {
		return Part{}
	}
	quit, done := make(chan struct{}), make(chan struct{})
	return Part{
		Name: "$SYS topics",
		Start: func(context.Context) error {
			go announceSys(newSysTree(c.sysFigures(host), cfg.SysInterval), c.broker, cfg.SysInterval, quit, done)
			return nil
		},
		Stop: func(context.Context) error {
			close(quit)
			<-done
			return nil
		},
	}
}

// announceSys announces what has changed, now and at each interval, until quit.
func announceSys(tree *sysTree, b *broker.Broker, interval time.Duration, quit <-chan struct{}, done chan<- struct{}) {
	defer close(done)
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		err := b.Announce(tree.changed())
		switch {
		case err == nil:
			tree.told()
		case errors.Is(err, store.ErrFailed), errors.Is(err, store.ErrClosed):
			return
		}
		select {
		case <-quit:
			return
		case <-tick.C:
		}
	}
}

// sysFigures are what the $SYS topics are made of, as of now.
type sysFigures struct {
	gauges         broker.Gauges
	expired        uint64 // sessions
	received, sent sysFlow
	dropped        uint64 // publishes
	sockets        uint64 // connections accepted
	connects       uint64 // CONNECT packets
	heap           uint64 // bytes
	uptime         time.Duration
	alarms         []string
}

// sysFlow is what went one way.
type sysFlow struct{ packets, publishes, bytes, payload uint64 }

// sysFigures gathers. Without an MQTT listener there is no server to ask.
func (c *core) sysFigures(host *Host) func() sysFigures {
	began := time.Now()
	return func() sysFigures {
		n := c.broker.Counters()
		f := sysFigures{
			gauges: c.broker.Gauges(), expired: n.Expired.Load(),
			uptime: time.Since(began), heap: heapBytes(), alarms: host.Health.Alarms(),
		}
		for r := range n.Dropped {
			f.dropped += n.Dropped[r].Load()
		}
		server := c.mqtt.Load()
		if server == nil {
			return f
		}
		s, t := server.Stats(), server.Traffic()
		f.received = sysFlow{t.In.All(), t.In.Publishes(), t.In.Bytes, t.In.Payload}
		f.sent = sysFlow{t.Out.All(), t.Out.Publishes(), t.Out.Bytes, t.Out.Payload}
		f.dropped += s.LiveDropped.Load() + s.TooLargeDropped.Load()
		f.sockets, f.connects = s.Accepted.Load(), t.In.Connects()
		return f
	}
}
