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
	// counts that. attr and tag are as in a mailbox entry. True: what waits is more than half of what may.
	Live(m *message.Message, attr uint8, tag string) bool
	// Pace waits a moment for the connection to drain what Live said is much, as long as it does drain. It
	// alone may block, for a tenth of a second at most.
	Pace()
	// TakenOver tells that another connection has the session now: this one is to end
	// ([MQTT-3.1.4-3]). Nothing it asks of its Client takes effect any more.
	TakenOver()
	// Wake tells that Take has something.
	Wake()
	// Flushed tells that everything up to lsn is on disk, after a call of the Client returned an LSN.
	Flushed(lsn store.LSN)
	// FlushedAlone is Flushed when nobody else waits: the connection may write its answer here and now, if that
	// does not block.
	FlushedAlone(lsn store.LSN)
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
	impatient bool
	// routeBytes is about the memory of routes.
	routeBytes int
	burst      burst
	resumed    bool // what was sent before a restart is read from disk; the reader's
}

// Connect is what a connection wants.
type Connect struct {
	ClientID   string
	User       string // "" for a client without
	CleanStart bool
	// Expiry is how many seconds the session outlives the connection: 0 ends it with it, Never keeps it.
	Expiry uint32
	// Window is how many QoS 1 and 2 messages may be in flight to the client; at least 1.
	Window   int
	Will     *Will
	Receiver Receiver
	// Impatient has the Client's changes answer store.ErrBusy where they would wait for a flush: for a reader that
	// owes wake-ups, or may have to end meanwhile. NotifyRoom tells when to come again.
	Impatient bool
}

// Attached is the answer to a connection.
type Attached struct {
	Client  *Client
	Present bool // the session was there ([MQTT-3.2.2-2])
	// LSN must be flushed before CONNACK is sent; 0: at once.
	LSN store.LSN
}

// Attach gives the connection its session: found, or made, or made anew. An older connection of the same
// client id loses it in the same step and is told ([MQTT-3.1.4-3]). A will that falls due by this is
// published in the same batch.
func (b *Broker) Attach(want Connect) (Attached, error) {
	a := attaching{want: &want}
	if want.Will != nil {
		a.will = want.Will.record(want.User) // before the lock: its size is known only when it is encoded
	}
	for {
		batch, err := b.control(a.size())
		if errors.Is(err, store.ErrTooLarge) && a.unsent > batchAim {
			a.unsent, a.most = batchAim, batchAim
			continue
		}
		if err != nil {
			return Attached{}, err
		}
		old := b.sessions.byID[want.ClientID]
		if old != nil {
			if err := old.claim(&want); err != nil {
				batch.Abort()
				return Attached{}, err
			}
		}
		if b.refusesSession(old, &want) {
			batch.Abort()
			return Attached{}, ErrSessions
		}
		if a.lacks(old) {
			batch.Abort()
			continue
		}
		if w := old.dueBy(&want); w != nil {
			batch.Abort()
			if err := a.publishFirst(old, w); err != nil {
				return Attached{}, err
			}
			if a.client == nil {
				continue // somebody else has come, or the will has gone out: look again
			}
		} else {
			a.attach(b, batch, old)
			a.lsn = batch.Commit()
		}
		return a.finish(), nil
	}
}

// attaching is an Attach under way.
type attaching struct {
	want *Connect
	will []byte // the new will's record
	// unsent bytes are for what the old session gives back to its groups when it ends, most if not 0 at most.
	unsent, most int

	client  *Client
	loser   *Client
	present bool
	lsn     store.LSN
	ended   store.LSN // the last end of a session, which "no session present" rests on
}

// size bounds the batch, an old session's end included.
func (a *attaching) size() int { return recordSize(a.want.ClientID) + len(a.will) + a.unsent }

// lacks tells whether the old session, which ends, has more to give back to its groups than there is room for, and asks
// for that.
func (a *attaching) lacks(old *Session) bool {
	if old == nil || !a.want.CleanStart && !old.endsWithConnection() {
		return false
	}
	need := old.unsentSize()
	if a.most > 0 {
		need = min(need, a.most)
	}
	if need <= a.unsent {
		return false
	}
	a.unsent = need
	return true
}

