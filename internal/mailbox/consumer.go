package mailbox

import (
	"slices"

	"emanet/internal/message"
	"emanet/internal/store"
)

// Consumer takes entries from one mailbox. The mailbox assigns entries to it, in strict rotation with its
// fellows, as far as its limits allow; Take fetches them.
type Consumer struct {
	// Credit is the most entries in flight (assigned, not yet settled on disk); 0 is no limit.
	Credit int
	// UnsentMax bounds the bytes assigned and not yet taken, so that a socket that does not drain holds
	// little; at least one entry is always assigned.
	UnsentMax int64
	// Priority: consumers of a higher one are served first while they have room.
	Priority int
	// Wake is called, with no lock held, when entries were assigned to an empty queue. It must not block.
	Wake func()

	queue    []Delivery
	unsent   int64
	inFlight int
	sentHigh uint64
	woken    bool // was assigned something since its last Wake
	closed   bool
}

// Delivery is an entry handed to a consumer.
type Delivery struct {
	// Key settles it.
	Key      uint64
	Seq      uint64
	Message  *message.Message // nil when Released
	Tag      string
	Attr     uint8
	Priority uint8
	// Redelivered: it was handed to a consumer before (MQTT: DUP).
	Redelivered bool
	// Released: only the end of the handshake is outstanding (MQTT: send PUBREL, not PUBLISH).
	Released   bool
	Deliveries uint32
	ExpiresAt  int64
}

// Attach lets c consume. It runs in a batch (an empty one will do), for what is not flushed yet is
// announced to c by that batch's group. Call Wake once the append lock is free.
func (m *Mailbox) Attach(_ *store.Batch, c *Consumer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	at := len(m.consumers)
	for i, o := range m.consumers {
		if o.Priority < c.Priority {
			at = i
			break
		}
	}
	m.consumers = slices.Insert(m.consumers, at, c)
	if m.policy.Durable {
		m.store.Notify(&m.waiter)
	}
}

// Detach ends c's consuming: what was in flight is ready again at its original position, in order, and
// carries Redelivered if c had taken it. It returns the highest seq ever taken by c, 0 for none.
// Detaching twice is fine. Call Wake afterwards if there are other consumers.
func (m *Mailbox) Detach(c *Consumer) (sent uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c.closed {
		return c.sentHigh
	}
	c.closed = true
	c.queue = nil
	if i := slices.Index(m.consumers, c); i >= 0 {
		m.consumers = slices.Delete(m.consumers, i, i+1)
	}
	m.rotation = 0
	for key, f := range m.flights {
		if f.consumer == c && !f.settled {
			m.giveBackLocked(key, f)
		}
	}
	return c.sentHigh
}

// Take moves what is assigned to c into buf, which may be a reused slice, and assigns more in its place.
// The caller writes the result out before it takes again.
func (m *Mailbox) Take(c *Consumer, buf []Delivery) []Delivery {
	m.mu.Lock()
	taken := len(buf)
	buf = append(buf, c.queue...)
	clear(c.queue) // the messages may go
	c.queue = c.queue[:0]
	c.unsent = 0
	for _, d := range buf[taken:] {
		c.sentHigh = max(c.sentHigh, d.Seq)
		if f := m.flights[d.Key]; f != nil {
			f.sent = true
		}
	}
	m.dispatchLocked(m.store.Flushed())
	c.woken = false // the caller takes until nothing comes
	first, more := m.takeWokenLocked()
	m.mu.Unlock()
	wakeAll(first, more)
	return buf
}

// SetCredit changes the limit of entries in flight (AMQP basic.qos). Call Wake afterwards.
func (m *Mailbox) SetCredit(c *Consumer, credit int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c.Credit = credit
}
