package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"emanet/internal/broker"
	"emanet/internal/config"
	"emanet/internal/journal"
	"emanet/internal/mqttserver"
	"emanet/internal/store/local"
)

// core is what the broker part makes for the parts after it.
type core struct {
	store  *local.Store
	broker *broker.Broker
	mqtt   atomic.Pointer[mqttserver.Server] // nil while it does not run
	users  users
}

// corePart opens the store and the broker on it. The directory's lock is the store's.
func corePart(cfg config.Serve, host *Host, c *core) Part {
	var watch *watcher
	return Part{
		Name: "broker",
		Start: func(context.Context) error {
			if err := c.open(cfg, host); err != nil {
				return err
			}
			watch = watchStore(c, host)
			found := c.broker.Found()
			host.OnSummary(func() Pending { return Pending{Sessions: found.Sessions, Messages: int64(found.Messages)} })
			host.OnConfig(func(cfg config.Serve) { c.broker.Reconfigure(brokerOptions(cfg, host)) })
			host.Metrics.Add(c.samples)
			return nil
		},
		// Stop does not heed its context: what is left is to flush and fold what was appended, which the next start
		// would have to do instead, and to let go of files. A disk that hangs hangs it; then whoever stops the
		// process kills it, and nothing that was acknowledged is lost.
		Stop: func(context.Context) error {
			watch.stop()
			c.broker.Close()
			return c.store.Close()
		},
	}
}

func (c *core) open(cfg config.Serve, host *Host) error {
	var err error
	c.store, err = local.Open(cfg.Data, local.Options{
		Logger: host.Log,
		Journal: journal.Options{
			SegmentBytes: int64(cfg.Store.JournalSegmentBytes), Segments: cfg.Store.JournalSegments, Salvage: cfg.Salvage,
		},
	})
	if err != nil {
		err = fmt.Errorf("--data %s: %w", cfg.Data, err)
		if errors.Is(err, journal.ErrCorrupt) && !cfg.Salvage {
			err = fmt.Errorf("%w; restore a copy, or keep what is whole of it with --salvage", err)
		}
		if errors.Is(err, journal.ErrSegmentSize) {
			err = UsageError{fmt.Errorf("--journal-segment-bytes: %w", err)}
		}
		return err
	}
	opt := brokerOptions(cfg, host)
	opt.Users = c.users.Users
	c.broker, err = broker.Open(c.store, opt)
	if err != nil {
		return errors.Join(fmt.Errorf("--data %s: %w", cfg.Data, err), c.store.Close())
	}
	return nil
}

func brokerOptions(cfg config.Serve, host *Host) broker.Options {
	return broker.Options{
		MaxQueued:    uint64(cfg.Limits.MaxQueued),
		MaxBytes:     int64(cfg.Limits.MaxQueuedBytes),
		RejectNew:    cfg.Limits.Overflow == config.RejectNew,
		MaxRetained:  cfg.Store.RetainedMax,
		RetainedMax:  int64(cfg.Store.RetainedMaxBytes),
		MaxSessions:  cfg.Limits.MaxSessions,
		RouteBytes:   int(cfg.Limits.RouteCache),
		MaxSubs:      cfg.Limits.MaxSubscriptions,
		MemoryBudget: int64(cfg.Store.MemoryBudget),
		Logger:       host.Log,
	}
}

// watcher carries the store's alarms to health, and ends the process when the store has failed.
type watcher struct {
	quit, done chan struct{}
}

// alarmInterval is how often alarms are looked at; a failure is told at once.
const alarmInterval = time.Second

func watchStore(c *core, host *Host) *watcher {
	w := &watcher{quit: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(w.done)
		tick := time.NewTicker(alarmInterval)
		defer tick.Stop()
		for {
			select {
			case <-w.quit:
				return
			case <-c.store.Failed():
				host.Fail("store", c.store.Err())
				return
			case <-tick.C:
				showAlarms(host, c.store.Alarms())
			}
		}
	}()
	return w
}

func showAlarms(host *Host, alarms []string) {
	if len(alarms) == 0 {
		host.Health.Clear("store")
		return
	}
	host.Health.Raise("store", strings.Join(alarms, "; "))
}

