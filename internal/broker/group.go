package broker

import (
	"slices"
	"sync"
	"sync/atomic"

	"emanet/internal/mailbox"
	"emanet/internal/store"
	"emanet/internal/topic"
)

// group is a shared subscription (MQTT 5, 4.8.2): one mailbox for a share name and a filter, whose entries go to
// its members in turn. Groups with a persistent member are on disk, and stay there until they end. A group ends
// with its last member.
type group struct {
	broker  *Broker
	key     string // "$share/NAME/FILTER", as the members asked for it
	filter  string
	mailbox *mailbox.Mailbox
	place   int // in the list of groups

	durable bool // append lock
	ended   bool // append lock

	members atomic.Pointer[[]*member] // changes under the append lock, as a new slice
	turn    atomic.Uint32             // whose turn it is at QoS 0
	flooded atomic.Int32              // members in a row that had more than they can take at once
	dirty   atomic.Bool               // some publisher will wake it before long

	pump pump

	sweepAt deadline
	retryAt deadline // of the pump
	clearAt deadline
}

// member is a session in a group.
type member struct {
	group   *group
	session *Session
	loans   *mailbox.Member
	granted atomic.Pointer[target] // what its subscription says; session is not set
	gone    atomic.Bool            // has unsubscribed
	asleep  atomic.Bool            // has no room, and says so when that changes
	paused  int64                  // at QoS 0: it has more than it can take, until then; the pump's own
}

// groupTarget is a group that a topic's messages go to, as of a version of the groups.
type groupTarget struct {
	group   *group
	qos     uint8 // the highest granted to a member
	durable bool
}

// groups are all groups. They change under the append lock.
type groups struct {
	byKey map[string]*group // append lock; one that has ended stays until it is gone from disk
	mu    sync.Mutex
	list  []*group // those that live
}

func (gs *groups) add(g *group) {
	gs.byKey[g.key] = g
	gs.mu.Lock()
	g.place = len(gs.list)
	gs.list = append(gs.list, g)
	gs.mu.Unlock()
}

func (gs *groups) remove(g *group) {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	last := gs.list[len(gs.list)-1]
	gs.list[g.place], last.place = last, g.place
	gs.list[len(gs.list)-1] = nil
	gs.list = gs.list[:len(gs.list)-1]
}

// all is a copy of the list.
func (gs *groups) all() []*group {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	return slices.Clone(gs.list)
}

func (b *Broker) newGroup(key string, durable bool) *group {
	_, filter, _, err := topic.ParseShared(key)
	if err != nil {
		panic("broker: a shared subscription that was not checked: " + err.Error())
	}
	g := &group{broker: b, key: key, filter: filter, durable: durable}
	g.members.Store(new([]*member))
	g.sweepAt.run, g.retryAt.run, g.clearAt.run = g.sweep, g.wake, g.clear
	return g
}

// lends makes m the group's mailbox.
func (g *group) lends(m *mailbox.Mailbox) {
	g.mailbox = m
	m.Lends(g.wake)
}

func (b *Broker) groupPolicy(durable bool) mailbox.Policy {
	p := b.policy(durable)
	p.Identifiers = 0
	return p
}

// joinSize bounds what joining a group takes in a batch.
func joinSize(key string) int {
	return 2*(store.SizeRecord+len(kindShare)+len(key)) + 3*store.SizeSmall
}

// join makes the session a member by its subscription, or changes its membership.
func (s *Session) join(b *store.Batch, sub *Subscription) {
	br := s.broker
	g := br.groups.byKey[sub.Filter]
	if g == nil || g.ended {
		g = br.establish(b, g, sub.Filter, s.durable)
	}
	if s.durable && !g.durable {
		g.durable = true
		g.mailbox.Promote(b)
		g.put(b)
	}
	s.enter(g, sub)
	g.wake()
}

// enter is join without the disk.
func (s *Session) enter(g *group, sub *Subscription) {
	mb := s.shares[sub.Filter]
	if mb == nil {
		mb = &member{group: g, session: s}
		mb.loans = mailbox.Join(g.mailbox, s.mailbox, mb)
		if s.shares == nil {
			s.shares = make(map[string]*member)
		}
		s.shares[sub.Filter] = mb
	}
	mb.granted.Store(&target{qos: sub.QoS, retainAsPublished: sub.RetainAsPublished, tag: sub.tag()})
	if now := *g.members.Load(); !slices.Contains(now, mb) {
		now = append(slices.Clone(now), mb)
		g.members.Store(&now)
	}
	g.show()
}

