package broker

import (
	"encoding/binary"
	"errors"

	"emanet/internal/message"
	"emanet/internal/store"
	"emanet/internal/topic"
)

// startWalk has the retained messages that match a new subscription queued by and by. Its place is on
// disk where the messages will be, so that a crash in the middle loses none.
func (s *Session) startWalk(b *store.Batch, sub *Subscription) {
	br := s.broker
	peek := br.retained.Walk(sub.Filter)
	if first, more := peek.Next(nil, 1); len(first) == 0 && !more {
		return
	}
	w := &walk{sub: sub, cursor: br.retained.Walk(sub.Filter), stored: s.durable && sub.QoS > 0}
	s.walks = append(s.walks, w)
	s.walking.Store(true)
	if w.stored {
		b.Put(kindWalk, subKey(s.clientID, sub.Filter), mustJSON(&walkRecord{}))
	}
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

// Retained is a retained message to be sent now at QoS 0.
type Retained struct {
	Message *message.Message
	Attr    uint8
	Tag     string
}

// A step takes so many retained messages, and no more once they have so many bytes, so that one batch
// stays small whatever their size.
const (
	retainedChunk      = 128
	retainedChunkBytes = 256 << 10
)

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
	if st := s.mailbox.Status(); st.Ready+st.InFlight > mailboxLow {
		return buf, false, 0, nil // the client settles some, and the writer comes by again
	}
	w, chunk, size := c.peekWalk()
	if w == nil {
		return buf, false, 0, nil
	}
	b, err := c.broker.store.Begin(store.Publish, size)
	if err != nil {
		if errors.Is(err, store.ErrFull) || errors.Is(err, store.ErrBusy) {
			return buf, false, size, nil
		}
		return buf, false, 0, err
	}
	if s.client != c || len(s.walks) == 0 || s.walks[0] != w {
		b.Abort()
		return buf, s.walking.Load(), 0, nil
	}
	for _, m := range chunk.messages {
		buf = s.sendRetained(b, w.sub, m, buf)
	}
	s.advance(b, w, &chunk)
	b.Commit()
	if !s.durable {
		s.mailbox.Wake()
	}
	return buf, s.walking.Load(), 0, nil
}

// chunk is the next retained messages of a walk.
type chunk struct {
	messages []*message.Message
	after    topic.Cursor[*message.Message]
	end      bool
}

// peekWalk reads the next messages of the first walk without moving it, and the size of the batch they need.
func (c *Client) peekWalk() (*walk, chunk, int) {
	s := c.session
	b, err := c.broker.store.Begin(store.Control, 0)
	if err != nil {
		return nil, chunk{}, 0
	}
	var w *walk
	var next chunk
	if s.client == c && len(s.walks) > 0 {
		w = s.walks[0]
		next.after = w.cursor
	}
	b.Abort()
	if w == nil {
		return nil, next, 0
	}
	size := 2*(store.SizeRecord+len(s.clientID)+len(w.sub.Filter)) + 2*topic.MaxBytes
	bytes := 0
	for len(next.messages) < retainedChunk && bytes < retainedChunkBytes && !next.end {
		var one [1]topic.Value[*message.Message]
		found, more := next.after.Next(one[:0], 1)
		next.end = !more
		for _, v := range found {
			if !v.Value.Expired(c.broker.Now()) {
				next.messages = append(next.messages, v.Value)
				bytes += len(v.Value.Payload)
				size += store.SizeMessage + v.Value.EncodedMax() + store.SizeEntry + 8
			}
		}
	}
	return w, next, size
}

// sendRetained puts m into the mailbox, or into buf when its QoS is 0. The retain flag is set: the
// message is sent for being retained ([MQTT-3.3.1-8]).
func (s *Session) sendRetained(b *store.Batch, sub *Subscription, m *message.Message, buf []Retained) []Retained {
	attr := min(m.QoS, sub.QoS) | AttrRetain
	var tag string
	if sub.ID != 0 {
		tag = string(binary.AppendUvarint(nil, uint64(sub.ID)))
	}
	if attr&AttrQoS == 0 {
		return append(buf, Retained{m, attr, tag})
	}
	e := store.Entry{Message: m, Attr: attr, Tag: tag}
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
		b.Put(kindWalk, subKey(s.clientID, w.sub.Filter), mustJSON(&walkRecord{After: w.cursor.Position()}))
	}
}