func (w *watcher) stop() {
	close(w.quit)
	<-w.done
}

// mqttPart is the server of all MQTT connections, whatever listener they come by. It starts before the listeners and
// stops after them.
func mqttPart(cfg config.Serve, host *Host, c *core) Part {
	return Part{
		Name: "mqtt",
		Start: func(context.Context) error {
			opt := mqttOptions(cfg, host)
			opt.Users = c.users.Users
			server := mqttserver.New(c.broker, opt)
			c.users.onChange(server.DropUsers)
			c.users.onChange(c.broker.RightsChanged)
			// Nothing may be said any more, not even goodbye: clients find their messages unacknowledged.
			host.OnFail(server.Abort)
			host.OnConfig(func(cfg config.Serve) { server.Reconfigure(mqttOptions(cfg, host)) })
			host.Metrics.Add(mqttSamples(server))
			host.Metrics.Add(trafficSamples(server))
			host.addLimits(cfg, server, c.broker)
			c.mqtt.Store(server)
			return nil
		},
		Stop: func(ctx context.Context) error { return c.mqtt.Swap(nil).Shutdown(ctx) },
	}
}

// mqttListener is a listener of the MQTT server's; the zero Part when it is off.
func mqttListener(host *Host, c *core, flag string, on bool, open opener) Part {
	if !on {
		return Part{}
	}
	return listenerPart(host, flag, open, func() Server { return acceptor{c.mqtt.Load()} })
}

// serveConn hands a connection to the MQTT server, if that runs.
func (c *core) serveConn(nc net.Conn) bool {
	server := c.mqtt.Load()
	if server == nil {
		return false
	}
	server.ServeConn(nc)
	return true
}

// acceptor is the MQTT server to one of its listeners, with which its connections do not end.
type acceptor struct{ *mqttserver.Server }

// Shutdown only sees to it that Serve returns.
func (a acceptor) Shutdown(context.Context) error {
	a.StopWaiting()
	return nil
}

func mqttOptions(cfg config.Serve, host *Host) mqttserver.Options {
	l := &cfg.Limits
	return mqttserver.Options{
		MaxPacket:        uint32(cfg.MaxPacketBytes),
		MaxConnections:   cfg.MaxConnections,
		ReceiveMaximum:   l.ReceiveMaximum,
		MaxInflight:      l.MaxInflight,
		ResponsePrefix:   l.ResponsePrefix,
		TopicAliasMax:    l.TopicAliasMax,
		TopicAliasMaxOut: l.TopicAliasMaxOut,
		MaxKeepAlive:     l.MaxKeepAlive,
		ConnectTimeout:   l.ConnectTimeout,
		MaxConnect:       uint32(l.MaxConnectBytes),
		SessionExpiry:    expirySeconds(l.SessionExpiry),
		MaxSessionExpiry: expirySeconds(l.MaxSessionExpiry),
		MaxTopicLevels:   l.MaxTopicLevels,
		MaxLiveBytes:     int64(l.MaxQoS0Outbox),
		MinKeepAlive:     l.MinKeepAlive,
		MaxWillDelay:     expirySeconds(l.MaxWillDelay),
		MaxTopicBytes:    l.MaxTopicBytes,
		MaxPending:       l.MaxPendingHandshakes,
		PublishRate:      l.Publish.PublishRate,
		PublishBytesRate: int64(l.Publish.PublishBytesRate),

		MaxPerAddress:         cfg.Connect.MaxConnectionsPerAddress,
		MaxPerUser:            cfg.Connect.MaxConnectionsPerUser,
		ConnectRate:           cfg.Connect.ConnectRate,
		ConnectRatePerAddress: cfg.Connect.ConnectRatePerAddress,
		Logger:                host.Log,
	}
}

// expirySeconds is the expiry as MQTT counts it, rounded up so that nothing ends early; Never stays Never.
func expirySeconds(e config.Expiry) uint32 {
	if e == config.Never {
		return broker.Never
	}
	seconds := (int64(e) + int64(time.Second) - 1) / int64(time.Second)
	return uint32(min(seconds, int64(broker.Never)-1))
}