// establish makes a group for its first member. before is one of that name that has ended and is still on disk.
func (b *Broker) establish(batch *store.Batch, before *group, key string, durable bool) *group {
	g := b.newGroup(key, durable)
	if before != nil {
		batch.MailboxDelete(before.mailbox.ID())
		if !durable {
			batch.Delete(kindShare, key)
		}
	}
	var id uint64
	if durable {
		id = batch.MailboxCreate()
	}
	g.lends(mailbox.New(b.store, g, id, b.groupPolicy(durable)))
	if durable {
		g.put(batch)
	}
	b.groups.add(g)
	return g
}

func (g *group) put(b *store.Batch) {
	b.Put(kindShare, g.key, mustJSON(&shareRecord{Mailbox: g.mailbox.ID()}))
}

// show tells publishers what the group is now.
func (g *group) show() {
	t := groupTarget{group: g, durable: g.durable}
	for _, mb := range *g.members.Load() {
		t.qos = max(t.qos, mb.granted.Load().qos)
	}
	g.broker.shares.Set(g.filter, g, t)
}

// leaveGroup ends the session's membership: what it was lent and was not sent goes to others, what it was sent it
// is to settle yet.
func (s *Session) leaveGroup(mb *member) {
	g := mb.group
	delete(s.shares, g.key)
	mb.gone.Store(true)
	now := slices.DeleteFunc(slices.Clone(*g.members.Load()), func(o *member) bool { return o == mb })
	g.members.Store(&now)
	mb.loans.Leave()
	if len(now) == 0 {
		g.end()
		return
	}
	g.show()
	g.reclaim(mb)
	if g.broker.opt.Users != nil { // perhaps it alone could read what comes next
		g.wake()
	}
}

// end is the end of a group without members. What waits is dropped. It goes from disk a moment later: a session
// that ends may be the last of any number of groups, more than fit into one batch. A start finds those that a
// crash leaves.
func (g *group) end() {
	br := g.broker
	g.ended = true
	br.shares.Remove(g.filter, g)
	if n := g.mailbox.Ready(); n > 0 {
		g.Dropped(g.mailbox, mailbox.ReasonPurged, n)
	}
	g.mailbox.Close()
	br.due.clear(&g.sweepAt)
	br.due.clear(&g.retryAt)
	br.groups.remove(g)
	if !g.durable {
		delete(br.groups.byKey, g.key)
		return
	}
	br.due.set(&g.clearAt, br.Now())
}

// clear removes a group that has ended from disk, unless another has taken its place and has done so.
func (g *group) clear() {
	br := g.broker
	b, err := br.control(joinSize(g.key))
	if err != nil {
		br.retry(&g.clearAt, err)
		return
	}
	if br.groups.byKey[g.key] == g {
		delete(br.groups.byKey, g.key)
		b.Delete(kindShare, g.key)
		b.MailboxDelete(g.mailbox.ID())
	}
	b.Commit()
}

// The group is its mailbox's host.

// Now implements mailbox.Host.
func (g *group) Now() int64 { return g.broker.Now() }

// SweepAt implements mailbox.Host.
func (g *group) SweepAt(_ *mailbox.Mailbox, at int64) { g.broker.due.setEarlier(&g.sweepAt, at) }

// Dropped implements mailbox.Host.
func (g *group) Dropped(_ *mailbox.Mailbox, r mailbox.Reason, n uint64) {
	g.broker.noteDrop(dropper{"share", g.key}, r, n)
}

// DeadLetter implements mailbox.Host. No policy of a group dead-letters.
func (g *group) DeadLetter(*store.Batch, *mailbox.Mailbox, *store.Entry, mailbox.Reason) {
	panic("broker: a group has no dead-letter route")
}

// LoadFailed implements mailbox.Host: the next try is a sweep away.
func (g *group) LoadFailed(_ *mailbox.Mailbox, err error) {
	g.broker.log.Error("reading queued messages failed; trying again", "share", g.key, "error", err)
	g.broker.due.setEarlier(&g.sweepAt, g.broker.Now()+retryLater)
}

// sweep runs when the head of the mailbox expires.
func (g *group) sweep() {
	b, err := g.broker.control(mailbox.SweepSize)
	if err != nil {
		g.broker.retry(&g.sweepAt, err)
		return
	}
	if !g.ended {
		g.mailbox.Sweep(b)
	}
	b.Commit()
	g.mailbox.Wake()
}
