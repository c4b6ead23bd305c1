package broker

import (
	"errors"

	"emanet/internal/auth"
	"emanet/internal/store"
)

// heldRights are what a session's user may do, as of a version of the files. They are shared by whoever publishes to
// the session, and made anew by the first who finds them out of date.
type heldRights struct {
	user    string
	version uint64
	rights  *auth.Rights // nil: everything
}

// rightsNow gives what the session's user may do now.
func (s *Session) rightsNow() *auth.Rights {
	users := s.broker.opt.Users
	if users == nil {
		return nil
	}
	for version := users.Version(); ; {
		h := s.rights.Load()
		if h.version >= version {
			return h.rights
		}
		fresh := &heldRights{h.user, version, users.Rights(h.user, s.clientID)}
		if s.rights.CompareAndSwap(h, fresh) { // else it may have got another user
			return fresh.rights
		}
	}
}

// Rights are what the client may do now; nil is everything. The same pointer is the same rights.
func (c *Client) Rights() *auth.Rights { return c.session.rightsNow() }

// version is that of all a route follows from: subscriptions, shared ones, whose sessions they are, and what those may do.
func (b *Broker) version() uint64 {
	return b.subs.Version() + b.shares.Version() + b.rightsVersion()
}

func (b *Broker) rightsVersion() uint64 {
	if b.opt.Users == nil {
		return 0
	}
	return b.opt.Users.Version() + b.adopted.Load()
}

// ErrNotOwner is what Attach answers to a user who asks for another user's session.
var ErrNotOwner = errors.New("the client id is another user's")

// claim says whether the connection may have the session: its own, or one that was nobody's. The session of a user
// who does not exist any more is ended, so that nobody gets what was meant for another. Without users there are no
// secrets between clients, and a session keeps its user until there are some again. Under the append lock.
func (s *Session) claim(want *Connect) error {
	users := s.broker.opt.Users
	switch owner := s.user(); {
	case users == nil, owner == "", owner == want.User:
		return nil
	case users.Exists(owner):
		return ErrNotOwner
	default:
		s.broker.log.Warn("a session is discarded: its user does not exist any more", "client", s.clientID, "user", owner)
		want.CleanStart = true
		return nil
	}
}

// user is the session's owner, "" for nobody.
func (s *Session) user() string { return s.rights.Load().user }

// own makes the session the user's. Under the append lock.
func (s *Session) own(user string) {
	if s.broker.opt.Users == nil || s.user() == user {
		return
	}
	s.rights.Store(&heldRights{user: user})
	s.broker.adopted.Add(1)
}

// deny is the outcome of a publish that its client has no right to. What was taken in before the right was lost is
// answered as ever.
func (c *Client) deny(qos uint8, packetID uint16) (Outcome, error) {
	denied := Outcome{Denied: true}
	if qos < 2 {
		c.broker.counters.Denied.Add(1)
		return denied, nil
	}
	if c.session.durable {
		b, err := c.control(store.SizeSmall)
		if err != nil {
			return Outcome{Room: store.SizeSmall}, err // held like any publish: what its burst has done must not wait
		}
		defer b.Abort()
		if c.session.client != c {
			return Outcome{}, ErrGone
		}
	}
	if c.duplicate(packetID) {
		return Outcome{LSN: c.session.received[packetID], Duplicate: true}, nil
	}
	c.broker.counters.Denied.Add(1)
	return denied, nil
}

// mayStill tells whether a will may be published by the rights its session has now.
func (s *Session) mayStill(w *Will) bool { return s.rightsNow().MayWrite(w.Message.Topic) }

var errWillDenied = errors.New("its user may not write the topic any more")

// sizeUser bounds what a user name takes in a session's record.
const sizeUser = 2*auth.NameMax + store.SizeSmall

// RightsChanged tells the broker that the files of users were read again: a member may be there for what had none.
func (b *Broker) RightsChanged() {
	for _, g := range b.groups.all() {
		g.wake()
	}
}
