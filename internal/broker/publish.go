package broker

import (
	"errors"
	"fmt"

	"emanet/internal/mailbox"
	"emanet/internal/message"
	"emanet/internal/store"
)

// Outcome is what became of a publish.
type Outcome struct {
	// LSN must be flushed before the publish is acknowledged; 0: at once.
	LSN store.LSN
	// Matched is how many sessions and shared subscriptions it was for.
	Matched int
	// Room is what the batch needs, with store.ErrFull and store.ErrBusy.
	Room int
	// Duplicate: the QoS 2 message was here before; LSN is its own.
	Duplicate bool
	// Refused: a bound turned it away, whole; the publisher may be told to try later.
	Refused bool
	// Denied: the client may not write the topic.
	Denied bool
}

// Publish takes in a message from c's client; m.Topic is set here. packetID is that of a QoS 2 publish,
// else 0.
//
// store.ErrFull and store.ErrBusy mean that nothing has happened and the publish must wait for room
// (NotifyRoom); ErrGone that the session has another connection.
func (c *Client) Publish(name []byte, m *message.Message, packetID uint16) (Outcome, error) {
	r := c.route(name)
	m.Topic = r.topic
	s := c.session
	remember := m.QoS == 2 && s.durable
	if c.displaced.Load() { // sooner than the lock would tell: nothing of a loser takes effect
		return Outcome{}, ErrGone
	}
	if r.denied {
		return c.deny(m.QoS, packetID)
	}
	if !r.durableFor(m.QoS) && !m.Retain && !remember {
		return c.pass(m, r, packetID), nil
	}
	b, err := c.begin(m, r)
	if err != nil {
		return Outcome{Room: r.batchSize(m)}, err
	}
	if s.client != c {
		b.Abort()
		return Outcome{}, ErrGone
	}
	if r.denied { // since a moment ago
		b.Abort()
		return c.deny(m.QoS, packetID)
	}
	if m.QoS == 2 && c.duplicate(packetID) {
		lsn := s.received[packetID] // may not be on disk yet
		b.Abort()
		return Outcome{LSN: lsn, Duplicate: true}, nil
	}
	if c.broker.refuses(b, m, r) {
		b.Abort()
		c.broker.counters.Refused.Add(1)
		return Outcome{Refused: true}, nil
	}
	if m.Retain {
		c.broker.stampRetained(m)
	}
	c.broker.append(b, m, r)
	if remember {
		s.receive(packetID, b.LSN())
		b.Received(s.mailbox.ID(), packetID)
	}
	waits := m.QoS > 0
	if waits {
		c.await()
	}
	cleared := c.broker.lastUnretained
	lsn := b.Commit()
	if lsn == 0 && m.Retain && waits {
		// There was nothing to clear. Perhaps somebody has just done that, and it is not on disk yet: this answer
		// rests on it.
		lsn = cleared
		c.AwaitTail()
	}
	if m.QoS == 2 && !remember {
		s.receive(packetID, lsn)
	}
	out := c.deliver(m, r)
	if waits {
		out.LSN = lsn
	}
	return out, nil
}

// pass hands over a message of which nothing goes to disk.
func (c *Client) pass(m *message.Message, r *route, packetID uint16) Outcome {
	if m.QoS == 2 && c.duplicate(packetID) {
		return Outcome{LSN: c.session.received[packetID], Duplicate: true}
	}
	if c.broker.refuses(nil, m, r) {
		c.broker.counters.Refused.Add(1)
		return Outcome{Refused: true}
	}
	out := c.deliver(m, r)
	if m.QoS == 2 {
		c.session.receive(packetID, 0)
	}
	return out
}

// begin takes the append lock for a publish. Topology may change before the lock is ours: then the route
// is matched again, and when it has grown, so is the room asked for.
func (c *Client) begin(m *message.Message, r *route) (*store.Batch, error) {
	for {
		size := r.batchSize(m)
		b, err := c.broker.store.Begin(store.Publish, size)
		if err != nil {
			return nil, err
		}
		if r.version == c.broker.version() {
			return b, nil
		}
		c.broker.match(r, c.session)
		c.weigh(r)
		if r.batchSize(m) <= size {
			return b, nil
		}
		b.Abort()
	}
}

