package broker

import (
	"errors"

	"emanet/internal/store"
)

// willDue publishes the will when its time has come, and ends a session that only waited for it.
func (s *Session) willDue() {
	br := s.broker
	b, err := br.control(0)
	if err != nil {
		br.retry(&s.willAt, err)
		return
	}
	w, ended := s.will, s.ended
	due := s.isAway() && w != nil && br.Now() >= s.willDueAt // else somebody came back and left again
	b.Abort()
	if !due {
		return
	}
	if err := s.sendWill(w); err != nil {
		br.retry(&s.willAt, err)
		return
	}
	if ended {
		s.end()
	}
}

// isAway: the session is there and has no connection. Under the append lock.
func (s *Session) isAway() bool { return s.broker.sessions.byID[s.clientID] == s && s.client == nil }

// sendWill publishes the will of a session that is away, unless that has changed.
func (s *Session) sendWill(w *Will) error {
	_, err := s.publishWill(w, store.Publish, recordSize(s.clientID), func(b *store.Batch) bool {
		if s.will != w || !s.isAway() {
			return false
		}
		s.forgetWill(b)
		return true
	})
	return err
}

// publishWill publishes w. also makes the changes that belong into the same batch, of at most alsoSize
// bytes; if it says false nothing happens. A will that a bound refuses is given up, and so is one that is
// too large for the store once it has met its recipients: nobody is there to be told.
func (s *Session) publishWill(w *Will, class store.Class, alsoSize int, also func(*store.Batch) bool) (store.LSN, error) {
	br := s.broker
	if !s.mayStill(w) {
		return s.giveUpWill(alsoSize, also, errWillDenied.Error())
	}
	m := *w.Message
	m.ReceivedAt = br.Now()
	if w.Expiry > 0 {
		m.ExpiresAt = m.ReceivedAt + int64(w.Expiry)*1000
	}
	out, done, err := br.publishOwn(&m, class, alsoSize, also)
	switch {
	case errors.Is(err, store.ErrTooLarge):
		return s.giveUpWill(alsoSize, also, err.Error())
	case !done:
		return 0, err
	case out.Refused:
		br.counters.WillsRefused.Add(1)
		br.log.Warn("a will was refused", "client", s.clientID)
	default:
		br.counters.WillsPublished.Add(1)
	}
	return out.LSN, nil
}

// giveUpWill makes the changes without the will.
func (s *Session) giveUpWill(size int, also func(*store.Batch) bool, cause string) (store.LSN, error) {
	br := s.broker
	b, err := br.control(size)
	if err != nil {
		return 0, err
	}
	if !also(b) {
		b.Abort()
		return 0, nil
	}
	lsn := b.Commit()
	br.counters.WillsRefused.Add(1)
	br.log.Warn("a will was given up", "client", s.clientID, "cause", cause)
	return lsn, nil
}

// forgetWill removes the will, also from disk.
func (s *Session) forgetWill(b *store.Batch) {
	s.will = nil
	b.Delete(kindWill, s.clientID)
}
