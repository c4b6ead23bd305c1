package broker

import (
	"encoding/json"
	"fmt"
	"time"

	"emanet/internal/mailbox"
	"emanet/internal/message"
	"emanet/internal/store"
	"emanet/internal/topic"
)

// loader takes what the store found and, when all of it is there, puts it together: records, retained
// values and mailboxes come in no particular order.
type loader struct {
	broker    *Broker
	sessions  map[string]sessionRecord
	subs      []subRecord
	walks     map[string]walkRecord
	wills     map[string]willRecord
	shares    map[string]shareRecord
	mailboxes map[uint64]store.MailboxState
	crashed   map[string]bool // sessions whose connection a crash ended
	expires   int64           // when the first retained message does, 0 for never
	newest    int64           // when the last one was received
}

func newLoader(b *Broker) *loader {
	return &loader{
		broker: b, sessions: make(map[string]sessionRecord), walks: make(map[string]walkRecord),
		wills: make(map[string]willRecord), mailboxes: make(map[uint64]store.MailboxState),
		shares: make(map[string]shareRecord), crashed: make(map[string]bool),
	}
}

// Record implements store.Loader.
func (l *loader) Record(kind, key string, value []byte) error {
	var err error
	switch kind {
	case kindSession:
		err = into(l.sessions, key, value)
	case kindWalk:
		err = into(l.walks, key, value)
	case kindWill:
		err = into(l.wills, key, value)
	case kindShare:
		err = into(l.shares, key, value)
	case kindSub:
		var r subRecord
		err = json.Unmarshal(value, &r)
		l.subs = append(l.subs, r)
	default:
		return fmt.Errorf("record of unknown kind %q", kind)
	}
	if err != nil {
		return fmt.Errorf("record %s %q: %w", kind, key, err)
	}
	return nil
}

func into[T any](m map[string]T, key string, value []byte) error {
	var r T
	err := json.Unmarshal(value, &r)
	m[key] = r
	return err
}

// Retained implements store.Loader.
func (l *loader) Retained(m *message.Message) error {
	l.broker.setRetained(kept{message: m})
	l.newest = max(l.newest, m.ReceivedAt)
	if m.ExpiresAt != 0 && (l.expires == 0 || m.ExpiresAt < l.expires) {
		l.expires = m.ExpiresAt
	}
	return nil
}

// Mailbox implements store.Loader.
func (l *loader) Mailbox(s store.MailboxState) error {
	l.mailboxes[s.ID] = s
	return nil
}

// finish builds the sessions. Nothing is written yet.
func (l *loader) finish() error {
	b := l.broker
	for id, r := range l.sessions {
		state, ok := l.mailboxes[r.Mailbox]
		if !ok {
			return fmt.Errorf("session %q has no mailbox %d", id, r.Mailbox)
		}
		delete(l.mailboxes, r.Mailbox)
		s := l.session(id, r, state)
		b.sessions.add(s)
		b.found.Messages += s.mailbox.Status().Ready
	}
	b.found.Sessions = len(l.sessions)
	if err := l.loadGroups(); err != nil {
		return err
	}
	for id := range l.mailboxes {
		return fmt.Errorf("mailbox %d belongs to no session", id)
	}
	for i := range l.subs {
		if err := l.subscription(&l.subs[i]); err != nil {
			return err
		}
	}
	if err := l.loadWills(); err != nil {
		return err
	}
	b.found.Retained = b.retained.Len()
	return nil
}

func (l *loader) session(id string, r sessionRecord, state store.MailboxState) *Session {
	s := l.broker.newSession(id, true)
	s.expiry = r.Expiry
	s.sent = mailbox.Sent{High: r.Sent, First: r.Window, Before: r.Before}
	if r.Attached {
		// The crash ended the connection: how far it was sent is known only by its window.
		s.sent.Before = state.NextSeq
		l.crashed[id] = true
	}
	s.mailbox = mailbox.Restore(l.broker.store, s, state, s.sent, l.broker.policy(true))
	for _, packetID := range state.Received {
		s.receive(packetID, 0)
	}
	s.expiresAt, s.willDueAt = r.ExpiresAt, r.WillAt
	s.rights.Store(&heldRights{user: r.User})
	return s
}

