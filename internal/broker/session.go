package broker

import (
	"sync/atomic"

	"emanet/internal/mailbox"
	"emanet/internal/message"
	"emanet/internal/store"
)

// Session is what the broker keeps for a client id. Its fields are under the append lock but where said.
type Session struct {
	broker   *Broker
	clientID string
	place    int  // in the registry's list
	durable  bool // is on disk; given at creation and never changed
	mailbox  *mailbox.Mailbox
	expiry   uint32  // seconds the session outlives its connection
	client   *Client // attached connection
	subs     map[string]*Subscription
	shares   map[string]*member // of those that are shared, by filter; nil: none ever
	walks    []*walk
	walking  atomic.Bool // len(walks) > 0; read without the lock
	will     *Will
	ended    bool // over as soon as its will is out
	sent     mailbox.Sent

	// received are inbound QoS 2 packet ids and the LSN that an answer about them waits for. A session that
	// is not durable has one connection in its life, whose reader alone uses them.
	received       map[uint16]store.LSN
	lastUnreceived store.LSN
	settledLSN     atomic.Uint64 // of the newest settlement

	// While it is away: when it ends (0: it stays), and when its will is due, if it has one; Unix ms.
	expiresAt, willDueAt int64

	expiryAt deadline
	willAt   deadline
	sweepAt  deadline

	rights atomic.Pointer[heldRights] // of its user; never nil
	// live takes QoS 0 deliveries; nil while detached. Read by every publisher, without a lock.
	live atomic.Pointer[Client]
	// dirty: some publisher will wake it before long.
	dirty atomic.Bool
}

// Subscription is one filter of a session.
type Subscription struct {
	Filter            string
	QoS               uint8
	NoLocal           bool
	RetainAsPublished bool
	// RetainHandling: 0 sends retained messages, 1 only if the subscription is new, 2 never.
	RetainHandling uint8
	// ID is the subscription identifier, 0 for none.
	ID uint32
}

// Will is published when the connection ends without goodbye.
type Will struct {
	Message *message.Message // ReceivedAt and ExpiresAt are set when it is published
	Delay   uint32           // seconds
	Expiry  uint32           // message expiry in seconds from its publication; 0 for none
}

// Bits of an entry's Attr.
const (
	AttrQoS    = 0x03
	AttrRetain = 0x04 // the retain flag of the delivery
)

func (b *Broker) newSession(clientID string, durable bool) *Session {
	s := &Session{broker: b, clientID: clientID, durable: durable, subs: make(map[string]*Subscription)}
	s.rights.Store(&heldRights{})
	s.expiryAt.run = s.expire
	s.willAt.run = s.willDue
	s.sweepAt.run = s.sweep
	return s
}

func (b *Broker) policy(durable bool) mailbox.Policy {
	p := mailbox.Policy{Durable: durable, MaxEntries: b.opt.MaxQueued, Identifiers: b.opt.identifiers}
	if !durable { // what is durable goes to disk
		p.MaxBytes = b.opt.MaxBytes
	}
	if b.opt.RejectNew {
		p.Overflow = mailbox.RejectNew
	}
	return p
}

// put writes the session's record.
func (s *Session) put(b *store.Batch) {
	r := sessionRecord{
		Mailbox: s.mailbox.ID(), Expiry: s.expiry, Attached: s.client != nil,
		Sent: s.sent.High, Window: s.sent.First, Before: s.sent.Before, ExpiresAt: s.expiresAt, WillAt: s.willDueAt, User: s.user(),
	}
	b.Put(kindSession, s.clientID, mustJSON(&r))
}

// recordSize bounds what a session's own records take in a batch, all of an older session's deletion
// included; a will comes on top.
func recordSize(clientID string) int { return 8*(store.SizeRecord+len(clientID)) + 512 + sizeUser }

// drop removes the session from memory and disk. Its will, if it is to be sent, is the caller's business
// before. unsent bytes of the batch are for giveBackUnsent.
func (s *Session) drop(b *store.Batch, unsent int) {
	br := s.broker
	s.giveBackUnsent(b, unsent)
	for filter := range s.subs {
		br.subs.Remove(filter, s)
	}
	for _, mb := range s.shares {
		s.leaveGroup(mb)
	}
	if s.durable {
		b.DeletePrefix(kindSub, subKey(s.clientID, ""))
		b.DeletePrefix(kindWalk, subKey(s.clientID, ""))
		b.Delete(kindSession, s.clientID)
		b.MailboxDelete(s.mailbox.ID())
	}
	if s.will != nil {
		b.Delete(kindWill, s.clientID)
		s.will = nil
	}
	if s.durable {
		br.lastDropped = b.LSN()
	}
	br.sessions.remove(s)
	br.counters.SessionsEnded.Add(1)
	s.mailbox.Close()
	s.client = nil
	s.live.Store(nil)
	br.due.clear(&s.expiryAt)
	br.due.clear(&s.willAt)
	br.due.clear(&s.sweepAt)
}

// The session is its mailbox's host.

// Now implements mailbox.Host.
func (s *Session) Now() int64 { return s.broker.Now() }

// SweepAt implements mailbox.Host.
func (s *Session) SweepAt(_ *mailbox.Mailbox, at int64) { s.broker.due.setEarlier(&s.sweepAt, at) }

// Dropped implements mailbox.Host.
func (s *Session) Dropped(_ *mailbox.Mailbox, r mailbox.Reason, n uint64) {
	s.broker.noteDrop(dropper{"client", s.clientID}, r, n)
}

// DeadLetter implements mailbox.Host. No policy of a session dead-letters.
func (s *Session) DeadLetter(*store.Batch, *mailbox.Mailbox, *store.Entry, mailbox.Reason) {
	panic("broker: a session has no dead-letter route")
}

// LoadFailed implements mailbox.Host: the next try is a sweep away.
func (s *Session) LoadFailed(_ *mailbox.Mailbox, err error) {
	s.broker.log.Error("reading queued messages failed; trying again", "client", s.clientID, "error", err)
	s.broker.due.setEarlier(&s.sweepAt, s.broker.Now()+retryLater)
}

// sweep runs when the head of the mailbox expires.
func (s *Session) sweep() {
	if !s.durable {
		s.mailbox.Sweep(nil)
		s.mailbox.Wake()
		return
	}
	b, err := s.broker.control(mailbox.SweepSize)
	if err != nil {
		s.broker.retry(&s.sweepAt, err)
		return
	}
	s.mailbox.Sweep(b)
	b.Commit()
	s.mailbox.Wake()
}
