// Package broker takes a publish to all its recipients: match, append, deliver (DESIGN 2). It owns the
// sessions, their subscriptions, wills and the retained values, and knows no wire: protocol servers hold a
// Client per connection and are told through its Receiver.
//
// The append lock (store.Begin) guards all topology: sessions, who is attached, subscriptions, retained
// values, received packet ids. What changes between Begin and Commit stands on disk in that order. Fields
// say "append lock" where they are read or written under it alone.
package broker

import (
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"emanet/internal/auth"
	"emanet/internal/mailbox"
	"emanet/internal/store"
	"emanet/internal/topic"
)

// Options are limits and policies. Zero values mean no bound. Reconfigure can change those marked live.
type Options struct {
	MaxQueued    uint64      // entries that wait for one session
	MaxBytes     int64       // memory of what waits for a session that is not durable
	RejectNew    bool        // above it refuse the publish instead of dropping the oldest
	MaxRetained  int         // live: retained messages
	RetainedMax  int64       // live: their memory, bytes
	MaxSubs      int         // live: subscriptions of one session
	MaxSessions  int         // live: those that are on disk
	RouteBytes   int         // memory of one client's routes; default 1 MiB
	MemoryBudget int64       // bytes of waiting messages in memory before they are left to the disk
	UnsentMax    int64       // bytes handed to a connection and not yet written
	Users        *auth.Users // nil: there are none
	Logger       *slog.Logger
	WallClock    func() time.Time // for tests; default time.Now

	identifiers uint64 // of packets, for tests; default 65,535
}

// Never is the expiry of a session that stays for good.
const Never = ^uint32(0)

// Broker is the heart. Open makes one.
type Broker struct {
	store     store.Store
	opt       Options                 // as at the start
	live      atomic.Pointer[Options] // what Reconfigure can change is read here
	log       *slog.Logger
	started   time.Time // monotonic
	startedAt int64     // the clock's value then, Unix ms

	subs     topic.Trie[*Session, *Subscription]
	shares   topic.Trie[*group, groupTarget]
	retained topic.Values[kept] // written under the append lock
	// announced counts those of retained that are the broker's own.
	announced     atomic.Int64
	retainedBytes atomic.Int64 // of the rest; written under the append lock
	sessions      registry
	groups        groups
	pumps         pumps
	adopted       atomic.Uint64 // rises when a session gets another user
	due           *deadlines
	counters      Counters
	found         Found

	// Under the append lock: batches that answers of others may rest on, and the clocks of retained.go.
	lastUnretained, lastDropped store.LSN
	retainClock, walkClock      int64

	drops drops

	retainedSweep deadline // removes retained messages that have expired
	retainedSwept int64    // when it last began; its goroutine's own
}

// Found is what a start found on disk.
type Found struct {
	Sessions int
	Messages uint64
	Retained int
}

// Counters count since the start.
type Counters struct {
	Published      atomic.Uint64 // publishes taken in
	Refused        atomic.Uint64 // publishes refused by a bound
	Unmatched      atomic.Uint64 // publishes nobody had subscribed to
	Denied         atomic.Uint64 // publishes that their client had no right to
	Unreadable     atomic.Uint64 // recipients a message was kept from, for want of the right to read it
	Queued         atomic.Uint64 // entries put into mailboxes
	Live           atomic.Uint64 // messages handed to connections without a mailbox
	Dropped        [mailbox.Reasons]atomic.Uint64
	Takeovers      atomic.Uint64
	WillsPublished atomic.Uint64
	WillsRefused   atomic.Uint64 // by a bound, or too large for the store
	SessionsEnded  atomic.Uint64
	Expired        atomic.Uint64 // of those, by their expiry interval
	RetainedEnded  atomic.Uint64 // retained messages removed because they expired
	RetainedMany   atomic.Uint64 // refused for their number
	RetainedLarge  atomic.Uint64 // refused for their memory
	RoutesDropped  atomic.Uint64 // caches of routes that were emptied for their size
}

// Open loads the state from st, makes it durable and starts the clock. The broker does not close st.
func Open(st store.Store, opt Options) (*Broker, error) {
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	if opt.WallClock == nil {
		opt.WallClock = time.Now
	}
	if opt.identifiers == 0 {
		opt.identifiers = 65535
	}
	if opt.UnsentMax == 0 {
		opt.UnsentMax = 256 << 10
	}
	if opt.RouteBytes <= 0 {
		opt.RouteBytes = 1 << 20
	}
	b := &Broker{store: st, opt: opt, log: opt.Logger, sessions: registry{byID: make(map[string]*Session)}}
	b.live.Store(&opt)
	b.groups.byKey = make(map[string]*group)
	b.drops.log.run = b.logDrops
	b.retainedSweep.run = b.sweepRetained
	l := newLoader(b)
	if err := st.Load(l); err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	// A clock that was set back, or never set (1970), expires nothing: it goes on from the last time on disk.
	b.started, b.startedAt = time.Now(), max(opt.WallClock().UnixMilli(), st.LastTime(), l.newest)
	b.due = newDeadlines(b.Now)
	if err := l.finish(); err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	if err := st.Start(); err != nil {
		return nil, fmt.Errorf("start: %w", err)
	}
	st.OnFold(b.evict)
	if err := l.settle(); err != nil {
		return nil, fmt.Errorf("start: %w", err)
	}
	go b.due.loop()
	return b, nil
}

