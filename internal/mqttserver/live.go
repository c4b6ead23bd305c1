package mqttserver

import (
	"time"

	"emanet/internal/message"
)

// liveMessage is a QoS 0 message on its way to a connection.
type liveMessage struct {
	message *message.Message
	tag     string
	attr    uint8
}

// Live implements broker.Receiver. The writer is woken by whoever published, after its burst. A message
// larger than the bound goes when nothing else waits.
func (c *conn) Live(m *message.Message, attr uint8, tag string) (much bool) {
	o := &c.out
	size := liveSize(m)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.isEnded {
		return false // as if it had been published a moment later
	}
	if o.liveB > 0 && o.liveB+size > c.server.live.Load().MaxLiveBytes {
		c.server.stats.LiveDropped.Add(1)
		o.dropped++
		return true
	}
	o.live = queue(o.live, &liveLists, liveMessage{m, tag, attr})
	o.liveB += size
	return o.liveB > c.server.live.Load().MaxLiveBytes/2
}

// A publisher waits paceMax at most for this connection, and only while the client takes something at least
// every paceStall: one that has stopped reading delays nobody.
const (
	paceMax   = 100 * time.Millisecond
	paceStall = 20 * time.Millisecond
)

// Pace implements broker.Receiver: it waits until half of what may wait is free.
func (c *conn) Pace() {
	o := &c.out
	began := time.Now()
	look := time.AfterFunc(paceStall, o.room.Broadcast)
	defer look.Stop()
	o.mu.Lock()
	defer o.mu.Unlock()
	for waited := false; o.liveB > c.server.live.Load().MaxLiveBytes/2 && !o.isEnded; {
		now := time.Now()
		if now.Sub(began) >= paceMax || now.Sub(o.drainedAt) >= paceStall {
			return
		}
		if !waited {
			waited = true
			c.server.stats.Paced.Add(1)
		}
		look.Reset(paceStall)
		o.room.Wait()
	}
}

func liveSize(m *message.Message) int64 { return int64(len(m.Topic) + len(m.Payload) + 64) }

// liveChunk is about how many bytes of QoS 0 messages go out in one write. What is left comes with the
// next: so it shows soon whether the client reads (Pace).
const liveChunk = 128 << 10

// gatherLive encodes QoS 0 messages. They count for the bound until they are on their way.
func (o *output) gatherLive() {
	if o.leaving == nil {
		o.mu.Lock()
		o.leaving, o.live, o.left = o.live, nil, 0
		o.mu.Unlock()
	}
	if o.leaving == nil {
		return
	}
	now := o.conn.server.broker.Now()
	var size int64
	for o.left < len(o.leaving.items) && size < liveChunk {
		l := &o.leaving.items[o.left]
		o.left++
		size += liveSize(l.message)
		if !l.message.Expired(now) {
			o.encodeMessage(&outgoing{message: l.message, attr: l.attr, tag: l.tag}, now)
		}
		*l = liveMessage{}
	}
	more := o.left < len(o.leaving.items)
	if !more {
		o.leaving.done(&liveLists)
		o.leaving = nil
	}
	o.mu.Lock()
	o.liveB -= size
	o.drainedAt = time.Now()                      // what was gathered before is written
	o.again = o.again || more || o.live.len() > 0 // what came meanwhile was announced while a part was on its way
	o.room.Broadcast()
	o.mu.Unlock()
}
