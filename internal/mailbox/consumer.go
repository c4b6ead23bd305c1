package mailbox

import (
	"cmp"
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
	// Wake is called, with no lock held, when entries were assigned to an empty queue, or some have left by
	// Sweep: whoever waits for the mailbox to run low looks again. It must not block.
	Wake func()

	queue    []Delivery
	unsent   int64
	inFlight int
	turn     uint64 // of the mailbox, when it was last assigned something
	woken    bool   // was assigned something since its last Wake
	closed   bool
}

// keptQueue is the capacity up to which an empty queue is kept: an idle consumer holds little.
const keptQueue = 64

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

// Attach lets c consume. It runs in a batch, whose LSN what is sent to a session's consumer must wait for
// (ADR 0002, R5). What is not flushed yet is announced to c by that batch's group; if the batch is empty,
// by the next group. Call Wake once the append lock is free.
func (m *Mailbox) Attach(_ *store.Batch, c *Consumer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		c.closed = true
		return
	}
	m.consumers = append(m.consumers, c)
	if m.policy.Durable {
		m.store.Notify(&m.waiter)
	}
}

// Detach ends c's consuming: what was in flight is ready again at its original position, in order, and
// carries Redelivered if c had taken it. It returns the highest seq known to have been sent to any
// consumer, ever, 0 for none; Sent says more. Detaching twice is fine. Call Wake afterwards if there are
// other consumers. What was lent to the mailbox and not sent is its lender's again.
func (m *Mailbox) Detach(c *Consumer) (sent uint64) {
	m.mu.Lock()
	sent = max(m.high, m.sentHigh)
	if c.closed {
		m.mu.Unlock()
		return sent
	}
	c.closed = true
	c.queue, c.unsent = nil, 0
	if i := slices.Index(m.consumers, c); i >= 0 {
		m.consumers = slices.Delete(m.consumers, i, i+1)
	}
	m.emptyDueLocked()
	back := m.extractLocked(nil, func(*item) bool { return true })
	var unsent []item
	for key, f := range m.flights {
		if f.consumer != c || f.settled {
			continue
		}
		if it := m.landLocked(key, f); it.sent() {
			m.giveBack(m.lane(it.Priority), it)
		} else {
			unsent = append(unsent, it)
		}
	}
	m.unassignLocked(unsent)
	m.wishSweepLocked()
	m.mu.Unlock()
	giveBack(back)
	return sent
}

// unassignLocked puts entries that were never taken back to where they were: at the front of head, among
// what other consumers gave back before.
func (m *Mailbox) unassignLocked(items []item) {
	for _, it := range items {
		head := &m.lane(it.Priority).head
		for head.len() > 0 && head.front().Seq < it.Seq {
			items = append(items, head.popFront())
		}
	}
	slices.SortFunc(items, func(a, b item) int { return cmp.Compare(b.Seq, a.Seq) })
	for _, it := range items {
		m.lane(it.Priority).head.pushFront(it)
	}
}

// Take moves what is assigned to c into buf, which may be a reused slice, and assigns more in its place.
// The caller writes the result out before it takes again, until nothing comes.
func (m *Mailbox) Take(c *Consumer, buf []Delivery) []Delivery {
	m.mu.Lock()
	for i := range c.queue {
		d := &c.queue[i]
		f := m.flights[d.Key]
		if f == nil || f.Seq != d.Seq || f.consumer != c || f.settled || f.taken {
			continue // acknowledged before it was sent again
		}
		f.taken = true
		if m.untaken > 0 && !f.sent() {
			m.noteSentLocked(&f.item)
		}
		f.setSent()
		m.high = max(m.high, d.Seq)
		if f.Released {
			d.Released, d.Message = true, nil
		}
		buf = append(buf, *d)
	}
	clear(c.queue) // the messages may go
	c.queue = c.queue[:0]
	c.unsent = 0
	m.dispatchLocked(m.store.Flushed())
	if len(c.queue) == 0 && cap(c.queue) > keptQueue {
		c.queue = nil
	}
	// The caller takes until nothing comes. If nothing came, and a flush has made entries ready just now, it
	// would stop before them: the flush's own wake finds nothing left to assign.
	c.woken = len(buf) == 0 && len(c.queue) > 0
	first, more := m.takeWokenLocked()
	told := m.takeWaitersLocked()
	m.mu.Unlock()
	wakeAll(first, more)
	tellRoom(told)
	return buf
}

// SetCredit changes the limit of entries in flight (AMQP basic.qos). Call Wake afterwards.
func (m *Mailbox) SetCredit(c *Consumer, credit int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c.Credit = credit
}