// Close stops what runs by time. Connections must have been detached; the store is the caller's.
func (b *Broker) Close() {
	b.due.close()
	b.pumps.close()
	b.keepOrphans()
}

// Now is the broker's clock, Unix ms: it only goes forward while the process runs.
func (b *Broker) Now() int64 { return b.startedAt + time.Since(b.started).Milliseconds() }

// Found tells what Open found on disk.
func (b *Broker) Found() Found { return b.found }

// Counters are live.
func (b *Broker) Counters() *Counters { return &b.counters }

// Flushed is the highest LSN on disk: answers up to it may go out.
func (b *Broker) Flushed() store.LSN { return b.store.Flushed() }

// Gauges are sizes as of now.
type Gauges struct {
	Sessions, Subscriptions, Retained int
	Away                              int    // sessions without a connection
	Pending, InFlight                 uint64 // messages that wait or are sent and not settled; of those the sent ones
	Bytes                             int64  // of them: topics and payloads
	Memory                            int64
	Groups, GroupMembers              int    // shared subscriptions, and the sessions that share in them
	GroupsPending                     uint64 // messages that wait in them or are on loan to members
}

// Gauges walks over all sessions: for a metrics page, not for a hot path.
func (b *Broker) Gauges() Gauges {
	g := Gauges{Subscriptions: b.subs.Len(), Retained: b.retainedCount()}
	b.sessions.each(func(s *Session) bool {
		st := s.mailbox.Status()
		g.Sessions++
		if s.live.Load() == nil {
			g.Away++
		}
		g.Pending += st.Ready + st.InFlight
		g.InFlight += st.InFlight
		g.Bytes += st.Bytes
		g.Memory += st.Memory
		return true
	})
	for _, share := range b.groups.all() {
		st := share.mailbox.Status()
		g.Groups++
		members := len(*share.members.Load())
		g.GroupMembers += members
		g.Subscriptions += members
		g.GroupsPending += st.Ready + st.InFlight
		g.Memory += st.Memory
	}
	return g
}

// evict lets bodies go that are on disk when memory is over its budget. The store calls it after a fold.
func (b *Broker) evict(folded store.LSN) {
	if b.opt.MemoryBudget <= 0 {
		return
	}
	var used int64
	b.sessions.each(func(s *Session) bool {
		used += s.mailbox.Status().Memory
		return true
	})
	groups := b.groups.all()
	for _, g := range groups {
		used += g.mailbox.Status().Memory
	}
	for _, g := range groups {
		if used > b.opt.MemoryBudget/2 {
			used -= g.mailbox.Evict(folded, evictKeep)
		}
	}
	if used <= b.opt.MemoryBudget/2 {
		return
	}
	b.sessions.each(func(s *Session) bool {
		used -= s.mailbox.Evict(folded, evictKeep)
		return used > b.opt.MemoryBudget/2
	})
}

// evictKeep is how many of the next entries stay in memory: a consumer that comes finds them at once.
const evictKeep = 256

// ErrGone is what a Client gets whose session was taken over or ended.
var ErrGone = errors.New("the session has another connection")

// control takes the append lock for a batch that nobody may refuse for want of patience: while too much is
// unflushed it waits. Publishes do not come here; they are told, and hold their publisher.
func (b *Broker) control(size int) (*store.Batch, error) {
	for {
		batch, err := b.store.Begin(store.Control, size)
		if !errors.Is(err, store.ErrBusy) {
			return batch, err
		}
		b.awaitRoom(size)
	}
}

// controlWithin is control that waits so long for the journal to have room, too.
func (b *Broker) controlWithin(size int, patience time.Duration) (*store.Batch, error) {
	for giveUp := time.Now().Add(patience); ; {
		batch, err := b.control(size)
		if !errors.Is(err, store.ErrFull) || time.Now().After(giveUp) {
			return batch, err
		}
		room := make(chan struct{})
		b.store.NotifyRoom(&store.RoomWaiter{Class: store.Control, Size: size, F: func() { close(room) }})
		select {
		case <-room:
		case <-time.After(time.Until(giveUp)):
		}
	}
}

// awaitRoom returns when a refused control batch has a chance again.
func (b *Broker) awaitRoom(size int) {
	room := make(chan struct{})
	b.store.NotifyRoom(&store.RoomWaiter{Class: store.Control, Size: max(size, 1), F: func() { close(room) }})
	<-room
}

// isNoRoom tells a refusal that ends by itself.
func isNoRoom(err error) bool { return errors.Is(err, store.ErrFull) || errors.Is(err, store.ErrBusy) }

// retryLater is when something that the store refused for now is tried again.
const (
	retryLater = 1000 // ms
	retrySoon  = 50   // when it only had no room: that comes with the next flush or fold
)