// loadGroups builds the shared subscriptions, without their members.
func (l *loader) loadGroups() error {
	b := l.broker
	for key, r := range l.shares {
		state, ok := l.mailboxes[r.Mailbox]
		if !ok {
			return fmt.Errorf("shared subscription %q has no mailbox %d", key, r.Mailbox)
		}
		delete(l.mailboxes, r.Mailbox)
		if _, _, shared, err := topic.ParseShared(key); !shared || err != nil {
			return fmt.Errorf("%q is no shared subscription: %w", key, err)
		}
		g := b.newGroup(key, true)
		// Who had what is not on disk: all of it is ready, and goes out as if it had not before.
		g.lends(mailbox.Restore(b.store, g, state, mailbox.Sent{}, b.groupPolicy(true)))
		b.groups.add(g)
		b.found.Messages += g.mailbox.Status().Ready
	}
	return nil
}

func (l *loader) subscription(r *subRecord) error {
	s := l.broker.sessions.byID[r.Client]
	if s == nil {
		return fmt.Errorf("subscription to %q belongs to no session: client %q", r.Filter, r.Client)
	}
	sub := &Subscription{
		Filter: r.Filter, QoS: r.QoS, NoLocal: r.NoLocal,
		RetainAsPublished: r.RetainAsPublished, RetainHandling: r.RetainHandling, ID: r.ID,
	}
	s.subs[sub.Filter] = sub
	if topic.IsShared(sub.Filter) {
		g := l.broker.groups.byKey[sub.Filter]
		if g == nil {
			return fmt.Errorf("shared subscription %q of client %q has no record", r.Filter, r.Client)
		}
		s.enter(g, sub)
		return nil
	}
	l.broker.subs.Set(sub.Filter, s, sub)
	if w, ok := l.walks[subKey(r.Client, r.Filter)]; ok {
		s.walks = append(s.walks, &walk{sub: sub, cursor: l.broker.retained.WalkAfter(r.Filter, w.After), stored: true, since: w.Since})
		s.walking.Store(true)
	}
	return nil
}

// loadWills gives each will its session; one of a client without a persistent session gets a session that
// lives until the will is out.
func (l *loader) loadWills() error {
	for id, r := range l.wills {
		w, err := r.will(id)
		if err != nil {
			return err
		}
		s := l.broker.sessions.byID[id]
		if s == nil {
			s = l.broker.newSession(id, false)
			s.rights.Store(&heldRights{user: r.User})
			s.mailbox = mailbox.New(l.broker.store, s, 0, l.broker.policy(false))
			l.broker.sessions.add(s)
		}
		s.will = w
	}
	return nil
}

// settle records sessions that read attached as detached, before anybody is listened to; their expiry and
// the delay of their wills begin now. Those that end with their connection end. The rest goes on by its
// deadlines.
func (l *loader) settle() error {
	b := l.broker
	for id, s := range b.sessions.byID {
		s.ended = s.expiry == 0 || !s.durable
		if !s.ended && !l.crashed[id] {
			s.wait()
			continue
		}
		batch, err := l.begin(recordSize(id))
		if err != nil {
			return err
		}
		s.leave(batch, 0)
		batch.Commit()
	}
	for _, g := range b.groups.all() {
		if len(*g.members.Load()) == 0 { // a crash came between its end and its deletion
			g.end()
		}
	}
	if l.expires != 0 {
		b.sweepRetainedBy(l.expires)
	}
	return nil
}

// startPatience is how long a start waits for room in a journal that a crash left full.
const startPatience = 30 * time.Second

// begin is control, but it waits for room: to fold what a crash left is what makes it.
func (l *loader) begin(size int) (*store.Batch, error) {
	return l.broker.controlWithin(size, startPatience)
}