func (c *Client) duplicate(packetID uint16) bool {
	_, ok := c.session.received[packetID]
	return ok
}

func (s *Session) receive(packetID uint16, lsn store.LSN) {
	if s.received == nil {
		s.received = make(map[uint16]store.LSN)
	}
	s.received[packetID] = lsn
}

// durableFor tells whether a message of this QoS goes into a mailbox on disk.
func (r *route) durableFor(qos uint8) bool { return qos > 0 && r.durable }

// batchSize bounds the batch of a publish. The body stands in it once: as a message, which the retained value
// then refers to, or as a retained value alone.
func (r *route) batchSize(m *message.Message) int {
	n := store.SizeMessage + m.EncodedMax() + 2*store.SizeSmall
	if m.QoS > 0 {
		n += r.entriesSize
	}
	return n
}

// refuses asks every bound before anything is changed: a publish is all or nothing.
func (b *Broker) refuses(batch *store.Batch, m *message.Message, r *route) bool {
	if b.refusesRetained(m) {
		return true
	}
	if !b.opt.RejectNew || m.QoS == 0 {
		return false
	}
	for i := range r.targets {
		t := &r.targets[i]
		if t.qos > 0 && t.session.mailbox.Admit(batch, m) != mailbox.Admitted {
			return true
		}
	}
	for i := range r.groups {
		if g := &r.groups[i]; g.qos > 0 && g.group.mailbox.Admit(batch, m) != mailbox.Admitted {
			return true
		}
	}
	return false
}

// append puts the message into every durable mailbox and into the retained values, in the batch.
func (b *Broker) append(batch *store.Batch, m *message.Message, r *route) {
	var id uint64
	if r.durableFor(m.QoS) {
		batch.Message(m, &id)
		m.ID = id
		n := uint64(0)
		for i := range r.targets {
			t := &r.targets[i]
			attr := t.attr(m.QoS, m.Retain)
			if attr&AttrQoS == 0 || !t.session.durable {
				continue
			}
			t.session.mailbox.Append(batch, store.Entry{Message: m, MessageID: id, Attr: attr, Tag: t.tag}, false)
			n++
		}
		for i := range r.groups {
			if g := &r.groups[i]; g.qos > 0 && g.durable {
				g.group.mailbox.Append(batch, store.Entry{Message: m, MessageID: id, Attr: groupAttr(m)}, false)
				n++
			}
		}
		b.counters.Queued.Add(n)
	}
	if m.Retain {
		b.retain(batch, m, id != 0)
	}
}

// publishOwn publishes a message of the broker's own (a will). also makes changes that belong into the
// same batch, of at most alsoSize bytes; if it says false nothing happens, and done is false. They stand
// also when a bound refuses the message.
func (b *Broker) publishOwn(m *message.Message, class store.Class, alsoSize int, also func(*store.Batch) bool) (out Outcome, done bool, err error) {
	r := &route{topic: m.Topic}
	for {
		b.match(r, nil)
		size := r.batchSize(m) + alsoSize
		batch, err := b.store.Begin(class, size)
		if class == store.Control && errors.Is(err, store.ErrBusy) {
			b.awaitRoom(size)
			continue
		}
		if err != nil {
			return out, false, fmt.Errorf("publish to %.100q: %w", m.Topic, err)
		}
		if r.version != b.version() {
			batch.Abort()
			continue
		}
		if !also(batch) {
			batch.Abort()
			return out, false, nil
		}
		if b.refuses(batch, m, r) {
			b.counters.Refused.Add(1)
			return Outcome{LSN: batch.Commit(), Refused: true}, true, nil
		}
		b.append(batch, m, r)
		lsn := batch.Commit()
		var u burst
		out := b.deliver(m, r, &u)
		out.LSN = lsn
		u.wake(&b.counters)
		return out, true, nil
	}
}
