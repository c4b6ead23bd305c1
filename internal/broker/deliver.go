package broker

import (
	"slices"

	"emanet/internal/message"
	"emanet/internal/store"
)

// deliver is the broker's, its recipients to be woken by Flush.
func (c *Client) deliver(m *message.Message, r *route) Outcome {
	return c.broker.deliver(m, r, &c.burst)
}

// burst is who is to hear of a connection's publishes since the last Flush.
type burst struct {
	touched []*Session // got something that waits for no group
	shares  []*group   // as well
	// counted since the last Flush: a publish costs no atomic operation
	published, unmatched, live uint64
	pace                       Receiver // has more than it can take at once, see Client.Pace
}

// Flush wakes the recipients of publishes since the last Flush that wait for no group: connections call
// it after a burst, so that a recipient of many messages is woken once.
func (c *Client) Flush() { c.burst.wake(&c.broker.counters) }

// Pace slows a publisher down whose QoS 0 messages go to one receiver only, and faster than that receiver,
// which is reading, can take them: rather than drop most of a flood the broker reads the next burst a
// little later, as a full socket would have it. Call it after Flush, with no lock held.
func (c *Client) Pace() {
	if p := c.burst.pace; p != nil {
		c.burst.pace = nil
		p.Pace()
	}
}

func (u *burst) wake(n *Counters) {
	u.count(n)
	for _, s := range u.touched {
		s.dirty.Store(false)
		if !s.durable {
			s.mailbox.Wake()
		}
		if c := s.live.Load(); c != nil {
			c.receiver.Wake()
		}
	}
	clear(u.touched)
	u.touched = u.touched[:0]
	for _, g := range u.shares {
		g.dirty.Store(false)
		g.wake()
	}
	clear(u.shares)
	u.shares = u.shares[:0]
}

func (u *burst) count(n *Counters) {
	if u.published == 0 && u.live == 0 {
		return
	}
	n.Published.Add(u.published)
	if u.unmatched > 0 {
		n.Unmatched.Add(u.unmatched)
	}
	if u.live > 0 {
		n.Live.Add(u.live)
	}
	u.published, u.unmatched, u.live = 0, 0, 0
}

// touch notes a session to be woken, unless somebody has noted it already and will wake it.
func (u *burst) touch(s *Session) {
	if s.dirty.CompareAndSwap(false, true) {
		u.touched = append(u.touched, s)
	}
}

// deliver hands the message to those who wait for no flush: QoS 0 and sessions that end with their
// connection. They are noted in u, to be woken.
func (b *Broker) deliver(m *message.Message, r *route, u *burst) Outcome {
	u.published++
	if r.unreadable > 0 {
		b.counters.Unreadable.Add(r.unreadable)
	}
	if r.matched() == 0 {
		u.unmatched++
	}
	return b.hand(m, r, u)
}

// hand is deliver for what no client has published.
func (b *Broker) hand(m *message.Message, r *route, u *burst) Outcome {
	if r.matched() == 0 {
		return Outcome{}
	}
	if m.QoS > 0 && !r.live {
		return Outcome{Matched: r.matched()}
	}
	var queued uint64
	for i := range r.targets {
		t := &r.targets[i]
		attr := t.attr(m.QoS, m.Retain)
		switch {
		case attr&AttrQoS == 0:
			if c := t.session.live.Load(); c != nil {
				// Only the sole receiver may slow its publisher down: nobody waits for somebody else's reader.
				if c.receiver.Live(m, attr, t.tag) && r.matched() == 1 {
					u.pace = c.receiver
				}
				u.live++
				u.touch(t.session)
			}
		case !t.session.durable:
			t.session.mailbox.Append(nil, store.Entry{Message: m, Attr: attr, Tag: t.tag}, true)
			queued++
			u.touch(t.session)
		}
	}
	for i := range r.groups {
		g := &r.groups[i]
		switch {
		case min(m.QoS, g.qos) == 0:
			g.group.live(m, u, r.matched() == 1)
		case !g.durable:
			g.group.mailbox.Append(nil, store.Entry{Message: m, Attr: groupAttr(m)}, true)
			queued++
			u.touchGroup(g.group)
		}
	}
	if queued > 0 {
		b.counters.Queued.Add(queued)
	}
	return Outcome{Matched: r.matched()}
}

// touchGroup is touch for a group.
func (u *burst) touchGroup(g *group) {
	if g.dirty.CompareAndSwap(false, true) {
		u.shares = append(u.shares, g)
	}
}

// groupAttr is an entry's Attr while it is a group's: as published, for what its member is granted is not known yet.
func groupAttr(m *message.Message) uint8 {
	if m.Retain {
		return m.QoS | AttrRetain
	}
	return m.QoS
}

// live hands a message at QoS 0 to the connected member whose turn it is; without one it is dropped. sole: nobody
// else gets the message, so that the publisher may be slowed down when no member keeps up.
func (g *group) live(m *message.Message, u *burst, sole bool) {
	members := *g.members.Load()
	n := uint32(len(members))
	from := g.turn.Add(1)
	for i := range n {
		mb := members[(from+i)%n]
		c := mb.session.live.Load()
		if c == nil || !mb.mayRead(m) {
			continue
		}
		if i > 0 {
			g.turn.Add(i)
		}
		granted := mb.granted.Load()
		switch {
		case !c.receiver.Live(m, granted.attr(0, m.Retain), granted.tag):
			if g.flooded.Load() != 0 {
				g.flooded.Store(0)
			}
		case g.flooded.Add(1) >= int32(n) && sole:
			u.pace = c.receiver
		}
		u.live++
		u.touch(mb.session)
		return
	}
}

// mayRead tells whether some member may read the topic.
func (g *group) mayRead(name string) bool {
	if g.broker.opt.Users == nil {
		return true
	}
	return slices.ContainsFunc(*g.members.Load(), func(mb *member) bool { return mb.session.rightsNow().MayRead(name) })
}
