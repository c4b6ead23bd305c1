package broker

import (
	"errors"

	"emanet/internal/store"
)

// Goodbye is how a connection ended.
type Goodbye struct {
	// Clean: the client took leave, its will is not sent ([MQTT-3.14.4-3]).
	Clean bool
	// Expiry, if HasExpiry, replaces the session's (MQTT 5 DISCONNECT).
	HasExpiry bool
	Expiry    uint32
}

// Detach ends the connection's hold. The session goes on for its expiry, or ends now. The record of it
// is not waited for: after a crash without it the session counts as attached, which is only the more careful.
func (c *Client) Detach(g Goodbye) {
	s, br := c.session, c.broker
	s.mailbox.Detach(&c.consumer)
	b, unsent, err := br.controlToEnd(s, recordSize(s.clientID))
	if isNoRoom(err) { // even the reserve is used up: else the session would have a dead connection for good
		br.due.set(&deadline{run: func() { c.Detach(g) }}, br.Now()+retryLater)
		return
	}
	if err != nil { // the process is ending, and the start will find the session attached
		return
	}
	if s.client != c { // taken over: whoever did has seen to everything
		b.Abort()
		return
	}
	s.sent = s.mailbox.Sent()
	s.client = nil
	s.live.Store(nil)
	if g.HasExpiry {
		s.expiry = g.Expiry
	}
	if s.will != nil && g.Clean {
		s.forgetWill(b)
	}
	for _, mb := range s.shares {
		mb.group.reclaim(mb)
	}
	s.leave(b, unsent)
	b.Commit()
}

// leave lets a session go on without connection: for its expiry, or, when it ends with its connection,
// only as long as its will is not out. The will is due when its delay is over or the session ends,
// whichever is first ([MQTT-3.1.2-8]).
func (s *Session) leave(b *store.Batch, unsent int) {
	s.ended = s.expiry == 0 || !s.durable
	if s.ended && s.will == nil {
		s.drop(b, unsent)
		return
	}
	now := s.broker.Now()
	s.expiresAt, s.willDueAt = 0, 0
	if !s.ended && s.expiry != Never {
		s.expiresAt = now + int64(s.expiry)*1000
	}
	if s.will != nil {
		s.willDueAt = now
		if !s.ended {
			s.willDueAt += int64(min(s.will.Delay, s.expiry)) * 1000
		}
	}
	s.wait()
	if s.durable {
		s.put(b)
	}
}

// wait sets the deadlines of a session that is away.
func (s *Session) wait() {
	if s.expiresAt != 0 {
		s.broker.due.set(&s.expiryAt, s.expiresAt)
	}
	if s.will != nil {
		s.broker.due.set(&s.willAt, s.willDueAt)
	}
}

// isOver: the session is away and its time is up. Somebody may have come back and left again since a
// deadline struck. Under the append lock.
func (s *Session) isOver() bool {
	return s.isAway() && (s.ended || s.expiresAt != 0 && s.broker.Now() >= s.expiresAt)
}

// expire ends the session when it was away for its expiry; its will goes first.
func (s *Session) expire() {
	br := s.broker
	b, err := br.control(0)
	if err != nil {
		br.retry(&s.expiryAt, err)
		return
	}
	w, over := s.will, s.isOver()
	b.Abort()
	if !over {
		return
	}
	if w != nil {
		if err := s.sendWill(w); err != nil {
			br.retry(&s.expiryAt, err)
			return
		}
	}
	s.end()
}

// end removes a session that has been away for its time.
func (s *Session) end() {
	br := s.broker
	b, unsent, err := br.controlToEnd(s, recordSize(s.clientID))
	if err != nil {
		br.retry(&s.expiryAt, err)
		return
	}
	if !s.isOver() { // somebody came back just now
		b.Abort()
		return
	}
	expired := !s.ended
	s.drop(b, unsent)
	b.Commit()
	if !expired { // it only waited for its will
		return
	}
	br.counters.Expired.Add(1)
	br.log.Info("session expired", "client", s.clientID)
}

// retry sets d again after the store refused for now; after its end nothing is due any more.
func (b *Broker) retry(d *deadline, err error) {
	if errors.Is(err, store.ErrFailed) || errors.Is(err, store.ErrClosed) {
		return
	}
	after := int64(retryLater)
	if isNoRoom(err) {
		after = retrySoon
	}
	b.due.set(d, b.Now()+after)
}
