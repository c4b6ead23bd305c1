package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Complete fills in what depends on other values and checks what no single
// value can show. Its error names the flag to change and why. Calling it twice
// changes nothing.
func (s *Serve) Complete() error {
	if s.Data == "" {
		return badFlag("data", "names no directory")
	}
	for _, b := range s.bounds() {
		if b.value < b.low || b.value > b.high {
			return badFlag(b.flag, "%s is not between %s and %s", b.show(b.value), b.show(b.low), b.show(b.high))
		}
	}
	if s.Store.JournalSegmentBytes%journalPage != 0 {
		return badFlag("journal-segment-bytes", "%v is not a multiple of %v", s.Store.JournalSegmentBytes, journalPage)
	}
	if err := s.completeKeepAlive(); err != nil {
		return err
	}
	if p := s.Limits.ResponsePrefix; strings.ContainsAny(p, "+#\x00") || !utf8.ValidString(p) || len(p) > maxResponsePrefix {
		return badFlag("mqtt-response-information", "it is not the beginning of a topic name of at most %d bytes", maxResponsePrefix)
	}
	if i := s.SysInterval; i > 0 && i < minSysInterval {
		return badFlag("sys-interval", "%v is shorter than %v; 0s turns the $SYS topics off", i, minSysInterval)
	}
	half := s.Store.JournalSegmentBytes / 2
	if s.MaxPacketBytes == 0 {
		s.MaxPacketBytes = half
	}
	if s.MaxPacketBytes < minPacketBytes || s.MaxPacketBytes > half {
		return badFlag("max-packet-bytes", "%v is not between %v and %v, which is half of --journal-segment-bytes",
			s.MaxPacketBytes, minPacketBytes, half)
	}
	if s.Limits.MaxConnectBytes == 0 {
		s.Limits.MaxConnectBytes = min(connectBytes, s.MaxPacketBytes)
	}
	if n := s.Limits.MaxConnectBytes; n < minPacketBytes || n > s.MaxPacketBytes {
		return badFlag("mqtt-max-connect-bytes", "%v is not between %v and %v, which is --max-packet-bytes", n, minPacketBytes, s.MaxPacketBytes)
	}
	return s.completeListeners()
}

// connectBytes has room for the longest payload of a will and the longest password, and as much for all else.
const connectBytes Bytes = 256 << 10

// minPacketBytes lets every handshake through; a smaller limit would only
// refuse clients in ways nobody can trace.
const minPacketBytes Bytes = 1 << 10

// minSysInterval keeps the $SYS topics from being what the broker mostly does.
const minSysInterval = 100 * time.Millisecond

// journalPage is the unit in which the journal is laid out.
const journalPage Bytes = 4 << 10

// maxResponsePrefix leaves CONNACK small.
const maxResponsePrefix = 1 << 10

// maxTopicLevels is what matching was built for (internal/topic).
const maxTopicLevels = 200

type bound struct {
	flag             string
	value, low, high int64
	show             func(int64) string
}

func count(flag string, value, low, high int) bound {
	return bound{flag, int64(value), int64(low), int64(high), showCount}
}

func size(flag string, value, low, high Bytes) bound {
	return bound{flag, int64(value), int64(low), int64(high), showBytes}
}

func duration(flag string, value, low, high time.Duration) bound {
	return bound{flag, int64(value), int64(low), int64(high), showTime}
}

func showCount(n int64) string { return strconv.FormatInt(n, 10) }
func showBytes(n int64) string { return Bytes(n).String() }
func showTime(n int64) string  { return time.Duration(n).String() }

