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
	b, err := br.store.Begin(store.Control, recordSize(s.clientID)+s.willRoom())
	if err != nil {
		// The store takes nothing any more: the process is ending, and the start will find it attached.
		s.mailbox.Detach(&c.consumer)
		return
	}
	if s.client != c { // taken over: whoever did has seen to everything
		b.Abort()
		s.mailbox.Detach(&c.consumer)
		return
	}
	s.mailbox.Detach(&c.consumer)
	s.sent = s.mailbox.Sent()
	s.client = nil
	s.live.Store(nil)
	if g.HasExpiry {
		s.expiry = g.Expiry
	}
	if s.will != nil && g.Clean {
		b.Delete(kindWill, s.clientID)
		s.will = nil
	}
	s.ended = s.expiry == 0 || !s.durable
	if !s.ended {
		s.leave(b)
	}
	switch {
	case s.will != nil:
		s.delayWill(b, s.will)
	case s.ended:
		s.drop(b)
	}
	b.Commit()
}

// leave records the session as detached and starts its expiry.
func (s *Session) leave(b *store.Batch) {
	var expiresAt int64
	if s.expiry != Never {
		expiresAt = s.broker.Now() + int64(s.expiry)*1000
		s.broker.due.set(&s.expiryAt, expiresAt)
	}
	s.put(b, expiresAt)
}

// delayWill has the will published when its delay is over or the session ends, whichever is first
// ([MQTT-3.1.2-8]). A session that ends with its connection is kept until its will is out.
func (s *Session) delayWill(b *store.Batch, w *Will) {
	at := s.broker.Now()
	if !s.ended {
		at += int64(min(w.Delay, s.expiry)) * 1000
	}
	b.Put(kindWill, s.clientID, w.record(s.clientID, at))
	s.broker.due.set(&s.willAt, at)
}

func (s *Session) willRoom() int {
	w := s.will // only a size: a will that comes or goes meanwhile belongs to another connection
	if w == nil {
		return 0
	}
	return 2*w.Message.EncodedMax() + 512
}

// willDue publishes the will when its time has come, and ends a session that only waited for it.
func (s *Session) willDue() {
	br := s.broker
	b, err := br.store.Begin(store.Control, 0)
	if err != nil {
		br.retry(&s.willAt, err)
		return
	}
	w := s.will
	current := br.sessions[s.clientID] == s && s.client == nil && w != nil
	b.Abort()
	if !current {
		return
	}
	if err := s.publishWill(w); err != nil {
		br.retry(&s.willAt, err)
		return
	}
	if s.ended {
		s.end()
	}
}

// publishWill publishes w and removes its record in one batch, unless it is no longer the session's.
func (s *Session) publishWill(w *Will) error {
	m := *w.Message
	m.ReceivedAt = s.broker.Now()
	if w.Expiry > 0 {
		m.ExpiresAt = m.ReceivedAt + int64(w.Expiry)*1000
	}
	fired := false
	err := s.broker.publishOwn(&m, func(b *store.Batch) bool {
		if s.will != w {
			return false
		}
		s.will = nil
		b.Delete(kindWill, s.clientID)
		fired = true
		return true
	}, recordSize(s.clientID))
	if fired {
		s.broker.counters.WillsPublished.Add(1)
	}
	return err
}

// expire ends the session when it was away for its expiry; its will goes first.
func (s *Session) expire() {
	br := s.broker
	b, err := br.store.Begin(store.Control, 0)
	if err != nil {
		br.retry(&s.expiryAt, err)
		return
	}
	w := s.will
	away := br.sessions[s.clientID] == s && s.client == nil
	b.Abort()
	if !away {
		return
	}
	if w != nil {
		if err := s.publishWill(w); err != nil {
			br.retry(&s.expiryAt, err)
			return
		}
	}
	s.end()
}

// end removes a detached session.
func (s *Session) end() {
	br := s.broker
	b, err := br.store.Begin(store.Control, recordSize(s.clientID))
	if err != nil {
		br.retry(&s.expiryAt, err)
		return
	}
	if br.sessions[s.clientID] != s || s.client != nil { // somebody came back just now
		b.Abort()
		return
	}
	s.drop(b)
	b.Commit()
	br.log.Info("session expired", "client", s.clientID)
}

// retry sets d again after the store refused for now; after its end nothing is due any more.
func (b *Broker) retry(d *deadline, err error) {
	if errors.Is(err, store.ErrFailed) || errors.Is(err, store.ErrClosed) {
		return
	}
	b.due.set(d, b.Now()+retryLater)
}
