package app

import (
	"math"
	"sync/atomic"
	"time"

	"emanet/internal/broker"
	"emanet/internal/config"
	"emanet/internal/mailbox"
	"emanet/internal/mqttserver"
)

// limit is a bound as /metrics shows it: emanet_limit{name="the flag"} and, where it strikes by refusing, delaying
// or dropping something, emanet_limit_hits_total of the same name.
type limit struct {
	flag  string
	value float64 // seconds, bytes or a number; +Inf where there is no bound
	hits  func(*mqttserver.Stats, *broker.Counters) uint64
}

func hit(h mqttserver.Hit) func(*mqttserver.Stats, *broker.Counters) uint64 {
	return func(s *mqttserver.Stats, _ *broker.Counters) uint64 { return s.Hits[h].Load() }
}

// limits lists every bound of cfg. docs/operations.md tells what a client gets for each.
func limits(cfg *config.Serve) []limit {
	m, c, st := &cfg.Limits, &cfg.Connect, &cfg.Store
	return []limit{
		{"max-connections", atMost(cfg.MaxConnections), hit(mqttserver.HitConnections)},
		{"max-connections-per-address", atMost(c.MaxConnectionsPerAddress), hit(mqttserver.HitPerAddress)},
		{"max-connections-per-user", atMost(c.MaxConnectionsPerUser), hit(mqttserver.HitPerUser)},
		{"connect-rate", atMost(c.ConnectRate), hit(mqttserver.HitConnectRate)},
		{"connect-rate-per-address", atMost(c.ConnectRatePerAddress), hit(mqttserver.HitConnectRatePerAddress)},
		{"max-packet-bytes", atMost(int(cfg.MaxPacketBytes)), hit(mqttserver.HitPacket)},
		{"login-delay-max", cfg.LoginDelayMax.Seconds(), nil},
		{"mqtt-max-pending-handshakes", atMost(m.MaxPendingHandshakes), hit(mqttserver.HitPending)},
		{"mqtt-connect-timeout", m.ConnectTimeout.Seconds(), hit(mqttserver.HitConnectTimeout)},
		{"mqtt-max-connect-bytes", atMost(int(m.MaxConnectBytes)), hit(mqttserver.HitConnect)},
		{"mqtt-max-keep-alive", atMost(int(m.MaxKeepAlive / time.Second)), hit(mqttserver.HitKeepAlive)},
		{"mqtt-min-keep-alive", m.MinKeepAlive.Seconds(), nil}, // counted with the other
		{"mqtt-max-will-delay", expiry(m.MaxWillDelay), hit(mqttserver.HitWillDelay)},
		{"mqtt-max-session-expiry", expiry(m.MaxSessionExpiry), hit(mqttserver.HitSessionExpiry)},
		{"mqtt-session-expiry", expiry(m.SessionExpiry), nil},
		{"mqtt-max-sessions", atMost(m.MaxSessions), hit(mqttserver.HitSessions)},
		{"mqtt-max-subscriptions", atMost(m.MaxSubscriptions),
			func(s *mqttserver.Stats, _ *broker.Counters) uint64 { return s.OverQuota.Load() }},
		{"mqtt-max-topic-levels", atMost(m.MaxTopicLevels), hit(mqttserver.HitTopicLevels)},
		{"mqtt-max-topic-bytes", atMost(m.MaxTopicBytes), hit(mqttserver.HitTopicBytes)},
		{"mqtt-max-inflight", atMost(m.MaxInflight), nil},
		{"mqtt-receive-maximum", atMost(m.ReceiveMaximum), hit(mqttserver.HitReceiveMaximum)},
		{"mqtt-topic-alias-max", float64(m.TopicAliasMax), hit(mqttserver.HitTopicAlias)},
		{"mqtt-topic-alias-max-out", float64(m.TopicAliasMaxOut), nil},
		{"mqtt-publish-rate", atMost(m.Publish.PublishRate), hit(mqttserver.HitPublishRate)},
		{"mqtt-publish-bytes-rate", atMost(int(m.Publish.PublishBytesRate)), hit(mqttserver.HitPublishBytesRate)},
		{"mqtt-max-queued", atMost(m.MaxQueued), overflows},
		{"mqtt-max-queued-bytes", atMost(int(m.MaxQueuedBytes)), nil}, // counted with the other
		{"mqtt-max-qos0-outbox", atMost(int(m.MaxQoS0Outbox)),
			func(s *mqttserver.Stats, _ *broker.Counters) uint64 { return s.LiveDropped.Load() }},
		{"mqtt-route-cache", atMost(int(m.RouteCache)),
			func(_ *mqttserver.Stats, b *broker.Counters) uint64 { return b.RoutesDropped.Load() }},
		{"ws-max-frame-bytes", atMost(int(cfg.WS.MaxFrameBytes)), nil},
		{"retained-max", atMost(st.RetainedMax),
			func(_ *mqttserver.Stats, b *broker.Counters) uint64 { return b.RetainedMany.Load() }},
		{"retained-max-bytes", atMost(int(st.RetainedMaxBytes)),
			func(_ *mqttserver.Stats, b *broker.Counters) uint64 { return b.RetainedLarge.Load() }},
		{"memory-budget", atMost(int(st.MemoryBudget)), nil},
		{"journal-segments", atMost(st.JournalSegments), nil},
		{"journal-segment-bytes", atMost(int(st.JournalSegmentBytes)), nil},
	}
}

func overflows(_ *mqttserver.Stats, b *broker.Counters) uint64 {
	return b.Dropped[mailbox.ReasonOverflow].Load() + b.Dropped[mailbox.ReasonRejected].Load()
}

// atMost is a bound that is none when it is 0.
func atMost(n int) float64 {
	if n == 0 {
		return math.Inf(1)
	}
	return float64(n)
}

func expiry(e config.Expiry) float64 {
	if e == config.Never {
		return math.Inf(1)
	}
	return time.Duration(e).Seconds()
}

// addLimits shows the limits that cfg sets, as they are after each reload.
func (h *Host) addLimits(cfg config.Serve, server *mqttserver.Server, b *broker.Broker) {
	var now atomic.Pointer[config.Serve]
	now.Store(&cfg)
	h.OnConfig(func(cfg config.Serve) { now.Store(&cfg) })
	h.Metrics.Add(func(emit func(Sample)) {
		for _, l := range limits(now.Load()) {
			label := []string{"name", l.flag}
			emit(Sample{Name: "emanet_limit", Help: "The limits that are set, by flag; +Inf where there is none.", Kind: Gauge,
				Value: l.value, Labels: label})
			if l.hits != nil {
				emit(Sample{Name: "emanet_limit_hits_total", Help: "How often a limit has refused, delayed or dropped something, by flag.",
					Kind: Counter, Value: float64(l.hits(server.Stats(), b.Counters())), Labels: label})
			}
		}
		gauge := func(name, help string, v float64) {
			emit(Sample{Name: name, Help: help, Kind: Gauge, Value: v})
		}
		g := b.Sizes()
		gauge("emanet_persistent_sessions", "Sessions on disk, connected or not.", float64(g.Durable))
		gauge("emanet_retained_bytes", "About the memory that retained messages occupy.", float64(g.RetainedBytes))
		gauge("emanet_mqtt_pending_handshakes", "Connections that have not sent their CONNECT.", float64(server.Pending()))
	})
}
