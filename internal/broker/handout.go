package broker

import (
	"errors"
	"slices"

	"emanet/internal/mailbox"
	"emanet/internal/store"
)

// hand gives a member what it was lent, in runs of one QoS: that of the publish, and at most that of the member's
// subscription ([MQTT-4.8.2-3]).
func (g *group) hand(mb *member, lent []mailbox.Lent) {
	granted := mb.granted.Load()
	p := &g.pump
	for len(lent) > 0 {
		qos := min(lent[0].Attr&AttrQoS, granted.qos)
		n := 0
		p.was = p.was[:0]
		for n < len(lent) && min(lent[n].Attr&AttrQoS, granted.qos) == qos {
			e := &lent[n]
			p.was = append(p.was, e.Attr)
			e.Attr, e.Tag = granted.attr(e.Attr&AttrQoS, e.Attr&AttrRetain != 0), granted.tag
			n++
		}
		var done int
		switch qos {
		case 0:
			done = g.handLive(mb, lent[:n])
		case 1:
			if mb.loans.Borrow(lent[:n]) {
				done = n
			}
		default:
			done = g.move(mb, lent[:n], p.was)
		}
		lent = lent[done:]
		if done < n {
			mb.loans.GiveBack(lent)
			return
		}
	}
}

// handLive hands entries to a connection that does not acknowledge them: they are settled when they are handed
// over. It returns how many.
func (g *group) handLive(mb *member, lent []mailbox.Lent) int {
	c := mb.session.live.Load()
	if c == nil {
		return 0
	}
	b, err := g.begin(len(lent) * store.SizeSettle)
	if err != nil {
		return 0
	}
	much := false
	for i := range lent {
		if much = c.receiver.Live(lent[i].Message, lent[i].Attr, lent[i].Tag); much {
			lent = lent[:i+1] // what it would have to drop is safe in the group, and others may have it
			break
		}
	}
	mb.loans.Settled(b, lent)
	b.Commit()
	if much {
		mb.paused = g.Now() + livePause
		g.broker.due.setEarlier(&g.retryAt, mb.paused)
	}
	g.broker.counters.Live.Add(uint64(len(lent)))
	c.receiver.Wake()
	return len(lent)
}

// move gives entries at QoS 2 to the member for good, and returns how many: in one batch they are settled here
// and the member's there, and they are sent when that is on disk. So no second member ever gets one, whatever becomes of
// the first ([MQTT-4.8.2-4], [MQTT-4.8.2-5]).
func (g *group) move(mb *member, lent []mailbox.Lent, was []uint8) (done int) {
	for done < len(lent) {
		rest := lent[done:]
		n, size, onDisk := 0, 0, mb.session.durable
		for n < len(rest) {
			next := mb.moveSize(&rest[n])
			if n > 0 && size+next > batchAim {
				break
			}
			size += next
			onDisk = onDisk || rest[n].Durable()
			n++
		}
		if !onDisk {
			if !mb.loans.Move(nil, rest[:n], was[done:]) {
				return done
			}
			mb.session.mailbox.Wake()
			done += n
			continue
		}
		b, err := g.begin(size)
		if errors.Is(err, store.ErrTooLarge) { // one message
			mb.loans.Settled(nil, rest[:1]) // what is on disk here is never too large to move
			g.Dropped(g.mailbox, mailbox.ReasonOverflow, 1)
			done++
			continue
		}
		if err != nil {
			return done
		}
		if mb.session.durable {
			bodies(b, rest[:n])
		}
		if !mb.loans.Move(b, rest[:n], was[done:]) {
			b.Abort()
			return done
		}
		b.Commit()
		done += n
	}
	return done
}

// moveSize bounds what the move of an entry takes in a batch.
func (mb *member) moveSize(e *mailbox.Lent) int {
	size := store.SizeEntry + len(e.Tag) + store.SizeSettle
	if mb.session.durable && !e.Durable() {
		size += store.SizeMessage + e.Message.EncodedMax()
	}
	return size
}

// bodies writes the messages that the group has in memory only.
func bodies(b *store.Batch, entries []mailbox.Lent) {
	for i := range entries {
		if e := &entries[i]; !e.Durable() {
			own := *e.Message // others may have it, on disk or not
			b.Message(&own, &own.ID)
			e.Message, e.MessageID = &own, own.ID
		}
	}
}

// unreadable is the turn of nobody: it takes what no member may read any more.
func (g *group) unreadable() *mailbox.Turn {
	t := &g.pump.last
	if t.Member == nil {
		nobody := g.broker.newSession("", false)
		nobody.mailbox = mailbox.New(g.broker.store, nobody, 0, g.broker.policy(false))
		t.Member = mailbox.Join(g.mailbox, nobody.mailbox, &member{group: g, session: nobody})
		t.May = func(e *store.Entry) bool {
			return !slices.ContainsFunc(*g.members.Load(), func(mb *member) bool { return mb.mayRead(e.Message) })
		}
	}
	t.Room, t.Lent = liveRoom, t.Lent[:0]
	return t
}

// discard drops what no member may read.
func (g *group) discard(t *mailbox.Turn) {
	b, err := g.begin(len(t.Lent) * store.SizeSettle)
	if err != nil {
		t.Member.GiveBack(t.Lent)
		return
	}
	t.Member.Settled(b, t.Lent)
	b.Commit()
	g.broker.counters.Unreadable.Add(uint64(len(t.Lent)))
	clear(t.Lent)
}
