// Package mqttserver speaks MQTT 3.1.1 and 5 over byte streams: one reader goroutine per connection that
// decodes all that is at hand, and a writer that exists only while there is something to write. The
// version is a property of the connection, not a second code path. What a publish means is the broker's.
package mqttserver

import (
	"errors"
	"log/slog"
	"math"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"emanet/internal/auth"
	"emanet/internal/broker"
	"emanet/internal/mqttwire"
	"emanet/internal/topic"
)

// Options are the limits of a server; all must be set but where a zero is said to mean something. Those marked
// live may be changed by Reconfigure.
type Options struct {
	MaxPacket        uint32        // bytes, fixed header included
	MaxConnections   int           // live
	ReceiveMaximum   int           // QoS 1 and 2 messages a client may have unacknowledged; announced
	MaxInflight      int           // live: the same towards the client, if its own maximum is not lower
	MinKeepAlive     time.Duration // live: shortest that is enforced
	MaxKeepAlive     time.Duration // live: longest granted to MQTT 5; 0 leaves it to the client
	ConnectTimeout   time.Duration // live
	MaxConnect       uint32        // live: bytes of a CONNECT; 0: MaxPacket
	SessionExpiry    uint32        // live: seconds, of 3.1.1 sessions; broker.Never
	MaxSessionExpiry uint32        // live: seconds, of MQTT 5 sessions; broker.Never
	MaxWillDelay     uint32        // live: seconds; broker.Never
	MaxTopicLevels   int           // live
	MaxTopicBytes    int           // live; 0: as many as fit
	MaxLiveBytes     int64         // live: QoS 0 bytes waiting for one client
	ResponsePrefix   string        // in front of the client id, for clients that ask for response information; empty: none is given
	TopicAliasMax    int           // topic aliases that a client may use; announced, 0 for none
	TopicAliasMaxOut int           // the most used towards a client, if its own maximum is not lower
	Users            *auth.Users   // the broker's; nil: there are none
	Logger           *slog.Logger

	// All live; 0 is no bound.
	MaxPerAddress         int // connections
	MaxPerUser            int // client ids
	MaxPending            int // connections without a CONNECT yet
	ConnectRate           int // per second
	ConnectRatePerAddress int
	PublishRate           int // messages per second and client
	PublishBytesRate      int64
}

// Stats count since the start what is rare; Traffic has the rest.
type Stats struct {
	Connections      atomic.Int64  // now
	Accepted         atomic.Uint64 // connections
	Refused          atomic.Uint64 // connections refused by a limit or an unfit CONNECT
	Unprepared       atomic.Uint64 // connections ended before CONNECT: no TLS handshake or PROXY header, or not in time
	Malformed        atomic.Uint64 // connections ended for what they sent
	TimedOut         atomic.Uint64 // connections ended for their silence
	OverQuota        atomic.Uint64 // subscriptions refused by a bound (0x97)
	Paced            atomic.Uint64 // bursts after which a publisher waited for the only reader of its QoS 0 messages
	LiveDropped      atomic.Uint64 // QoS 0 messages a slow client missed
	TooLargeDropped  atomic.Uint64 // messages above a client's maximum packet size
	StalledPublishes atomic.Uint64 // publishes that had to wait for room in the store
	HeldLost         atomic.Uint64 // of those, given up unacknowledged when their connection ended
	Hits             [hits]atomic.Uint64

	DeniedSubscriptions atomic.Uint64 // 0x87
	DeniedWills         atomic.Uint64 // CONNECTs refused for their will
	DeniedDeliveries    atomic.Uint64 // messages not sent, as the right to read them was lost while they waited
}

// Server serves one listener or more.
type Server struct {
	broker *broker.Broker
	opt    Options                 // as at the start
	live   atomic.Pointer[Options] // what Reconfigure can change is read here
	log    *slog.Logger
	stats  Stats

	clients   kinds
	traffic   [trafficShards]trafficShard
	shardNext atomic.Uint32

	admission admission

	mu       sync.Mutex
	conns    map[*conn]struct{}
	stopping bool
	running  sync.WaitGroup
}

// New makes a server in front of b.
func New(b *broker.Broker, opt Options) *Server {
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	opt.fit()
	opt.TopicAliasMax = min(max(opt.TopicAliasMax, 0), math.MaxUint16)
	opt.TopicAliasMaxOut = min(max(opt.TopicAliasMaxOut, 0), math.MaxUint16)
	s := &Server{broker: b, opt: opt, log: opt.Logger, conns: make(map[*conn]struct{})}
	s.live.Store(&opt)
	s.admission.init(s)
	return s
}

