package mqttserver

import (
	"runtime"

	"emanet/internal/mqttwire"
	"emanet/internal/store"
)

// gatherRetained encodes the next chunk of retained messages for new subscriptions.
func (o *output) gatherRetained() {
	c := o.conn
	if !c.client.Walking() || o.retainedWait() {
		return
	}
	retained, more, room, err := c.client.NextRetained(o.pad.retained[:0])
	o.pad.retained = retained
	switch {
	case err != nil: // the store takes nothing any more, and the connection will end by that
		return
	case room > 0:
		o.askRoom(room)
		return
	}
	now := c.server.broker.Now()
	for i := range o.pad.retained {
		r := &o.pad.retained[i]
		o.encodeMessage(&outgoing{message: r.Message, attr: r.Attr, tag: r.Tag}, now)
	}
	clear(o.pad.retained)
	if more {
		o.lookAgain()
	}
}

// askRoom has the writer woken when the store has room. The waiter is the store's until then.
func (o *output) askRoom(size int) {
	o.mu.Lock()
	asked := o.roomAsked
	o.roomAsked = true
	o.mu.Unlock()
	if !asked {
		o.roomWait.Class, o.roomWait.Size = store.Publish, size
		o.conn.server.broker.NotifyRoom(&o.roomWait)
	}
}

// retainedWait tells whether retained messages must wait: they come after the SUBACK that asked for them, and
// behind a store that has no room.
func (o *output) retainedWait() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.subscribing || o.roomAsked {
		return true
	}
	for i := range o.answers.all() {
		if o.answers.items[i].kind == mqttwire.TypeSuback {
			return true
		}
	}
	return false
}

// letOthersRun gives way while a walk goes on. One over a million retained messages never waits while its client reads,
// and a publish takes several goroutines' turns, each of which would wait for this one to be preempted.
func (o *output) letOthersRun() {
	if o.greeted && o.conn.client != nil && o.conn.client.Walking() { // client is set before CONNACK is queued
		runtime.Gosched()
	}
}
