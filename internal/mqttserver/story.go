package mqttserver

import (
	"strings"
	"sync"
	"time"

	"emanet/internal/mqttwire"
)

// A connection's story is told in two lines, both with the client id: that it is there, and how it ended, with what
// it has moved meanwhile. Lines between tell what was refused to it. How many lines a second there may be is the
// log's affair (package app).

// Transported is a net.Conn that knows what carries it; others are named after their network.
type Transported interface {
	Transport() string // tcp, tls, ws, wss, unix
}

// Kind is what a connection is, for counting.
type Kind struct{ Version, Transport string }

// kinds counts clients.
type kinds struct {
	mu     sync.Mutex
	counts map[Kind]int
}

func (k *kinds) add(kind Kind, n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.counts == nil {
		k.counts = make(map[Kind]int)
	}
	k.counts[kind] += n
}

// Clients visits how many connections have a session now, by kind. A kind that was there once is visited for good.
func (s *Server) Clients(visit func(Kind, int)) {
	s.clients.mu.Lock()
	defer s.clients.mu.Unlock()
	for _, v := range []mqttwire.Version{mqttwire.V311, mqttwire.V5} { // always there
		kind := Kind{v.String(), "tcp"}
		if _, there := s.clients.counts[kind]; !there {
			visit(kind, 0)
		}
	}
	for kind, n := range s.clients.counts {
		visit(kind, n)
	}
}

func (c *conn) kind() Kind {
	transport := c.remote.addr.Network()
	if t, ok := c.nc.(Transported); ok {
		transport = t.Transport()
	}
	return Kind{c.version.String(), transport}
}

// noteConnect: the session is attached.
func (c *conn) noteConnect(want *mqttwire.Connect, present bool) {
	c.since = time.Now()
	kind := c.kind()
	c.server.clients.add(kind, 1)
	args := []any{"client", c.clientID, "remote", c.remote.String(), "transport", kind.Transport, "version", kind.Version,
		"clean", want.CleanStart, "present", present, "keep_alive", int(c.idle * 2 / 3 / time.Second), "expiry", expiryText(c.expiry)}
	if want.HasWill {
		args = append(args, "will", string(want.Will.Topic))
	}
	if c.userName != "" {
		args = append(args, "user", c.userName)
	}
	c.server.log.Info("connected", args...)
}

// noteEnd counts and logs how the connection ended. Its writer has ended.
func (c *conn) noteEnd() {
	e, _ := c.out.ended()
	switch {
	case e.early: // which is counted already
	case e.late:
		c.server.stats.TimedOut.Add(1)
	case e.bad:
		c.server.stats.Malformed.Add(1)
	}
	args := []any{"client", c.clientID, "remote", c.remote.String(), "cause", e.cause}
	if c.userName != "" {
		args = append(args, "user", c.userName)
	}
	if e.code != mqttwire.Success {
		args = append(args, "code", e.code.String())
	}
	log := c.server.log.Debug // who has no session has no story
	if c.client != nil {
		log = c.server.log.Info
		c.server.clients.add(c.kind(), -1)
		args = append(args, "seconds", float64(time.Since(c.since).Milliseconds())/1000,
			"received", c.publishes, "sent", c.out.publishes)
		if c.out.dropped > 0 {
			args = append(args, "dropped", c.out.dropped)
		}
	}
	if e.bad {
		log = c.server.log.Warn
	}
	log("connection ended", args...)
}

// noteRefusedSubscriptions logs the filters of a SUBSCRIBE that were not granted.
func (c *conn) noteRefusedSubscriptions(subs []mqttwire.Subscription, codes []mqttwire.ReasonCode) {
	var refused []string
	var code mqttwire.ReasonCode
	for i := range codes {
		if codes[i].Failed() && codes[i] != mqttwire.NotAuthorized { // those have lines of their own (login.go)
			refused, code = append(refused, string(subs[i].Filter)), codes[i]
		}
	}
	if len(refused) == 0 {
		return
	}
	const most = 3 // of what one line shows
	filters := strings.Join(refused[:min(most, len(refused))], " ")
	c.server.log.Warn("subscriptions refused", "client", c.clientID, "count", len(refused), "filters", filters, "code", code.String())
}

func expiryText(seconds uint32) string {
	if seconds == ^uint32(0) {
		return "never"
	}
	return (time.Duration(seconds) * time.Second).String()
}
