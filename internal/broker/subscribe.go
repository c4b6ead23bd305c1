package broker

import (
	"emanet/internal/store"
)

// Subscribe sets subscriptions; each replaces one of the same filter ([MQTT-3.8.4-3]). Filters are checked.
// granted tells for each whether it was taken (false: the session has as many as it may). lsn is what
// SUBACK waits for. Retained messages follow by Retained.
func (c *Client) Subscribe(subs []Subscription) (granted []bool, lsn store.LSN, err error) {
	s, br := c.session, c.broker
	size := store.SizeSmall
	for i := range subs {
		size += 2*(store.SizeRecord+2*len(s.clientID)+3*len(subs[i].Filter)) + 512
	}
	b, err := br.store.Begin(store.Control, size)
	if err != nil {
		return nil, 0, err
	}
	if s.client != c {
		b.Abort()
		return nil, 0, ErrGone
	}
	granted = make([]bool, len(subs))
	for i := range subs {
		granted[i] = s.subscribe(b, &subs[i])
	}
	c.await()
	return granted, b.Commit(), nil
}

func (s *Session) subscribe(b *store.Batch, want *Subscription) bool {
	br := s.broker
	_, there := s.subs[want.Filter]
	if !there && br.opt.MaxSubs > 0 && len(s.subs) >= br.opt.MaxSubs {
		return false
	}
	sub := *want
	s.subs[sub.Filter] = &sub
	br.subs.Set(sub.Filter, s, &sub)
	if s.durable {
		b.Put(kindSub, subKey(s.clientID, sub.Filter), mustJSON(&subRecord{
			Client: s.clientID, Filter: sub.Filter, QoS: sub.QoS, NoLocal: sub.NoLocal,
			RetainAsPublished: sub.RetainAsPublished, RetainHandling: sub.RetainHandling, ID: sub.ID,
		}))
	}
	s.forgetWalk(b, sub.Filter)
	// [MQTT-3.8.4-4], [MQTT-3.3.1-9] to [MQTT-3.3.1-11]
	if sub.RetainHandling == 0 || sub.RetainHandling == 1 && !there {
		s.startWalk(b, &sub)
	}
	return true
}

// Unsubscribe ends subscriptions. had tells for each whether there was one.
func (c *Client) Unsubscribe(filters []string) (had []bool, lsn store.LSN, err error) {
	s, br := c.session, c.broker
	size := store.SizeSmall
	for _, f := range filters {
		size += 2 * (store.SizeRecord + len(s.clientID) + len(f))
	}
	b, err := br.store.Begin(store.Control, size)
	if err != nil {
		return nil, 0, err
	}
	if s.client != c {
		b.Abort()
		return nil, 0, ErrGone
	}
	had = make([]bool, len(filters))
	for i, f := range filters {
		if _, had[i] = s.subs[f]; !had[i] {
			continue
		}
		delete(s.subs, f)
		br.subs.Remove(f, s)
		if s.durable {
			b.Delete(kindSub, subKey(s.clientID, f))
		}
		s.forgetWalk(b, f)
	}
	c.await()
	return had, b.Commit(), nil
}
