package broker

import (
	"errors"

	"emanet/internal/store"
	"emanet/internal/topic"
)

// batchAim is how many bytes a batch of many parts has before the next part goes into another: so the
// append lock is never held for long, and the batch fits into the smallest journal unless a single part
// does not.
const batchAim = 16 << 10

// Subscribe sets subscriptions; each replaces one of the same filter ([MQTT-3.8.4-3]). Filters are checked.
// granted tells for each whether it was taken; false: the session has as many as it may, or this one is too
// large for the store. lsn is what SUBACK waits for. Retained messages follow by NextRetained.
func (c *Client) Subscribe(subs []Subscription) (granted []bool, lsn store.LSN, err error) {
	granted = make([]bool, len(subs))
	records := make([][]byte, len(subs))
	sizes := make([]int, len(subs))
	for i := range subs {
		if c.session.durable { // before the lock: the size is known only when it is encoded
			records[i] = subs[i].record(c.session.clientID)
		}
		// The subscription, the walk that ends and the one that begins.
		sizes[i] = joinSize(subs[i].Filter) + len(records[i]) + 3*(store.SizeRecord+len(c.session.clientID)+1+len(subs[i].Filter)) + 128
	}
	for from := 0; from < len(subs); {
		to, size := part(sizes, from)
		part, err := c.subscribe(subs[from:to], records[from:to], granted[from:to], size)
		if isNoRoom(err) && from > 0 { // the caller would begin with what is done already
			c.broker.awaitRoom(size)
			continue
		}
		if err != nil && !errors.Is(err, store.ErrTooLarge) {
			return nil, 0, err
		}
		lsn = max(lsn, part)
		from = to
	}
	return granted, lsn, nil
}

// part is the next parts for one batch, from..to, and their size: at least one.
func part(sizes []int, from int) (to, size int) {
	to, size = from+1, sizes[from]
	for to < len(sizes) && size+sizes[to] <= batchAim {
		size += sizes[to]
		to++
	}
	return to, size
}

func (c *Client) subscribe(subs []Subscription, records [][]byte, granted []bool, size int) (store.LSN, error) {
	s := c.session
	b, err := c.control(size)
	if err != nil {
		return 0, err
	}
	if s.client != c {
		b.Abort()
		return 0, ErrGone
	}
	for i := range subs {
		granted[i] = s.subscribe(b, &subs[i], records[i])
	}
	c.await()
	return b.Commit(), nil
}

func (s *Session) subscribe(b *store.Batch, want *Subscription, record []byte) bool {
	br := s.broker
	_, there := s.subs[want.Filter]
	if most := br.live.Load().MaxSubs; !there && most > 0 && len(s.subs) >= most {
		return false
	}
	sub := *want
	s.subs[sub.Filter] = &sub
	if s.durable {
		b.Put(kindSub, subKey(s.clientID, sub.Filter), record)
	}
	if topic.IsShared(sub.Filter) { // which gets no retained messages
		s.join(b, &sub)
		return true
	}
	br.subs.Set(sub.Filter, s, &sub)
	// [MQTT-3.8.4-4], [MQTT-3.3.1-9], [MQTT-3.3.1-10], [MQTT-3.3.1-11]
	if sub.RetainHandling == 0 || sub.RetainHandling == 1 && !there {
		s.forgetWalk(b, sub.Filter)
		s.startWalk(b, &sub)
	} else {
		s.keepWalk(b, &sub)
	}
	return true
}

// Unsubscribe ends subscriptions. had tells for each whether there was one. UNSUBACK waits for lsn.
func (c *Client) Unsubscribe(filters []string) (had []bool, lsn store.LSN, err error) {
	had = make([]bool, len(filters))
	sizes := make([]int, len(filters))
	for i, f := range filters {
		sizes[i] = 2 * (store.SizeRecord + len(c.session.clientID) + 1 + len(f))
	}
	for from := 0; from < len(filters); {
		to, size := part(sizes, from)
		part, err := c.unsubscribe(filters[from:to], had[from:to], size)
		if isNoRoom(err) && from > 0 {
			c.broker.awaitRoom(size)
			continue
		}
		if err != nil && !errors.Is(err, store.ErrTooLarge) { // so large a subscription was never granted
			return nil, 0, err
		}
		lsn = max(lsn, part)
		from = to
	}
	return had, lsn, nil
}

func (c *Client) unsubscribe(filters []string, had []bool, size int) (store.LSN, error) {
	s := c.session
	b, err := c.control(size)
	if err != nil {
		return 0, err
	}
	if s.client != c {
		b.Abort()
		return 0, ErrGone
	}
	for i, f := range filters {
		if _, had[i] = s.subs[f]; !had[i] {
			continue
		}
		delete(s.subs, f)
		if mb := s.shares[f]; mb != nil {
			s.leaveGroup(mb)
		} else {
			c.broker.subs.Remove(f, s)
		}
		if s.durable {
			b.Delete(kindSub, subKey(s.clientID, f))
		}
		s.forgetWalk(b, f)
	}
	c.await()
	return b.Commit(), nil
}
