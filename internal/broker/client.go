package broker

import (
	"errors"
	"sync/atomic"

	"emanet/internal/mailbox"
	"emanet/internal/message"
	"emanet/internal/store"
)

// Receiver is a connection as the broker sees it. Its methods are called from any goroutine and must not
// block.
type Receiver interface {
	// Live hands over a message that nobody keeps (QoS 0). A connection that does not drain drops it and
	// counts that. attr and tag are as in a mailbox entry.
	Live(m *message.Message, attr uint8, tag string)
	// TakenOver tells that another connection has the session now: this one is to end
	// ([MQTT-3.1.4-3]). Nothing it asks of its Client takes effect any more.
	TakenOver()
	// Wake tells that Take has something.
	Wake()
	// Flushed tells that everything up to lsn is on disk, after a call of the Client returned an LSN.
	Flushed(lsn store.LSN)
}

// Client is a connection's hold on its session, from Attach to Detach. Publish, and the handling of
// received packet ids, are for one goroutine (the reader); the rest is safe for concurrent use.
type Client struct {
	displaced atomic.Bool // another connection has the session
	broker    *Broker
	session   *Session
	receiver  Receiver
	consumer  mailbox.Consumer
	waiter    store.Waiter
	routes    map[string]*route
	touched   []*Session // got something in this burst, to be woken by Flush
}

// Connect is what a connection wants.
type Connect struct {
	ClientID   string
	CleanStart bool
	// Expiry is how many seconds the session outlives the connection: 0 ends it with it, Never keeps it.
	Expiry uint32
	// Window is how many QoS 1 and 2 messages may be in flight to the client; at least 1.
	Window   int
	Will     *Will
	Receiver Receiver
}

// Attached is the answer to a connection.
type Attached struct {
	Client  *Client
	Present bool // the session was there ([MQTT-3.2.2-2])
	// LSN must be flushed before CONNACK is sent; 0: at once.
	LSN store.LSN
}

// Attach gives the connection its session: found, or made, or made anew. An older connection of the same
// client id loses it in the same step and is told ([MQTT-3.1.4-3]). Wills that fall due by this are
// published first.
func (b *Broker) Attach(want Connect) (Attached, error) {
	for {
		batch, err := b.store.Begin(store.Control, want.size())
		if err != nil {
			return Attached{}, err
		}
		old := b.sessions[want.ClientID]
		if old != nil && old.will != nil && old.willFallsDue(&want) {
			batch.Abort()
			if err := old.publishWill(old.will); err != nil {
				return Attached{}, err
			}
			continue
		}
		return b.attach(batch, &want, old), nil
	}
}

// willFallsDue tells whether a connection that takes this session's place sends its will off: at once when
// the old session ends by it or the will has no delay; a will that still waits is forgotten when the
// session goes on ([MQTT-3.1.3-9]).
func (s *Session) willFallsDue(want *Connect) bool {
	if want.CleanStart || s.endsWithConnection() {
		return true
	}
	return s.client != nil && s.will.Delay == 0
}

// endsWithConnection: a session without expiry is over when its connection is, which the new one ends.
func (s *Session) endsWithConnection() bool {
	return s.ended || !s.durable || s.client != nil && s.expiry == 0
}

func (b *Broker) attach(batch *store.Batch, want *Connect, old *Session) Attached {
	var loser *Client
	s := old
	if old != nil {
		loser = old.client
		if loser != nil {
			b.counters.Takeovers.Add(1)
			loser.displaced.Store(true) // before its deliveries are gone, so that it never takes them for settled
			old.mailbox.Detach(&loser.consumer)
			old.sent = old.mailbox.Sent()
		}
		if want.CleanStart || old.endsWithConnection() {
			old.drop(batch)
			s = nil
		}
	}
	present := s != nil
	if s == nil {
		s = b.create(batch, want)
	}
	c := &Client{broker: b, session: s, receiver: want.Receiver}
	c.consumer = mailbox.Consumer{Credit: want.Window, UnsentMax: b.opt.UnsentMax, Wake: want.Receiver.Wake}
	c.waiter.F = want.Receiver.Flushed
	s.resume(batch, c, want)
	c.await()
	lsn := batch.Commit()
	if loser != nil {
		loser.receiver.TakenOver()
	}
	s.mailbox.Wake()
	return Attached{Client: c, Present: present, LSN: lsn}
}

func (b *Broker) create(batch *store.Batch, want *Connect) *Session {
	durable := want.Expiry > 0
	s := b.newSession(want.ClientID, durable)
	var id uint64
	if durable {
		id = batch.MailboxCreate()
	}
	s.mailbox = mailbox.New(b.store, s, id, b.policy(durable))
	b.sessions[want.ClientID] = s
	b.count.Store(int64(len(b.sessions)))
	return s
}

// resume makes c the session's connection.
func (s *Session) resume(batch *store.Batch, c *Client, want *Connect) {
	s.client, s.expiry = c, want.Expiry
	// If this connection ends by a crash, so many entries from the front count as sent: see sessionRecord.
	s.sent.First, s.sent.Before = max(s.sent.First, want.Window), 0
	s.broker.due.clear(&s.expiryAt)
	s.broker.due.clear(&s.willAt)
	switch {
	case want.Will != nil: // on disk before CONNACK, so that it also fires after a crash
		batch.Put(kindWill, s.clientID, want.Will.record(s.clientID, 0))
	case s.will != nil:
		batch.Delete(kindWill, s.clientID)
	}
	s.will = want.Will
	if s.durable {
		s.put(batch, 0)
	}
	s.mailbox.Attach(batch, &c.consumer)
	s.live.Store(c)
}

// size bounds the batch of an attach, an old session's end included.
func (want *Connect) size() int {
	n := 2 * recordSize(want.ClientID)
	if w := want.Will; w != nil {
		n += 2*w.Message.EncodedMax() + 2*len(w.Message.Topic) + 512
	}
	return n
}

// ErrTooManySubscriptions: the session has as many as it may.
var ErrTooManySubscriptions = errors.New("too many subscriptions")
