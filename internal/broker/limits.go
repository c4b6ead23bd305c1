package broker

import (
	"errors"
	"unsafe"

	"emanet/internal/message"
)

// ErrSessions refuses a connection that wants a persistent session while there are as many as there may be.
var ErrSessions = errors.New("there are as many persistent sessions as there may be")

// Reconfigure sets the live options for what comes from now on; what there is stays. The others stay as Open was
// given them.
func (b *Broker) Reconfigure(opt Options) { b.live.Store(&opt) }

// Sizes are what bounds are compared with; they cost nothing to ask for.
type Sizes struct {
	Durable       int64 // sessions on disk
	RetainedBytes int64
}

// Sizes as of now.
func (b *Broker) Sizes() Sizes {
	return Sizes{Durable: b.sessions.durable.Load(), RetainedBytes: b.retainedBytes.Load()}
}

// refusesSession tells whether a connection may not have a new persistent session. old is what there is under its
// client id. Under the append lock.
func (b *Broker) refusesSession(old *Session, want *Connect) bool {
	most := b.live.Load().MaxSessions
	if want.Expiry == 0 || most <= 0 || b.sessions.durable.Load() < int64(most) {
		return false
	}
	return old == nil || !old.durable // else the new one goes on with it, or takes its place
}

// refusesRetained tells whether a bound has no room for the message as its topic's retained one.
func (b *Broker) refusesRetained(m *message.Message) bool {
	if !m.Retain || len(m.Payload) == 0 {
		return false
	}
	opt := b.live.Load()
	many := opt.MaxRetained > 0 && b.retainedCount() >= opt.MaxRetained
	more := m.Cost()
	large := opt.RetainedMax > 0 && b.retainedBytes.Load()+more > opt.RetainedMax
	if !many && !large {
		return false
	}
	if old, there := b.retained.Get(m.Topic); there { // it takes its place
		many = false
		more -= old.message.Cost()
		large = large && more > 0 && b.retainedBytes.Load()+more > opt.RetainedMax
	}
	switch {
	case many:
		b.counters.RetainedMany.Add(1)
	case large:
		b.counters.RetainedLarge.Add(1)
	}
	return many || large
}

// setRetained and forgetRetained keep count of the memory of what clients have left. Under the append lock.
func (b *Broker) setRetained(k kept) {
	old, had := b.retained.Set(k.message.Topic, k)
	grown := k.message.Cost()
	if had {
		grown -= old.message.Cost()
	}
	b.retainedBytes.Add(grown)
}

func (b *Broker) forgetRetained(name string) (had bool) {
	old, had := b.retained.Delete(name)
	if had {
		b.retainedBytes.Add(-old.message.Cost())
	}
	return had
}

// routeCost is about what a route occupies besides its topic and its targets.
const routeCost = 192

func (r *route) cost() int {
	n := routeCost + len(r.topic) + cap(r.targets)*int(unsafe.Sizeof(target{}))
	for i := range r.targets {
		n += len(r.targets[i].tag)
	}
	return n
}

// weigh notes what a route occupies after it was matched. A cache that is over its bound begins anew: with this one,
// which is needed now, whatever it weighs.
func (c *Client) weigh(r *route) {
	now := r.cost()
	c.routeBytes += now - r.weighed
	r.weighed = now
	if c.routeBytes <= c.broker.opt.RouteBytes || len(c.routes) == 1 {
		return
	}
	c.routes = map[string]*route{r.topic: r}
	c.routeBytes = now
	c.broker.counters.RoutesDropped.Add(1)
}
