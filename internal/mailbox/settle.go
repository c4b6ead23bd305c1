package mailbox

import (
	"emanet/internal/store"
)

// settler writes settlements of entries that come in order of seq as few ranges.
type settler struct {
	m        *Mailbox
	b        *store.Batch
	priority uint8
	run      store.SeqRange
	bytes    int64
}

func (s *settler) add(it *item) {
	if !it.durable {
		return
	}
	if s.run.From != 0 && s.priority == it.Priority && it.Seq == s.run.To+1 {
		s.run.To = it.Seq
		s.bytes += store.Cost(it.Message)
		return
	}
	s.end()
	s.priority, s.run, s.bytes = it.Priority, store.SeqRange{From: it.Seq, To: it.Seq}, store.Cost(it.Message)
}

func (s *settler) end() {
	if s.run.From != 0 {
		s.b.Settle(s.m.id, s.priority, s.run, s.run.To-s.run.From+1, s.bytes)
	}
	s.run = store.SeqRange{}
}

// Settle ends the entries in flight at c under keys: they are done. A key that is not in flight at c is
// passed over (a late acknowledgement after a takeover); the number of settled ones is returned.
//
// The keys and the credit are free again when the batch is flushed; at once where nothing was written.
// size of the batch: SizeSettle per key.
func (m *Mailbox) Settle(b *store.Batch, c *Consumer, keys []uint64) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := settler{m: m, b: b}
	n := 0
	for _, key := range keys {
		f := m.flightOf(c, key)
		if f == nil {
			continue
		}
		n++
		s.add(&f.item)
		m.settledLocked(b, key, f)
	}
	s.end()
	if len(m.settling) > 0 {
		m.store.Notify(&m.waiter)
	}
	return n
}

// flightOf finds an unsettled entry in flight at c.
func (m *Mailbox) flightOf(c *Consumer, key uint64) *flight {
	f := m.flights[key]
	if f == nil || f.settled || f.consumer != c || c.closed {
		return nil
	}
	return f
}

// settledLocked marks a flight as done: its key is free when the settlement is on disk.
func (m *Mailbox) settledLocked(b *store.Batch, key uint64, f *flight) {
	m.memory -= f.memory()
	f.Message = nil
	if !f.durable {
		m.freeLocked(key)
		return
	}
	f.settled = true
	m.settling = append(m.settling, settlement{key, b.LSN()})
}

// freeLocked gives key and credit back.
func (m *Mailbox) freeLocked(key uint64) {
	if f := m.flights[key]; f != nil {
		f.consumer.inFlight--
		delete(m.flights, key)
		m.spare = append(m.spare, f)
	}
}

// Release lets the body of an entry go that is in flight at c (MQTT: PUBREC came). The entry stays under
// its key until it is settled, also over a restart. It returns the LSN that the next step (PUBREL) waits
// for, and false if the key is not in flight at c. A second Release of an entry writes nothing.
func (m *Mailbox) Release(b *store.Batch, c *Consumer, key uint64) (store.LSN, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f := m.flightOf(c, key)
	if f == nil {
		return 0, false
	}
	if f.Released {
		return f.lsn, true
	}
	m.memory -= f.memory()
	if f.durable {
		b.Release(m.id, f.Priority, f.Seq, store.Cost(f.Message))
		f.lsn = b.LSN()
	}
	f.Released, f.Message = true, nil
	m.memory += f.memory()
	return f.lsn, true
}

// InFlight describes the entry in flight at c under key; false if there is none. MQTT servers look at
// it to tell a PUBREC for a QoS 1 message from a right one.
func (m *Mailbox) InFlight(c *Consumer, key uint64) (store.Entry, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f := m.flightOf(c, key)
	if f == nil {
		return store.Entry{}, false
	}
	return f.Entry, true
}

// Requeue gives entries in flight at c back to their original positions, as redelivered. b may be nil
// unless the policy counts deliveries. Call Wake afterwards. It returns how many there were.
func (m *Mailbox) Requeue(b *store.Batch, c *Consumer, keys []uint64) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for _, key := range keys {
		f := m.flightOf(c, key)
		if f == nil {
			continue
		}
		n++
		f.sent = true
		if m.policy.CountDeliveries {
			f.Deliveries++
			if f.durable {
				b.Deliveries(m.id, f.Priority, f.Seq, f.Deliveries)
			}
		}
		m.giveBackLocked(key, f)
	}
	return n
}

// giveBackLocked makes a flight ready again.
func (m *Mailbox) giveBackLocked(key uint64, f *flight) {
	it := f.item
	m.memory -= it.memory()
	m.freeLocked(key)
	m.count(&it, +1)
	m.lane(it.Priority).giveBack(it)
}

// DeadLetter drops entries in flight at c (reject without requeue, delivery limit) by way of the Host's
// dead-letter routing, in this one batch. It returns how many there were.
func (m *Mailbox) DeadLetter(b *store.Batch, c *Consumer, keys []uint64, r Reason) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := settler{m: m, b: b}
	n := 0
	for _, key := range keys {
		f := m.flightOf(c, key)
		if f == nil {
			continue
		}
		n++
		m.host.DeadLetter(b, m, &f.Entry, r)
		m.host.Dropped(m, r, 1)
		s.add(&f.item)
		m.settledLocked(b, key, f)
	}
	s.end()
	if len(m.settling) > 0 {
		m.store.Notify(&m.waiter)
	}
	return n
}

// PurgeSize is an upper bound of the batch that Purge needs now.
func (m *Mailbox) PurgeSize() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for _, l := range m.lanes {
		n += len(l.returned) + len(l.head.chunks)*chunkLen + len(l.tail.chunks)*chunkLen + 1
	}
	return n * store.SizeSettle
}

// Purge removes all that is ready, on disk or in memory, and returns how much that was. What is in flight
// stays.
func (m *Mailbox) Purge(b *store.Batch) uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.purged = m.loading
	var n uint64
	s := settler{m: m, b: b}
	take := func(it item) {
		n++
		m.count(&it, -1)
		s.add(&it)
	}
	for _, l := range m.lanes {
		for len(l.returned) > 0 {
			take(l.popFront())
		}
		for l.head.len() > 0 {
			take(l.head.popFront())
		}
		s.end()
		if g := l.gap; g.count > 0 {
			b.Settle(m.id, l.priority, store.SeqRange{From: g.after + 1, To: g.before - 1}, g.count, g.bytes)
			n += g.count
			m.ready -= g.count
			m.bytes -= g.bytes
			l.gap = gap{}
		}
		for l.tail.len() > 0 {
			take(l.tail.popFront())
		}
		s.end()
	}
	m.host.Dropped(m, ReasonPurged, n)
	return n
}