// fit brings what a protocol or a table bounds within its bounds.
func (opt *Options) fit() {
	if opt.MaxTopicLevels <= 0 || opt.MaxTopicLevels > topic.MaxLevels {
		opt.MaxTopicLevels = topic.MaxLevels
	}
	if opt.MaxTopicBytes <= 0 || opt.MaxTopicBytes > math.MaxUint16 {
		opt.MaxTopicBytes = math.MaxUint16
	}
	if opt.MaxPacket == 0 || opt.MaxPacket > mqttwire.MaxPacketSize { // 0 must not be announced: it is a protocol error
		opt.MaxPacket = mqttwire.MaxPacketSize
	}
	if opt.MaxConnect == 0 || opt.MaxConnect > opt.MaxPacket {
		opt.MaxConnect = opt.MaxPacket
	}
	if opt.ReceiveMaximum <= 0 || opt.ReceiveMaximum > math.MaxUint16 {
		opt.ReceiveMaximum = math.MaxUint16
	}
}

// Reconfigure sets the live options for what comes from now on: nobody is cut off, and what was granted to a
// connection stays granted. The other options stay as New was given them.
func (s *Server) Reconfigure(opt Options) {
	opt.fit()
	now := s.opt
	now.MaxConnections, now.MaxPerAddress, now.MaxPerUser = opt.MaxConnections, opt.MaxPerAddress, opt.MaxPerUser
	now.ConnectRate, now.ConnectRatePerAddress, now.MaxPending = opt.ConnectRate, opt.ConnectRatePerAddress, opt.MaxPending
	now.MaxConnect = min(opt.MaxConnect, now.MaxPacket)
	now.ConnectTimeout, now.MinKeepAlive, now.MaxKeepAlive = opt.ConnectTimeout, opt.MinKeepAlive, opt.MaxKeepAlive
	now.SessionExpiry, now.MaxSessionExpiry, now.MaxWillDelay = opt.SessionExpiry, opt.MaxSessionExpiry, opt.MaxWillDelay
	now.MaxTopicLevels, now.MaxTopicBytes = opt.MaxTopicLevels, opt.MaxTopicBytes
	now.MaxInflight, now.MaxLiveBytes = opt.MaxInflight, opt.MaxLiveBytes
	now.PublishRate, now.PublishBytesRate = opt.PublishRate, opt.PublishBytesRate
	s.live.Store(&now)
}

// Stats are live.
func (s *Server) Stats() *Stats { return &s.stats }

// Serve accepts connections until the listener is closed, and returns nil then.
func (s *Server) Serve(l net.Listener) error {
	var delay time.Duration
	for {
		s.admission.awaitTurn()
		nc, err := l.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return nil
		case err != nil:
			// Out of file descriptors, most often: it passes when somebody leaves.
			delay = min(max(2*delay, 5*time.Millisecond), time.Second)
			s.log.Warn("accepting a connection failed; trying again", "error", err, "in", delay)
			timer := time.NewTimer(delay)
			<-timer.C
			continue
		}
		delay = 0
		s.serveConn(nc)
		// In a storm whoever is connected comes before the next one: the kernel's queue holds those that wait.
		runtime.Gosched()
	}
}

// StopWaiting has Serve and ServeConn wait for nobody's CONNECT any more: a listener is about to stop.
func (s *Server) StopWaiting() { s.admission.end() }

// ServeConn takes over a connection that another server has accepted, in its turn. As there is no queue of the
// kernel's for those that wait, no more of them do than may be pending: the others are closed.
func (s *Server) ServeConn(nc net.Conn) {
	if !s.admission.queue() {
		s.stats.Refused.Add(1)
		_ = nc.Close() // nothing was said on it yet
		return
	}
	s.serveConn(nc)
	s.admission.dequeue()
}

// serveConn starts a connection's reader, unless there are too many.
func (s *Server) serveConn(nc net.Conn) {
	c := newConn(s, nc)
	s.mu.Lock()
	most := s.live.Load().MaxConnections
	full := most > 0 && len(s.conns) >= most
	if full || s.stopping {
		s.mu.Unlock()
		s.stats.Refused.Add(1)
		if full {
			s.stats.Hits[HitConnections].Add(1)
		}
		_ = nc.Close() // nothing was said on it yet
		return
	}
	s.conns[c] = struct{}{}
	s.running.Add(1)
	s.mu.Unlock()
	s.admission.accepted(c)
	s.stats.Accepted.Add(1)
	s.stats.Connections.Add(1)
	go func() {
		defer s.running.Done()
		c.run()
		s.admission.leave(c)
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
		s.stats.Connections.Add(-1)
	}()
}

// Abort cuts all connections off without a word: when the store has failed nothing may be answered.
func (s *Server) Abort() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopping = true
	for c := range s.conns {
		c.cut()
	}
}