// dueBy is the will that a connection which takes this session's place sends off: when the old session
// ends by it, or when it cuts off a connection whose will has no delay. A will that still waits is
// forgotten when the session goes on ([MQTT-3.1.3-9]).
func (s *Session) dueBy(want *Connect) *Will {
	if s == nil || s.will == nil {
		return nil
	}
	due := s.will.Delay == 0
	if s.client == nil { // it may be due and not have gone out yet: then it is too late to forget it
		due = s.broker.Now() >= s.willDueAt
	}
	if due || want.CleanStart || s.endsWithConnection() {
		return s.will
	}
	return nil
}

// endsWithConnection: a session without expiry is over when its connection is, which the new one ends.
func (s *Session) endsWithConnection() bool {
	return s.ended || !s.durable || s.client != nil && s.expiry == 0
}

// publishFirst attaches and publishes the old session's will in one batch. Without a.client nothing has
// happened, because things have changed.
func (a *attaching) publishFirst(old *Session, w *Will) error {
	br := old.broker
	lsn, err := old.publishWill(w, store.Control, a.size(), func(batch *store.Batch) bool {
		if br.sessions.byID[a.want.ClientID] != old || old.dueBy(a.want) != w || a.lacks(old) {
			return false
		}
		old.forgetWill(batch)
		a.attach(br, batch, old)
		return true
	})
	a.lsn = lsn
	return err
}

// attach makes the changes in the batch.
func (a *attaching) attach(b *Broker, batch *store.Batch, old *Session) {
	want, s := a.want, old
	if old != nil {
		if a.loser = old.client; a.loser != nil {
			b.counters.Takeovers.Add(1)
			a.loser.displaced.Store(true) // before its deliveries are gone, so that it never takes them for settled
			old.mailbox.Detach(&a.loser.consumer)
			old.sent = old.mailbox.Sent()
		}
		if want.CleanStart || old.endsWithConnection() {
			old.drop(batch, a.unsent)
			s = nil
		}
	}
	a.present, a.ended = s != nil, b.lastDropped
	if s == nil {
		s = b.create(batch, want)
	}
	c := &Client{broker: b, session: s, receiver: want.Receiver, impatient: want.Impatient}
	c.consumer = mailbox.Consumer{Credit: want.Window, UnsentMax: b.opt.UnsentMax, Wake: want.Receiver.Wake}
	c.waiter.F, c.waiter.Alone = want.Receiver.Flushed, want.Receiver.FlushedAlone
	a.client = c
	s.resume(batch, a)
	c.await()
}

// finish tells those concerned; the append lock is free.
func (a *attaching) finish() Attached {
	if a.loser != nil {
		a.loser.receiver.TakenOver()
	}
	a.client.session.mailbox.Wake()
	if !a.present && a.lsn == 0 && a.ended > a.client.broker.Flushed() {
		a.lsn = a.ended
		a.client.AwaitTail()
	}
	return Attached{Client: a.client, Present: a.present, LSN: a.lsn}
}

func (b *Broker) create(batch *store.Batch, want *Connect) *Session {
	durable := want.Expiry > 0
	s := b.newSession(want.ClientID, durable)
	var id uint64
	if durable {
		id = batch.MailboxCreate()
	}
	s.mailbox = mailbox.New(b.store, s, id, b.policy(durable))
	b.sessions.add(s)
	return s
}

// resume makes a.client the session's connection.
func (s *Session) resume(batch *store.Batch, a *attaching) {
	s.client, s.expiry = a.client, a.want.Expiry
	s.own(a.want.User)
	// If this connection ends by a crash, so many entries from the front count as sent: see sessionRecord.
	s.sent.First, s.sent.Before = max(s.sent.First, a.want.Window), 0
	s.broker.due.clear(&s.expiryAt)
	s.broker.due.clear(&s.willAt)
	switch {
	case a.want.Will != nil: // on disk before CONNACK, so that it also fires after a crash
		batch.Put(kindWill, s.clientID, a.will)
	case s.will != nil:
		batch.Delete(kindWill, s.clientID)
	}
	s.will = a.want.Will
	s.expiresAt, s.willDueAt = 0, 0
	if s.durable {
		s.put(batch)
	}
	s.mailbox.Attach(batch, &a.client.consumer)
	s.live.Store(a.client)
	for _, mb := range s.shares {
		mb.group.wake()
	}
}
