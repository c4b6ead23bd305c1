package mailbox

import (
	"emanet/internal/store"
)

// Settle ends the entries in flight at c under keys: they are done. A key that is not in flight at c is
// passed over (a late acknowledgement after a takeover); the number of settled ones is returned.
//
// A loan is settled in its lender, in the same batch; its key is free at once, for a crash ends the loan.
// It is gone then, also when its client refused it: no other member gets it ([MQTT-4.8.2-6]).
//
// The keys and the credit are free again when the batch is flushed; at once where nothing was written (call
// Wake then).
// size of the batch: SizeSettle per key.
func (m *Mailbox) Settle(b *store.Batch, c *Consumer, keys []uint64) int {
	var loans []owed
	m.mu.Lock()
	s := settler{m: m, b: b}
	n := 0
	for _, key := range keys {
		f := m.flightOf(c, key)
		if f == nil {
			continue
		}
		n++
		if f.loan() {
			if loans == nil {
				loans = make([]owed, 0, len(keys))
			}
			loans = append(loans, m.parted(&f.item))
		}
		s.add(m.lane(f.Priority), &f.item)
		m.settledLocked(b, key, f)
	}
	s.end()
	if s.runs > 0 {
		m.store.Notify(&m.waiter)
	}
	m.mu.Unlock()
	settleOwed(b, loans)
	return n
}

// flightOf finds an unsettled entry that was sent under key and is c's now. A session's may have been sent
// on an earlier connection and not on this one yet: then it is taken out of those that wait for that, unless
// it is Released. Its PUBREL is still to go out, and only the answer to that counts (ADR 0002, R8).
func (m *Mailbox) flightOf(c *Consumer, key uint64) *flight {
	if c.closed {
		return nil
	}
	f := m.flights[key]
	if f == nil {
		if l, i := m.toResendLocked(key); l != nil && !l.returned[i].Released {
			return m.adoptLocked(c, l, i)
		}
		return nil
	}
	if f.settled || f.consumer != c || !f.sent() {
		return nil
	}
	return f
}

// toResendLocked finds the lowest entry of a session's key among those that wait to be sent again. Clients
// that acknowledge them without waiting are rare, so it may take its time.
func (m *Mailbox) toResendLocked(key uint64) (in *lane, at int) {
	if m.policy.Identifiers == 0 {
		return nil, 0
	}
	for _, l := range m.lanes {
		for i := range l.returned {
			if it := &l.returned[i]; m.key(it.Seq) == key && (in != l || it.Seq < l.returned[at].Seq) {
				in, at = l, i
			}
		}
		if in != nil {
			break
		}
	}
	return in, at
}

// adoptLocked makes an entry that waits to be sent again one in flight at c.
func (m *Mailbox) adoptLocked(c *Consumer, l *lane, i int) *flight {
	it := l.returned.remove(i)
	m.keep(&it, -1)
	m.ready--
	m.bytes -= m.cost(it.Message)
	if m.flights == nil {
		m.flights = make(map[uint64]*flight)
	}
	f := m.newFlight(it, c)
	f.taken = true
	c.inFlight++
	m.flights[m.key(it.Seq)] = f
	return f
}

// settledLocked marks a flight as done: its key is free when the settlement is on disk.
func (m *Mailbox) settledLocked(b *store.Batch, key uint64, f *flight) {
	m.memory -= f.memory()
	f.Message = nil
	if !f.durable() {
		m.freeLocked(key)
		return
	}
	f.settled = true
	m.settling = append(m.settling, settlement{key, b.LSN()})
}

// freeLocked gives key and credit back.
func (m *Mailbox) freeLocked(key uint64) {
	f := m.flights[key]
	if f == nil {
		return
	}
	f.consumer.inFlight--
	delete(m.flights, key)
	*f = flight{} // the message may go
	if len(m.spare) < spareMax {
		m.spare = append(m.spare, f)
	}
}

// spareMax is how many freed flights are kept for reuse.
const spareMax = 256

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
		return f.lsn(), true
	}
	m.memory -= f.memory()
	if f.durable() {
		b.Release(m.id, f.Priority, f.Seq, store.Cost(f.Message))
		f.setLSN(b.LSN())
		m.store.Notify(&m.waiter) // if it comes back it may go on when this is on disk
	}
	f.Released, f.Message = true, nil
	f.taken = true // assigned again and not taken yet: Take must not give it out beside the answer to this (ADR 0002, R8)
	m.memory += f.memory()
	return f.lsn(), true
}

// InFlight describes the entry in flight at c under key; false if there is none. MQTT servers look at
// it to tell a PUBREC for a QoS 1 message from a right one, or one that is Released already.
func (m *Mailbox) InFlight(c *Consumer, key uint64) (store.Entry, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c.closed {
		return store.Entry{}, false
	}
	f := m.flights[key]
	if f == nil {
		if l, i := m.toResendLocked(key); l != nil {
			return l.returned[i].Entry, true
		}
		return store.Entry{}, false
	}
	if f.settled || f.consumer != c || !f.sent() {
		return store.Entry{}, false
	}
	return f.Entry, true
}

// Resuming tells that what was sent before a restart is not all read from disk yet: a session's key that
// InFlight does not find may be in use all the same.
func (m *Mailbox) Resuming() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range m.lanes {
		if l.gap.count > 0 && (m.sentFirst > 0 || l.gap.after < m.sentHigh) {
			return true
		}
	}
	return false
}

// Requeue gives entries in flight at c back to their original positions, as redelivered. b may be nil
// unless the policy counts deliveries. Call Wake afterwards. It returns how many there were.
func (m *Mailbox) Requeue(b *store.Batch, c *Consumer, keys []uint64) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for _, key := range keys {
		f := m.flightOf(c, key)
		if f == nil || !f.taken {
			continue
		}
		n++
		if m.policy.CountDeliveries {
			f.Deliveries++
			if f.durable() {
				b.Deliveries(m.id, f.Priority, f.Seq, f.Deliveries)
			}
		}
		it := m.landLocked(key, f)
		m.giveBack(m.lane(it.Priority), it)
	}
	return n
}

// landLocked ends a flight whose entry is ready again, and returns it for the caller to place.
func (m *Mailbox) landLocked(key uint64, f *flight) item {
	it := f.item
	m.memory -= it.memory()
	m.freeLocked(key)
	m.count(&it, +1)
	return it
}

// DeadLetter drops entries in flight at c (reject without requeue, delivery limit) by way of the Host's
// dead-letter routing, in this one batch. It returns how many there were. size of the batch: SizeSettle and
// the moves, per key.
func (m *Mailbox) DeadLetter(b *store.Batch, c *Consumer, keys []uint64, r Reason) int {
	m.mu.Lock()
	s := settler{m: m, b: b}
	n := 0
	for _, key := range keys {
		f := m.flightOf(c, key)
		if f == nil || !f.taken {
			continue
		}
		n++
		s.dropped[r]++
		s.dead = append(s.dead, dead{f.Entry, r})
		s.add(m.lane(f.Priority), &f.item)
		m.settledLocked(b, key, f)
	}
	s.end()
	if s.runs > 0 {
		m.store.Notify(&m.waiter)
	}
	m.mu.Unlock()
	s.finish()
	return n
}
