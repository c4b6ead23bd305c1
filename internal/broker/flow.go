package broker

import (
	"emanet/internal/mailbox"
	"emanet/internal/store"
)

// ClientID of the session.
func (c *Client) ClientID() string { return c.session.clientID }

// Durable tells whether the session is on disk.
func (c *Client) Durable() bool { return c.session.durable }

// Take fetches what is to be sent next, as mailbox.Take.
func (c *Client) Take(buf []mailbox.Delivery) []mailbox.Delivery {
	return c.session.mailbox.Take(&c.consumer, buf)
}

// Displaced tells whether another connection has the session.
func (c *Client) Displaced() bool { return c.displaced.Load() }

// InFlight describes the delivery under a key (packet id - 1). For the reader.
func (c *Client) InFlight(key uint64) (store.Entry, bool) {
	if !c.resumed { // first: reading goes on meanwhile
		c.resumed = !c.session.mailbox.Resuming()
	}
	return c.session.mailbox.InFlight(&c.consumer, key)
}

// Unsure tells, after InFlight has found nothing, that the delivery may be in flight all the same: another
// connection has the session, or what was sent before a restart was still being read from disk. A PUBREC
// is then left without an answer; the resend asks for it again (ADR 0002, R8).
func (c *Client) Unsure() bool { return !c.resumed || c.displaced.Load() }

// control is the broker's, with the client's patience.
func (c *Client) control(size int) (*store.Batch, error) {
	if c.impatient {
		return c.broker.store.Begin(store.Control, size)
	}
	return c.broker.control(size)
}

// settleMax keys go into one batch, so that one fits into the smallest journal.
const settleMax = batchAim / store.SizeSettle

// Settle ends deliveries: the client has them. Nobody waits for it; keys and credit are free when it is
// on disk.
func (c *Client) Settle(keys []uint64) error {
	s := c.session
	if len(keys) == 0 {
		return nil
	}
	if !s.durable && !s.mailbox.Owes() {
		s.mailbox.Settle(nil, &c.consumer, keys)
		s.mailbox.Wake()
		return nil
	}
	for len(keys) > 0 {
		n := min(len(keys), settleMax)
		b, err := c.control(n * store.SizeSettle)
		if err != nil {
			return err
		}
		settled := s.mailbox.Settle(b, &c.consumer, keys[:n])
		if lsn := b.Commit(); settled > 0 {
			s.noteSettled(lsn) // 0 when all of it was on loan from memory
		}
		keys = keys[n:]
	}
	if s.mailbox.Borrows() { // what was on loan has left room at once
		s.mailbox.Wake()
	}
	return nil
}

// Return is for deliveries that the client may not read any more: those of shared subscriptions go to members that
// may. It returns the keys of the others.
func (c *Client) Return(keys []uint64) (own []uint64) {
	own = c.session.mailbox.Return(&c.consumer, keys)
	if len(own) < len(keys) { // that has left room
		c.session.mailbox.Wake()
	}
	return own
}

// noteSettled keeps the newest: the reader settles, and so does the writer what is too large.
func (s *Session) noteSettled(lsn store.LSN) {
	for {
		old := s.settledLSN.Load()
		if uint64(lsn) <= old || s.settledLSN.CompareAndSwap(old, uint64(lsn)) {
			return
		}
	}
}

// SettledLSN is what an answer about a delivery that is no longer there waits for: its settlement may
// not be on disk yet.
func (c *Client) SettledLSN() store.LSN { return store.LSN(c.session.settledLSN.Load()) }

// Release lets the body of a QoS 2 delivery go (PUBREC came). PUBREL waits for the LSN it returns. False:
// there is no such delivery.
func (c *Client) Release(key uint64) (store.LSN, bool, error) {
	s := c.session
	if !s.durable {
		lsn, ok := s.mailbox.Release(nil, &c.consumer, key)
		return lsn, ok, nil
	}
	b, err := c.control(store.SizeSmall)
	if err != nil {
		return 0, false, err
	}
	lsn, ok := s.mailbox.Release(b, &c.consumer, key)
	c.await()
	b.Commit()
	return lsn, ok, nil
}

// Unreceive forgets an inbound QoS 2 packet id (PUBREL came). PUBCOMP waits for the LSN. False: it was not
// known; the LSN then covers the last one forgotten, which it may have been.
func (c *Client) Unreceive(packetID uint16) (store.LSN, bool, error) {
	s := c.session
	if !s.durable {
		_, ok := s.received[packetID]
		delete(s.received, packetID)
		return 0, ok, nil
	}
	b, err := c.control(store.SizeSmall)
	if err != nil {
		return 0, false, err
	}
	if s.client != c {
		b.Abort()
		return 0, false, ErrGone
	}
	if _, ok := s.received[packetID]; !ok {
		lsn := s.lastUnreceived
		b.Abort()
		return lsn, false, nil
	}
	delete(s.received, packetID)
	b.Unreceived(s.mailbox.ID(), packetID)
	s.lastUnreceived = b.LSN()
	c.await()
	return b.Commit(), true, nil
}

// Received is how many inbound QoS 2 messages are not released yet; they count for the receive maximum.
func (c *Client) Received() int { return len(c.session.received) }

// NotifyRoom has w.F called when a publish that was refused with ErrFull or ErrBusy has a chance again.
func (b *Broker) NotifyRoom(w *store.RoomWaiter) { b.store.NotifyRoom(w) }

// await has the receiver told when the batch being built is flushed.
func (c *Client) await() { c.broker.store.Notify(&c.waiter) }

// AwaitTail has the receiver told when all that is appended so far is flushed; false: it is already. It
// is for answers that rest on somebody else's batch.
func (c *Client) AwaitTail() bool { return c.broker.store.NotifyTail(&c.waiter) }
