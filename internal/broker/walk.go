package broker

import (
	"encoding/binary"
	"errors"
	"slices"

	"emanet/internal/message"
	"emanet/internal/store"
	"emanet/internal/topic"
)

// walk queues retained messages for a subscription, a chunk at a time, outside the session's bound.
// What was retained since the subscription came to it as a live message, and is passed over.
type walk struct {
	sub    *Subscription
	cursor topic.Cursor[kept]
	stored bool      // has a record, so that it goes on after a crash
	batch  store.LSN // that of the subscription, 0 after a restart
	since  int64     // Broker.walkTime then: what a restart leaves to tell old from new
}

// startWalk has the retained messages that match a new subscription queued by and by. Its place is on
// disk where the messages will be, so that a crash in the middle loses none.
func (s *Session) startWalk(b *store.Batch, sub *Subscription) {
	br := s.broker
	peek := br.retained.Walk(sub.Filter)
	if first, more := peek.Next(nil, 1); len(first) == 0 && !more {
		return
	}
	w := &walk{
		sub: sub, cursor: br.retained.Walk(sub.Filter), stored: s.durable && sub.QoS > 0,
		batch: b.LSN(), since: br.walkTime(),
	}
	s.walks = append(s.walks, w)
	s.walking.Store(true)
	if w.stored {
		b.Put(kindWalk, subKey(s.clientID, sub.Filter), w.record(&w.cursor))
	}
}

func (w *walk) record(at *topic.Cursor[kept]) []byte {
	return mustJSON(&walkRecord{After: at.Position(), Since: w.since})
}

// isNews tells whether a value was set after the subscription was made.
func (w *walk) isNews(v *kept) bool {
	if w.batch == 0 {
		return v.lsn != 0 || v.message.ReceivedAt > w.since
	}
	return v.lsn >= w.batch // a subscription that writes nothing shares its number with the next batch
}

func (s *Session) forgetWalk(b *store.Batch, filter string) {
	for i, w := range s.walks {
		if w.sub.Filter != filter {
			continue
		}
		s.walks = append(s.walks[:i:i], s.walks[i+1:]...)
		s.walking.Store(len(s.walks) > 0)
		if w.stored {
			b.Delete(kindWalk, subKey(s.clientID, filter))
		}
		return
	}
}

// keepWalk lets a walk under way go on under the subscription that has replaced its own without asking for
// retained messages: what is owed stays owed, and as safe as it was. The writer may be reading the old one,
// so it is a new walk.
func (s *Session) keepWalk(b *store.Batch, sub *Subscription) {
	i := slices.IndexFunc(s.walks, func(w *walk) bool { return w.sub.Filter == sub.Filter })
	if i < 0 {
		return
	}
	old := s.walks[i]
	w := &walk{sub: sub, cursor: old.cursor, stored: old.stored && sub.QoS > 0, batch: old.batch, since: old.since}
	s.walks = slices.Clone(s.walks)
	s.walks[i] = w
	if old.stored && !w.stored {
		b.Delete(kindWalk, subKey(s.clientID, sub.Filter))
	}
}

// Retained is a retained message to be sent now at QoS 0.
type Retained struct {
	Message *message.Message
	Attr    uint8
	Tag     string
}

// retainedChunk is how many retained messages a step takes at most; batchAim bounds their bytes.
const retainedChunk = 128

// mailboxLow is how full a mailbox may be for retained messages to be put into it: they wait in the
// retained values rather than there, outside its bound.
const mailboxLow = 256

// Walking tells whether retained messages are still to be sent.
func (c *Client) Walking() bool { return c.session.walking.Load() }

// NextRetained goes on sending retained messages to new subscriptions: a chunk of those at QoS 0 is
// appended to buf for sending, those at QoS 1 and 2 go through the mailbox. more tells to call again once
// buf is written. It is for one goroutine, the connection's writer.
//
// room > 0: the store has no room of that size now; try again when it has (NotifyRoom).
func (c *Client) NextRetained(buf []Retained) (_ []Retained, more bool, room int, err error) {
	s := c.session
	if !s.walking.Load() {
		return buf, false, 0, nil
	}
	limit := s.retainedRoom()
	if limit == 0 {
		return buf, false, 0, nil // the client settles some, and the writer comes by again
	}
	w, next, err := c.peekWalk(limit)
	if w == nil || err != nil {
		return buf, false, 0, err
	}
	class := store.Publish
	if next.queued == 0 {
		class = store.Control
	}
	b, err := c.broker.store.Begin(class, next.size)
	switch {
	case isNoRoom(err):
		return buf, false, next.size, nil
	case errors.Is(err, store.ErrTooLarge):
		return buf, s.walking.Load(), 0, c.giveUpWalk(w, err)
	case err != nil:
		return buf, false, 0, err
	}
	if s.client != c || len(s.walks) == 0 || s.walks[0] != w || next.queued > s.retainedRoom() {
		b.Abort()
		return buf, s.client == c && s.walking.Load(), 0, nil
	}
	for i := range next.values {
		if v := &next.values[i]; c.isNewest(v) {
			buf = s.sendRetained(b, w.sub, v.Value.message, buf)
		}
	}
	s.advance(b, w, &next)
	b.Commit()
	if !s.durable {
		s.mailbox.Wake()
	}
	return buf, s.walking.Load(), 0, nil
}

