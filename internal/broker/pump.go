package broker

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"emanet/internal/mailbox"
	"emanet/internal/message"
	"emanet/internal/store"
)

// pump hands a group's entries to its members. It is a goroutine that lives while there is something to hand out:
// a burst of publishes, or of acknowledgements, starts it once.
type pump struct {
	mu       sync.Mutex
	running  bool
	again    bool          // something came since it last looked
	orphans  []store.Entry // moved to a member that is gone and has not sent them
	reclaims []*member     // may have what moved to them and will not be sent soon

	blocked atomic.Bool // the store has no room; it says when

	// the goroutine's own
	next  *member // whose turn it is
	at    int     // its place, if it is still there
	turns []mailbox.Turn
	whose []*member // of each turn
	was   []uint8
	last  mailbox.Turn // takes what nobody may read
}

// pumps counts those that run.
type pumps struct {
	mu      sync.Mutex
	closed  bool
	running sync.WaitGroup
}

func (p *pumps) enter() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.running.Add(1)
	return true
}

func (p *pumps) isClosed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}

// close returns when none runs; none will.
func (p *pumps) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.running.Wait()
}

// wake has the pump look. It never blocks, and may be called under any lock but a mailbox's.
func (g *group) wake() {
	p := &g.pump
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running {
		p.again = true
		return
	}
	if g.broker.pumps.enter() {
		p.running = true
		go g.run()
	}
}

func (g *group) run() {
	defer g.broker.pumps.running.Done()
	for {
		if g.takeIn() {
			for g.handOut() {
			}
		}
		if g.rest() {
			return
		}
	}
}

// rest ends the pump when nothing has come since it last looked.
func (g *group) rest() bool {
	p := &g.pump
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.again && !g.broker.pumps.isClosed() {
		p.again = false
		return false
	}
	p.running, p.again = false, false
	for i := range p.turns { // an idle group holds little
		t := &p.turns[i]
		*t = mailbox.Turn{Lent: t.Lent[:0]}
		if cap(t.Lent) > keptLent {
			t.Lent = nil
		}
	}
	clear(p.whose)
	return true
}

// keptLent is the capacity up to which a turn's list is kept between bursts.
const keptLent = 64

// begin takes the append lock for a batch of the pump's. When the store has no room the pump goes on when it has.
func (g *group) begin(size int) (*store.Batch, error) {
	b, err := g.broker.store.Begin(store.Control, size)
	switch {
	case err == nil, errors.Is(err, store.ErrTooLarge):
	case !isNoRoom(err):
		g.pump.blocked.Store(true) // for good
	default:
		g.pump.blocked.Store(true)
		g.broker.store.NotifyRoom(&store.RoomWaiter{Class: store.Control, Size: max(size, 1), F: func() {
			g.pump.blocked.Store(false)
			g.wake()
		}})
	}
	return b, err
}

// handOut hands out what it can once, and tells whether to do it again.
func (g *group) handOut() (more bool) {
	p := &g.pump
	ready := g.mailbox.Ready()
	if ready == 0 || p.blocked.Load() || g.broker.pumps.isClosed() || !g.seat(ready) {
		return false
	}
	var last *mailbox.Turn
	if g.broker.opt.Users != nil {
		last = g.unreadable()
	}
	at := g.mailbox.Lend(p.turns, last, ready) // no more, for those behind the last seat are not passed over
	if at >= 0 {
		p.passTurn(*g.members.Load(), p.whose[at])
	}
	for i := range p.turns {
		if t := &p.turns[i]; len(t.Lent) > 0 {
			g.hand(p.whose[i], t.Lent)
			clear(t.Lent)
			more = true
		}
	}
	if last != nil && len(last.Lent) > 0 {
		g.discard(last)
		more = true
	}
	return more
}

// seat lists whose turn it is, as many as there are entries if nobody may be passed over. False: nobody has room.
func (g *group) seat(ready uint64) bool {
	p := &g.pump
	members := *g.members.Load()
	from := p.at
	if i := slices.Index(members, p.next); i >= 0 {
		from = i
	}
	n := 0
	p.whose = p.whose[:0]
	for i := range members {
		mb := members[(from+i)%len(members)]
		room := mb.room()
		if room == 0 {
			continue
		}
		if n == len(p.turns) {
			p.turns = append(p.turns, mailbox.Turn{})
		}
		t := &p.turns[n]
		t.Member, t.Room, t.May, t.Lent = mb.loans, room, mb.may(), t.Lent[:0]
		p.whose = append(p.whose, mb)
		if n++; g.broker.opt.Users == nil && uint64(n) >= ready {
			break
		}
	}
	clear(p.turns[n:])
	p.turns = p.turns[:n]
	return n > 0
}

// passTurn notes who comes behind the last.
func (p *pump) passTurn(members []*member, last *member) {
	if i := slices.Index(members, last); i >= 0 {
		p.at = (i + 1) % len(members)
		p.next = members[p.at]
	}
}

// Members at QoS 0 have no window: liveRoom at a time, and not while they say that they have too much.
const (
	liveRoom  = 64
	livePause = 50 // ms
)

// room is how many entries the member may be handed now.
func (mb *member) room() int {
	if mb.granted.Load().qos == 0 {
		if mb.session.live.Load() == nil || mb.paused > 0 && mb.group.Now() < mb.paused {
			return 0
		}
		return liveRoom
	}
	if mb.asleep.Load() {
		return 0
	}
	mb.asleep.Store(true) // before it is asked: it may wake up at once
	room := mb.loans.Room()
	if room > 0 {
		mb.asleep.Store(false)
	}
	return room
}

// may tells whether the member may have an entry, nil when it may have all.
func (mb *member) may() func(*store.Entry) bool {
	if mb.session.rightsNow() == nil {
		return nil
	}
	return func(e *store.Entry) bool { return mb.mayRead(e.Message) }
}

func (mb *member) mayRead(m *message.Message) bool { return mb.session.rightsNow().MayRead(m.Topic) }

// RoomCame implements mailbox.MemberOwner.
func (mb *member) RoomCame() {
	mb.asleep.Store(false)
	mb.group.wake()
}
