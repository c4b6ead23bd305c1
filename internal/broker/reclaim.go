package broker

import (
	"errors"
	"slices"
	"time"

	"emanet/internal/mailbox"
	"emanet/internal/store"
)

// What moved to a member at QoS 2 and was not sent when the member left goes back to the group, behind what waits
// there: other members are to have it. While nobody else is connected it stays, in order, for the member may come
// back.

// Orphaned implements mailbox.MemberOwner: the member's session has ended, and its mailbox with it.
func (mb *member) Orphaned(entries []store.Entry) {
	g := mb.group
	g.pump.mu.Lock()
	g.pump.orphans = append(g.pump.orphans, entries...)
	g.pump.mu.Unlock()
	g.wake()
}

// reclaim has the pump look for what moved to a member whose connection has ended, or that has unsubscribed. Under
// the append lock.
func (g *group) reclaim(mb *member) {
	if !mb.session.durable || g.ended || !mb.loans.Unsent() { // and nothing more moves to it
		return
	}
	g.pump.mu.Lock()
	if !slices.Contains(g.pump.reclaims, mb) {
		g.pump.reclaims = append(g.pump.reclaims, mb)
	}
	g.pump.mu.Unlock()
	g.wake()
}

// takeIn puts what comes back into the group's mailbox; false: the store has no room.
func (g *group) takeIn() bool {
	p := &g.pump
	if p.blocked.Load() || g.broker.pumps.isClosed() {
		return false
	}
	orphans, reclaims := p.takeRest()
	for len(orphans) > 0 {
		n, ok := g.adopt(orphans, g.begin)
		if orphans = orphans[n:]; !ok {
			p.mu.Lock()
			p.orphans, p.reclaims = append(orphans, p.orphans...), append(reclaims, p.reclaims...)
			p.mu.Unlock()
			return false
		}
	}
	if len(reclaims) == 0 {
		return true
	}
	var later []*member
	ok, others := true, g.othersThan()
	for _, mb := range reclaims {
		switch {
		case !ok || !others(mb):
			later = append(later, mb)
		case !g.takeFrom(mb):
			ok = false
			later = append(later, mb)
		}
	}
	if len(later) > 0 {
		p.mu.Lock()
		p.reclaims = append(later, p.reclaims...)
		p.mu.Unlock()
	}
	return ok
}

// othersThan tells of a member whether another one is connected, which wakes the pump when it connects. It looks over
// the members once: all of a large group may be away, and each publish wakes the pump.
func (g *group) othersThan() func(*member) bool {
	var one *member
	for _, mb := range *g.members.Load() {
		switch {
		case mb.session.live.Load() == nil:
		case one != nil:
			return func(*member) bool { return true }
		default:
			one = mb
		}
	}
	return func(mb *member) bool { return one != nil && one != mb }
}

// adopt appends some orphans in one batch.
func (g *group) adopt(orphans []store.Entry, begin func(int) (*store.Batch, error)) (n int, ok bool) {
	size := 0
	for n < len(orphans) {
		next := store.SizeMessage + orphans[n].Message.EncodedMax() + store.SizeEntry + store.SizeSettle
		if n > 0 && size+next > batchAim {
			break
		}
		size += next
		n++
	}
	b, err := begin(size)
	if errors.Is(err, store.ErrTooLarge) { // one message, which was in memory only
		g.Dropped(g.mailbox, mailbox.ReasonOverflow, 1)
		return 1, true
	}
	if err != nil {
		return 0, false
	}
	defer b.Commit()
	if g.ended {
		g.Dropped(g.mailbox, mailbox.ReasonPurged, uint64(len(orphans)))
		return len(orphans), true
	}
	for _, e := range orphans[:n] {
		if g.durable {
			own := *e.Message
			b.Message(&own, &own.ID)
			e.Message, e.MessageID = &own, own.ID
		}
		g.mailbox.Append(b, e, !g.durable)
	}
	return n, true
}