// giveUpWalk ends a walk whose next message, with all the names that go with it, the store can never take.
func (c *Client) giveUpWalk(w *walk, cause error) error {
	s := c.session
	b, err := c.broker.control(store.SizeRecord + len(s.clientID) + 1 + len(w.sub.Filter))
	if err != nil {
		return err
	}
	if slices.Contains(s.walks, w) {
		s.forgetWalk(b, w.sub.Filter)
	}
	b.Commit()
	c.broker.log.Warn("retained messages for a subscription given up", "client", s.clientID, "cause", cause)
	return nil
}

// isNewest tells whether v, read before the append lock was taken, is still there: else it would come
// behind what replaced or removed it.
func (c *Client) isNewest(v *topic.Value[kept]) bool {
	now, ok := c.broker.retained.Get(v.Name)
	return ok && now.message == v.Value.message
}

// retainedRoom is how many retained messages the mailbox takes now without pushing out others.
func (s *Session) retainedRoom() int {
	st := s.mailbox.Status()
	pending := st.Ready + st.InFlight
	if pending > mailboxLow {
		return 0
	}
	if max := s.broker.opt.MaxBytes; !s.durable && max > 0 && st.Bytes > max/4 {
		return 0 // large ones: a mailbox in memory is bounded by bytes as well
	}
	if bound := s.broker.opt.MaxQueued; bound > 0 {
		return int(min(retainedChunk, bound-min(bound, pending)))
	}
	return retainedChunk
}

// chunk is the next retained messages of a walk.
type chunk struct {
	values []topic.Value[kept]
	queued int // of them for the mailbox
	after  topic.Cursor[kept]
	record []byte // of the walk behind the chunk
	end    bool
	size   int // of the batch they need
}

// peekWalk reads up to limit messages of the first walk without moving it. A chunk may be empty: names
// looked at count as well.
func (c *Client) peekWalk(limit int) (*walk, chunk, error) {
	s := c.session
	b, err := c.broker.control(0)
	if err != nil {
		return nil, chunk{}, err
	}
	if s.client != c || len(s.walks) == 0 {
		b.Abort()
		return nil, chunk{}, nil
	}
	w := s.walks[0]
	next := chunk{after: w.cursor}
	b.Abort()
	bytes, now, rights := 0, c.broker.Now(), s.rightsNow()
	for range retainedChunk {
		if len(next.values) == limit || bytes >= batchAim || next.end {
			break
		}
		var more bool
		n := len(next.values)
		next.values, more = next.after.Next(next.values, 1)
		next.end = !more
		if len(next.values) == n {
			continue
		}
		v := &next.values[n].Value
		queued := min(v.message.QoS, w.sub.QoS) > 0
		// At QoS 0 news may have come while the session was away, and then nobody kept it.
		if v.message.Expired(now) || w.isNews(v) && (queued || !s.durable) {
			next.values = next.values[:n]
			continue
		}
		if !rights.MayRead(next.values[n].Name) {
			c.broker.counters.Unreadable.Add(1)
			next.values = next.values[:n]
			continue
		}
		bytes += v.message.EncodedMax()
		if queued {
			next.queued++
		}
		if queued && s.durable {
			next.size += store.SizeMessage + v.message.EncodedMax() + store.SizeEntry + store.SizeSettle + tagMax
		}
	}
	if w.stored {
		next.record = w.record(&next.after)
		next.size += store.SizeRecord + len(s.clientID) + 1 + len(w.sub.Filter) + len(next.record)
	}
	return w, next, nil
}

// tagMax is the longest Tag of one subscription.
const tagMax = binary.MaxVarintLen32

func (s *Subscription) tag() string {
	if s.ID == 0 {
		return ""
	}
	return string(binary.AppendUvarint(nil, uint64(s.ID)))
}

// sendRetained puts m into the mailbox, or into buf when its QoS is 0. The retain flag is set: the
// message is sent for being retained ([MQTT311-3.3.1-8]).
func (s *Session) sendRetained(b *store.Batch, sub *Subscription, m *message.Message, buf []Retained) []Retained {
	attr := min(m.QoS, sub.QoS) | AttrRetain
	if attr&AttrQoS == 0 {
		return append(buf, Retained{m, attr, sub.tag()})
	}
	e := store.Entry{Message: m, Attr: attr, Tag: sub.tag()}
	if s.durable {
		own := *m // the retained value and the entry live on their own
		b.Message(&own, &own.ID)
		e.Message, e.MessageID = &own, own.ID
	}
	s.mailbox.Append(b, e, !s.durable)
	s.broker.counters.Queued.Add(1)
	return buf
}

// advance moves the walk past the chunk, on disk as well.
func (s *Session) advance(b *store.Batch, w *walk, next *chunk) {
	if next.end {
		s.forgetWalk(b, w.sub.Filter)
		return
	}
	w.cursor = next.after
	if w.stored {
		b.Put(kindWalk, subKey(s.clientID, w.sub.Filter), next.record)
	}
}