// bounds lists every number with the range in which the program was built to
// work. Ranges that end at 65535 are those of MQTT's two-byte integers.
func (s *Serve) bounds() []bound {
	m, st := &s.Limits, &s.Store
	return append(s.limitBounds(),
		count("max-connections", s.MaxConnections, 1, 10_000_000),
		duration("drain-timeout", s.DrainTimeout, 100*time.Millisecond, time.Hour),
		duration("sys-interval", s.SysInterval, 0, 24*time.Hour),
		duration("login-delay-max", s.LoginDelayMax, 0, time.Minute),
		count("mqtt-max-queued", m.MaxQueued, 1, 1_000_000_000),
		size("mqtt-max-queued-bytes", m.MaxQueuedBytes, 1<<10, 1<<40),
		count("mqtt-max-inflight", m.MaxInflight, 1, math.MaxUint16),
		count("mqtt-receive-maximum", m.ReceiveMaximum, 1, math.MaxUint16),
		count("mqtt-topic-alias-max", m.TopicAliasMax, 0, math.MaxUint16),
		count("mqtt-topic-alias-max-out", m.TopicAliasMaxOut, 0, math.MaxUint16),
		duration("mqtt-max-keep-alive", m.MaxKeepAlive, 0, math.MaxUint16*time.Second),
		duration("mqtt-connect-timeout", m.ConnectTimeout, 10*time.Millisecond, time.Hour),
		count("mqtt-max-subscriptions", m.MaxSubscriptions, 1, 10_000_000),
		count("mqtt-max-topic-levels", m.MaxTopicLevels, 1, maxTopicLevels),
		size("mqtt-max-qos0-outbox", m.MaxQoS0Outbox, 1<<10, 1<<40),
		size("ws-max-frame-bytes", s.WS.MaxFrameBytes, 1<<10, 1<<30),
		count("retained-max", st.RetainedMax, 0, 1_000_000_000),
		count("journal-segments", st.JournalSegments, 4, 1<<14),
		size("journal-segment-bytes", st.JournalSegmentBytes, 64<<10, 1<<30),
		size("memory-budget", st.MemoryBudget, 1<<20, 1<<44),
	)
}

func (s *Serve) completeKeepAlive() error {
	low, high := s.Limits.MinKeepAlive, s.Limits.MaxKeepAlive
	const notWhole = "%v is not a number of whole seconds, which is how MQTT counts"
	switch {
	case high%time.Second != 0:
		return badFlag("mqtt-max-keep-alive", notWhole, high)
	case low%time.Second != 0:
		return badFlag("mqtt-min-keep-alive", notWhole, low)
	case high > 0 && low > high:
		return badFlag("mqtt-min-keep-alive", "%v is longer than --mqtt-max-keep-alive %v", low, high)
	}
	return nil
}

func (s *Serve) completeListeners() error {
	if !s.MQTT.On() && !s.MQTTS.On() && s.MQTTUnix == "" && !s.HTTP.On() && !s.HTTPS.On() {
		return badFlag("mqtt", "every listener is off, so nothing could be served")
	}
	if err := s.completeTransport(); err != nil {
		return err
	}
	if s.AllowAnonymous || s.HasUsers() {
		return nil
	}
	for _, l := range s.Listeners() {
		if l.Address.On() && !l.Address.Loopback() && !s.Named(l) {
			return badFlag(l.Flag, "%s can be reached from other machines while no users are configured: "+
				"listen on 127.0.0.1, name users with --users or --mosquitto-passwords, or add --allow-anonymous", l.Address)
		}
	}
	return nil
}

// HasUsers tells whether some file says who may log in; then nobody comes without a user name but by --allow-anonymous.
func (s *Serve) HasUsers() bool { return s.Users != "" || s.MosquittoPasswords != "" }

// Listener is an address with the flag that sets it.
type Listener struct {
	Flag    string // without dashes in front
	Address Address
	Secure  bool // over TLS
	// Proxied is the PROXY protocol that it speaks; ProxyOff or empty for none.
	Proxied ProxyProtocol
}

// Listeners lists every listener over TCP there is, those that are off included.
func (s *Serve) Listeners() []Listener {
	list := []Listener{
		{Flag: "mqtt", Address: s.MQTT}, {Flag: "mqtts", Address: s.MQTTS, Secure: true},
		{Flag: "http", Address: s.HTTP}, {Flag: "https", Address: s.HTTPS, Secure: true},
	}
	for i := range list {
		if slices.Contains(s.Proxy.Listeners, list[i].Flag) {
			list[i].Proxied = s.Proxy.Protocol
		}
	}
	return list
}

// Listener is the one with that flag.
func (s *Serve) Listener(flag string) Listener {
	list := s.Listeners()
	return list[slices.IndexFunc(list, func(l Listener) bool { return l.Flag == flag })]
}

// badFlag names the flag first, as kong does, so that Explain can add where
// the value came from.
func badFlag(flag, reason string, args ...any) error {
	return fmt.Errorf("--%s: "+reason, append([]any{flag}, args...)...)
}
