package config

import (
	"math"
	"time"
)

// ConnectLimits bounds who may connect, over all listeners that speak MQTT.
type ConnectLimits struct {
	MaxConnectionsPerAddress int `live:"" default:"0" placeholder:"N" help:"Connections of one client address at one time, an IPv6 address counted by its /64; 0 sets no bound."`
	MaxConnectionsPerUser    int `live:"" default:"0" placeholder:"N" help:"Client ids of one user connected at one time; 0 sets no bound. Clients without a user are not counted."`
	ConnectRate              int `live:"" default:"20000" placeholder:"N" help:"CONNECTs accepted per second, over all clients; a second's worth may come at once. 0 sets no bound."`
	ConnectRatePerAddress    int `live:"" default:"0" placeholder:"N" help:"The same for one client address; 0 sets no bound."`
}

// PublishLimits bounds the pace of one client. A publisher above it is read later.
type PublishLimits struct {
	PublishRate      int   `live:"" default:"0" placeholder:"N" help:"Messages per second taken from one client; a second's worth may come at once. Above it the client is read later, and nothing is lost. 0 sets no bound."`
	PublishBytesRate Bytes `live:"" default:"0B" placeholder:"SIZE" help:"The same in bytes of PUBLISH packets per second. 0 sets no bound."`
}

// limitBounds lists the ranges of the limits in this file.
func (s *Serve) limitBounds() []bound {
	const most = 1_000_000_000
	c, m, p := &s.Connect, &s.Limits, &s.Limits.Publish
	return []bound{
		count("max-connections-per-address", c.MaxConnectionsPerAddress, 0, 10_000_000),
		count("max-connections-per-user", c.MaxConnectionsPerUser, 0, 10_000_000),
		count("connect-rate", c.ConnectRate, 0, most),
		count("connect-rate-per-address", c.ConnectRatePerAddress, 0, most),
		count("mqtt-publish-rate", p.PublishRate, 0, most),
		size("mqtt-publish-bytes-rate", p.PublishBytesRate, 0, 1<<40),
		count("mqtt-max-pending-handshakes", m.MaxPendingHandshakes, 0, 10_000_000),
		count("mqtt-max-sessions", m.MaxSessions, 0, most),
		count("mqtt-max-topic-bytes", m.MaxTopicBytes, 1, math.MaxUint16),
		size("mqtt-route-cache", m.RouteCache, 1<<10, 1<<30),
		duration("mqtt-min-keep-alive", m.MinKeepAlive, 0, math.MaxUint16*time.Second),
		size("retained-max-bytes", s.Store.RetainedMaxBytes, 0, 1<<44),
	}
}
