package broker

import (
	"emanet/internal/message"
	"emanet/internal/store"
	"emanet/internal/topic"
)

// kept is a retained message and the batch that set it, 0 when it was there at the start.
type kept struct {
	message *message.Message
	lsn     store.LSN
}

// retain sets or removes the topic's retained message ([MQTT-3.3.1-5], [MQTT-3.3.1-6]).
func (b *Broker) retain(batch *store.Batch, m *message.Message, inBatch bool) {
	if len(m.Payload) == 0 {
		if b.forgetRetained(m.Topic) {
			batch.Unretain(m.Topic)
			b.lastUnretained = batch.LSN()
		}
		return
	}
	b.setRetained(kept{m, batch.LSN()})
	batch.Retain(m, inBatch)
	if m.ExpiresAt != 0 {
		b.sweepRetainedBy(m.ExpiresAt)
	}
}

// stampRetained gives a message that is to be retained a time of arrival in the order of the append lock:
// later than every subscription whose walk began before. After a restart it tells news from what a walk
// still has to send. The message is not shared yet.
func (b *Broker) stampRetained(m *message.Message) {
	b.retainClock = max(b.retainClock, b.Now(), b.walkClock+1)
	m.ReceivedAt = b.retainClock
}

// walkTime is the same for a walk that begins: not before any retained message so far.
func (b *Broker) walkTime() int64 {
	b.walkClock = max(b.walkClock, b.Now(), b.retainClock)
	return b.walkClock
}

// Retained messages are read by their topics, so expired ones are found by looking at all of them: not more
// often than this, and only when one is known to expire. Nobody is sent one meanwhile.
const retainedSweepEvery = 30_000 // ms

// sweepRetainedChunk is how many are looked at between two looks at the append lock, and removed in one batch.
const sweepRetainedChunk = 256

func (b *Broker) sweepRetainedBy(at int64) {
	b.due.setEarlier(&b.retainedSweep, at)
}

// sweepRetained removes what has expired, also from disk, and comes again for the next.
func (b *Broker) sweepRetained() {
	now := b.Now()
	if b.retainedSwept != 0 && now < b.retainedSwept+retainedSweepEvery {
		b.due.setEarlier(&b.retainedSweep, b.retainedSwept+retainedSweepEvery)
		return
	}
	b.retainedSwept = now
	var next int64
	var some []topic.Value[kept]
	cursor := b.retained.All()
	for more := true; more; {
		some, more = cursor.Next(some[:0], sweepRetainedChunk)
		expired := some[:0]
		for _, v := range some {
			switch at := v.Value.message.ExpiresAt; {
			case v.Value.message.Expired(now):
				expired = append(expired, v)
			case at != 0 && (next == 0 || at < next):
				next = at
			}
		}
		if err := b.unretain(expired); err != nil {
			b.retry(&b.retainedSweep, err)
			return
		}
	}
	if next != 0 {
		b.sweepRetainedBy(next)
	}
}

// unretain removes retained messages, unless newer ones have taken their place.
func (b *Broker) unretain(values []topic.Value[kept]) error {
	for len(values) > 0 {
		n, size := 0, 0
		for ; n < len(values) && (n == 0 || size < batchAim); n++ {
			size += store.SizeSmall + len(values[n].Name)
		}
		batch, err := b.control(size)
		if err != nil {
			return err
		}
		for _, v := range values[:n] {
			if now, ok := b.retained.Get(v.Name); ok && now.message == v.Value.message {
				b.forgetRetained(v.Name)
				batch.Unretain(v.Name)
				b.lastUnretained = batch.LSN()
				b.counters.RetainedEnded.Add(1)
			}
		}
		batch.Commit()
		values = values[n:]
	}
	return nil
}
