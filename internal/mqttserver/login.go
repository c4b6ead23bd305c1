package mqttserver

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"

	"emanet/internal/auth"
	"emanet/internal/mqttwire"
	"emanet/internal/topic"
)

// userGoneEnd is for a client that would not be let in any more: its user was removed, or has another password.
var userGoneEnd = ending{code: mqttwire.NotAuthorized, tell: true, cause: "the user was removed or has a new password"}

// detachConnect takes CONNECT out of the input where a login may have to wait: a connection that waits holds its
// CONNECT and no buffer, so that ten thousand can.
func (c *conn) detachConnect(f mqttwire.Frame, n int) (mqttwire.Frame, int) {
	if c.server.opt.Users == nil {
		return f, n
	}
	f.Body = bytes.Clone(f.Body)
	c.in.consume(n)
	c.in.settle()
	return f, 0
}

// logIn checks who the client is. It may wait, beyond the time for CONNECT: for its turn when many come at once, and
// after failures.
func (c *conn) logIn(want *mqttwire.Connect) error {
	if want.HasUsername {
		c.userName = string(want.Username[:min(len(want.Username), auth.NameMax)])
	}
	var gone <-chan struct{}
	if c.server.opt.Users != nil {
		gone = c.out.untilEnd()
	}
	l, err := c.server.opt.Users.Login(auth.Attempt{
		Address: c.remote.host(), Certificate: c.remote.user,
		User: string(want.Username), HasUser: want.HasUsername, Password: want.Password, HasPassword: want.HasPassword,
	}, gone)
	switch {
	case errors.Is(err, auth.ErrGone):
		return errEnd
	case errors.Is(err, auth.ErrAnonymous):
		return &refusal{mqttwire.NotAuthorized, err.Error()}
	case err != nil:
		return &refusal{mqttwire.BadUserNameOrPassword, err.Error()}
	}
	c.userName = l.User
	c.login.Store(&l)
	return c.server.admission.admitUser(c, c.userName)
}

// nameClient takes the client id, or gives one where that is allowed ([MQTT-3.1.3-6], [MQTT-3.1.3-7]).
func (c *conn) nameClient(want *mqttwire.Connect, reply *mqttwire.Properties) error {
	c.clientID = string(want.ClientID)
	if c.clientID != "" {
		return nil
	}
	if c.version != mqttwire.V5 && !want.CleanStart { // [MQTT311-3.1.3-8]
		return &refusal{mqttwire.ClientIDNotValid, "an empty client id without clean session"}
	}
	var id [12]byte
	if _, err := rand.Read(id[:]); err != nil {
		return &refusal{mqttwire.ServerUnavailable, err.Error()}
	}
	c.clientID = "auto-" + hex.EncodeToString(id[:])
	if c.version == mqttwire.V5 {
		reply.AssignedClientID = []byte(c.clientID)
		reply.Present |= mqttwire.HasAssignedClientID
	}
	return nil
}

// DropUsers ends the connections of those who would not be let in any more.
func (s *Server) DropUsers() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.checkLogin()
	}
}

// checkLogin ends the connection if its login holds no more. A login that was under way while the files changed is
// looked at once more when the session is there.
func (c *conn) checkLogin() {
	if l := c.login.Load(); l != nil && !c.server.opt.Users.Holds(*l) {
		c.end(userGoneEnd)
	}
}

// checkWill refuses a will that the client may not publish itself.
func (c *conn) checkWill(want *mqttwire.Connect) error {
	if !want.HasWill || c.server.opt.Users.Rights(c.userName, c.clientID).MayWrite(string(want.Will.Topic)) {
		return nil
	}
	c.server.stats.DeniedWills.Add(1)
	return &refusal{mqttwire.NotAuthorized, "the client may not publish to the topic of its will"}
}

// maySubscribe tells whether a checked filter can bring anything that the client may read; a shared subscription must
// bring nothing else, for what one member may not read another would have got.
func (c *conn) maySubscribe(filter string) bool {
	rights := c.client.Rights()
	var may bool
	if _, inner, shared, err := topic.ParseShared(filter); shared && err == nil {
		may = rights.MayReadAll(inner)
	} else {
		may = rights.MayReadSome(filter)
	}
	if !may {
		c.server.stats.DeniedSubscriptions.Add(1)
		c.server.log.Warn("subscription denied", "client", c.clientID, "user", c.userName, "remote", c.remote.String(), "filter", filter)
	}
	return may
}

// denied answers a publish that the client has no right to. MQTT 3.1.1 has no word for it but the end of the
// connection, after which the client would come again with the same message: there it is acknowledged, and goes
// nowhere ([MQTT311-3.3.5-2]).
func (c *conn) denied(name []byte, qos uint8, packetID uint16) error {
	c.server.log.Warn("publish denied", "client", c.clientID, "user", c.userName, "remote", c.remote.String(), "topic", string(name))
	code := mqttwire.NotAuthorized
	if c.version != mqttwire.V5 {
		code = mqttwire.Success
	}
	c.acknowledge(qos, packetID, 0, code)
	return nil
}

// readable remembers for some topics whether the client may read them. The writer's own.
type readable struct {
	by     *auth.Rights
	topics map[string]bool
}

// readableMax is how many topics are remembered.
const readableMax = 256

// mayRead is asked for what is about to be sent: it may have waited since before a right was lost.
func (o *output) mayRead(name string) bool {
	rights := o.conn.client.Rights()
	if rights == nil {
		return true
	}
	r := &o.readable
	if r.by != rights || len(r.topics) >= readableMax {
		*r = readable{rights, make(map[string]bool)}
	}
	may, known := r.topics[name]
	if !known {
		may = rights.MayRead(name)
		r.topics[name] = may
	}
	if !may {
		o.conn.server.stats.DeniedDeliveries.Add(1)
	}
	return may
}
