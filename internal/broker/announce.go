package broker

import (
	"emanet/internal/message"
)

// Announcement is a value of the broker's own, such as a $SYS topic's.
type Announcement struct {
	Topic   string // has passed topic.CheckName
	Payload string
}

// Announce hands values to those who have subscribed to them, and keeps them as retained messages for those who
// will. They live in memory alone, outside the bound on retained messages, and are messages of QoS 0: a figure of
// some seconds ago is not worth a place on disk, nor one in the queue of a client that is away.
func (b *Broker) Announce(values []Announcement) error {
	messages := make([]*message.Message, len(values))
	now := b.Now()
	for i, v := range values {
		messages[i] = &message.Message{Topic: v.Topic, Payload: []byte(v.Payload), Retain: true, ReceivedAt: now}
	}
	// The lock alone: nothing is written. Without an LSN of its own a value is no news to a walk: who subscribes at
	// this moment may get it twice.
	batch, err := b.control(0)
	if err != nil {
		return err
	}
	for _, m := range messages {
		if _, had := b.retained.Set(m.Topic, kept{message: m}); !had {
			b.announced.Add(1)
		}
	}
	batch.Abort()
	var u burst
	for _, m := range messages {
		r := &route{topic: m.Topic}
		b.match(r, nil)
		b.hand(m, r, &u)
	}
	u.wake(&b.counters)
	return nil
}

// retainedCount is how many retained messages clients have left.
func (b *Broker) retainedCount() int { return b.retained.Len() - int(b.announced.Load()) }