// What is given back in the batch that ends a session: an entry for the group, and what that may push out.
const sizeUnsent = store.SizeEntry + store.SizeSettle

// unsentSize bounds what giveBackUnsent takes in a batch. It may grow while the session has a connection.
func (s *Session) unsentSize() int {
	if s == nil || !s.durable || !s.mailbox.Borrows() {
		return 0
	}
	return s.mailbox.Unsent() * sizeUnsent
}

// controlToEnd is control for a batch that may end s, with unsent bytes for giveBackUnsent. Where the journal has no
// batch that large it gives back what fits, and the rest in later ones (Orphaned).
func (b *Broker) controlToEnd(s *Session, size int) (batch *store.Batch, unsent int, err error) {
	unsent = s.unsentSize()
	batch, err = b.control(size + unsent)
	if errors.Is(err, store.ErrTooLarge) && unsent > batchAim {
		unsent = batchAim
		batch, err = b.control(size + unsent)
	}
	return batch, unsent, err
}

// giveBackUnsent puts what moved to the session and was not sent back into its groups, in the batch that ends the
// session: it is in one place or the other at all times.
func (s *Session) giveBackUnsent(b *store.Batch, unsent int) {
	if !s.durable || unsent == 0 {
		return
	}
	moved := s.mailbox.ReclaimAll(b, unsent/sizeUnsent)
	for i := range moved {
		e := &moved[i]
		g := e.Owner().(*member).group
		if g.ended {
			g.Dropped(g.mailbox, mailbox.ReasonPurged, 1)
			continue
		}
		g.mailbox.Append(b, store.Entry{Message: e.Message, MessageID: e.MessageID, Attr: e.Attr}, false)
		g.wake()
	}
}

// stopPatience is how long an end in good order waits for room in a full journal.
const stopPatience = 5 * time.Second

// keepOrphans puts on disk what the pumps did not come to: orphans are in no other place. What is to be reclaimed is on
// disk, but after a restart nobody knows any more that it was not sent: if there are other members it is theirs, too.
func (b *Broker) keepOrphans() {
	giveUp := time.Now().Add(stopPatience) // for all of them
	begin := func(size int) (*store.Batch, error) { return b.controlWithin(size, time.Until(giveUp)) }
	for _, g := range b.groups.all() {
		orphans, reclaims := g.pump.takeRest()
		for ok := true; ok && len(orphans) > 0; {
			var n int
			n, ok = g.adopt(orphans, begin)
			orphans = orphans[n:]
		}
		if len(orphans) > 0 {
			b.log.Error("messages on their way to a member that is gone are lost", "share", g.key, "count", len(orphans))
		}
		for _, mb := range reclaims {
			others := slices.ContainsFunc(*g.members.Load(), func(o *member) bool { return o != mb })
			if others && !g.takeFrom(mb) {
				break // it stays with the member
			}
		}
	}
}

func (p *pump) takeRest() ([]store.Entry, []*member) {
	p.mu.Lock()
	defer p.mu.Unlock()
	orphans, reclaims := p.orphans, p.reclaims
	p.orphans, p.reclaims = nil, nil
	return orphans, reclaims
}

// reclaimMax entries move back in one batch.
const reclaimMax = batchAim / (store.SizeEntry + 2*store.SizeSettle)

// takeFrom moves what a member will not send soon back.
func (g *group) takeFrom(mb *member) bool {
	for {
		b, err := g.begin(reclaimMax * (store.SizeEntry + 2*store.SizeSettle))
		if err != nil {
			return false
		}
		if g.ended || mb.session.client != nil && !mb.gone.Load() { // it is back
			b.Abort()
			return true
		}
		moved := mb.loans.Reclaim(b, reclaimMax)
		for i := range moved {
			e := &moved[i]
			back := store.Entry{Message: e.Message, MessageID: e.MessageID, Attr: e.Attr}
			g.mailbox.Append(b, back, false)
		}
		mb.loans.SettleMoved(b, moved)
		b.Commit()
		if len(moved) < reclaimMax {
			return true
		}
	}
}
