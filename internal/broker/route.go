package broker

import (
	"emanet/internal/store"
	"emanet/internal/topic"
)

// target is one session that a topic's messages go to: one copy each, however many of its subscriptions
// match, at the highest granted QoS ([MQTT-3.3.4-2]).
type target struct {
	session           *Session
	qos               uint8
	retainAsPublished bool
	tag               string // identifiers of all matching subscriptions, as uvarints ([MQTT-3.3.4-4])
}

// route is the targets of a topic as of a version of the subscriptions.
type route struct {
	topic   string
	version uint64
	targets []target
	groups  []groupTarget
	durable bool // some target takes QoS >= 1 into a mailbox on disk
	live    bool // some target takes QoS >= 1 without disk
	denied  bool // the publisher may not write the topic: there are no targets
	// unreadable counts sessions that have subscribed and may not read the topic.
	unreadable uint64
	// entriesSize bounds what the entries of all targets take in a batch, with what they push out.
	entriesSize int
	weighed     int // what it counts for in its client's cache
}

// routesMax is how many topics a connection's cache holds; devices publish to a few, over and over.
const routesMax = 256

// route finds the targets of a topic published by c, from c's cache while no subscription has changed.
// The topic's string is the cache's: a connection that repeats a topic allocates it once.
func (c *Client) route(name []byte) *route {
	r := c.routes[string(name)]
	if r != nil && r.version == c.broker.version() {
		return r
	}
	if r == nil {
		if len(c.routes) >= routesMax || c.routes == nil {
			c.routes, c.routeBytes = make(map[string]*route), 0
		}
		r = &route{topic: string(name)}
		c.routes[r.topic] = r
	}
	c.broker.match(r, c.session)
	c.weigh(r)
	return r
}

// match fills r anew. publisher is who no-local subscriptions do not want to hear; nil for the broker itself.
func (b *Broker) match(r *route, publisher *Session) {
	var found []topic.Subscription[*Session, *Subscription]
	rights := b.rightsVersion() // before they are asked
	found, r.version = b.subs.Match(found, r.topic)
	r.groups, r.version = nil, r.version+rights
	shares, version := b.shares.Match(nil, r.topic)
	r.version += version
	// New slices each time: a publish under way may still use the old ones.
	r.targets, r.durable, r.live, r.entriesSize = make([]target, 0, len(found)), false, false, 0
	r.unreadable = 0
	if r.denied = publisher != nil && !publisher.rightsNow().MayWrite(r.topic); r.denied {
		return
	}
	var at map[*Session]int
	if len(found) > 16 {
		at = make(map[*Session]int, len(found))
	}
	for i := range found {
		s, sub := found[i].Key, found[i].Value
		if sub.NoLocal && s == publisher { // [MQTT-3.8.3-3]
			continue
		}
		if !s.rightsNow().MayRead(r.topic) {
			r.unreadable++
			continue
		}
		r.add(s, sub, at)
	}
	for i := range r.targets {
		t := &r.targets[i]
		if t.qos > 0 && t.session.durable {
			r.durable = true
			r.entriesSize += store.SizeEntry + len(t.tag) + store.SizeSettle
		} else {
			r.live = true
		}
	}
	for i := range shares {
		r.addGroup(&shares[i].Value)
	}
}

// addGroup adds a shared subscription: one copy beside those of its members' other subscriptions.
func (r *route) addGroup(t *groupTarget) {
	if !t.group.mayRead(r.topic) {
		r.unreadable++
		return
	}
	r.groups = append(r.groups, *t)
	if t.qos > 0 && t.durable {
		r.durable = true
		r.entriesSize += store.SizeEntry + store.SizeSettle
	} else {
		r.live = true
	}
}

// matched is how many recipients there are.
func (r *route) matched() int { return len(r.targets) + len(r.groups) }

// add merges a matching subscription into the targets; at is an index for large routes, nil for small.
func (r *route) add(s *Session, sub *Subscription, at map[*Session]int) {
	t := r.find(s, at)
	if t == nil {
		r.targets = append(r.targets, target{session: s})
		t = &r.targets[len(r.targets)-1]
		if at != nil {
			at[s] = len(r.targets) - 1
		}
	}
	t.qos = max(t.qos, sub.QoS)
	t.retainAsPublished = t.retainAsPublished || sub.RetainAsPublished
	t.tag += sub.tag()
}

func (r *route) find(s *Session, at map[*Session]int) *target {
	if at != nil {
		if i, ok := at[s]; ok {
			return &r.targets[i]
		}
		return nil
	}
	for i := range r.targets {
		if r.targets[i].session == s {
			return &r.targets[i]
		}
	}
	return nil
}

// attr is the entry's Attr for a message of the given QoS and retain flag: a live message's flag is 0
// unless the subscription wants it as published ([MQTT-3.3.1-12], [MQTT-3.3.1-13]).
func (t *target) attr(qos uint8, retain bool) uint8 {
	a := min(qos, t.qos)
	if retain && t.retainAsPublished {
		a |= AttrRetain
	}
	return a
}
