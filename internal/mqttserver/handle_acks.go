package mqttserver

import (
	"emanet/internal/broker"
	"emanet/internal/mqttwire"
	"emanet/internal/store"
)

// deliveryKey is the mailbox's key of a packet identifier.
func deliveryKey(packetID uint16) uint64 { return uint64(packetID) - 1 }

// decodeAck reads PUBACK, PUBREC, PUBREL or PUBCOMP.
func (c *conn) decodeAck(f mqttwire.Frame) (*mqttwire.Ack, error) {
	a := &c.scratch.ack
	err := mqttwire.DecodeAck(f, c.version, a)
	return a, err
}

// handlePuback settles a QoS 1 delivery, whatever the code ([MQTT-4.4.0-2]). Nobody waits for it to be
// written; the identifier is used again only after.
func (c *conn) handlePuback(f mqttwire.Frame) error {
	a, err := c.decodeAck(f)
	if err != nil {
		return err
	}
	key := deliveryKey(a.PacketID)
	e, ok := c.client.InFlight(key)
	if !ok {
		return nil // late, or of a session before this one
	}
	if e.Attr&broker.AttrQoS != 1 {
		return protocolError("PUBACK for a QoS 2 message")
	}
	c.settled = append(c.settled, key)
	return nil
}

// handlePubrec ends the first half of a QoS 2 delivery. PUBREL goes out when it is on disk that PUBREC was
// here: else a crash would send the PUBLISH again under an id that the client has released.
func (c *conn) handlePubrec(f mqttwire.Frame) error {
	a, err := c.decodeAck(f)
	if err != nil {
		return err
	}
	if err := c.settle(); err != nil { // so that an id settled in this burst counts as settled
		return err
	}
	key := deliveryKey(a.PacketID)
	e, ok := c.client.InFlight(key)
	switch {
	case !ok:
		c.pubrelUnknown(a.PacketID)
		return nil
	case e.Attr&broker.AttrQoS != 2:
		return protocolError("PUBREC for a QoS 1 message")
	case e.Released:
		return nil // its PUBREL is on the way; a PUBREC of an earlier connection is answered by the resume
	case a.Code.Failed(): // [MQTT-4.4.0-2]
		c.settled = append(c.settled, key)
		return nil
	}
	var lsn store.LSN
	err = c.whenRoom(func() (err error) {
		lsn, ok, err = c.client.Release(key)
		return err
	})
	if err != nil {
		return err
	}
	if !ok {
		c.pubrelUnknown(a.PacketID)
		return nil
	}
	c.out.answerOld(answer{lsn: lsn, kind: mqttwire.TypePubrel, packetID: a.PacketID}) // [MQTT-4.3.3-4]
	return nil
}

// pubrelUnknown answers a PUBREC for nothing: its delivery is settled, perhaps not yet on disk. After a takeover
// it is not, but on the new connection: a PUBREL from this one would have the client forget an id whose PUBLISH
// is being resent (4.3.3).
func (c *conn) pubrelUnknown(packetID uint16) {
	if c.client.Unsure() {
		return
	}
	c.out.answerOld(answer{
		lsn: c.client.SettledLSN(), kind: mqttwire.TypePubrel, packetID: packetID, code: mqttwire.PacketIDNotFound,
	})
}

// handlePubrel releases an inbound QoS 2 identifier. PUBCOMP goes out when that is on disk: else a stale
// id would swallow a later message after a crash.
func (c *conn) handlePubrel(f mqttwire.Frame) error {
	a, err := c.decodeAck(f)
	if err != nil {
		return err
	}
	var lsn store.LSN
	var known bool
	err = c.whenRoom(func() (err error) {
		c.publishing.Lock() // held publishes may be on their way on another goroutine
		defer c.publishing.Unlock()
		lsn, known, err = c.client.Unreceive(a.PacketID)
		return err
	})
	if err != nil {
		return err
	}
	code := mqttwire.Success
	if !known {
		code = mqttwire.PacketIDNotFound
	}
	c.out.answerOld(answer{lsn: lsn, kind: mqttwire.TypePubcomp, packetID: a.PacketID, code: code}) // [MQTT-4.3.3-11]
	return nil
}

// handlePubcomp settles a QoS 2 delivery.
func (c *conn) handlePubcomp(f mqttwire.Frame) error {
	a, err := c.decodeAck(f)
	if err != nil {
		return err
	}
	key := deliveryKey(a.PacketID)
	e, ok := c.client.InFlight(key)
	switch {
	case ok && e.Attr&broker.AttrQoS != 2:
		return protocolError("PUBCOMP for a QoS 1 message")
	case ok && e.Released: // else it is late, or of an earlier connection (ADR 0002, R8)
		c.settled = append(c.settled, key)
	}
	return nil
}

// settledKept is the capacity up to which the list of settled keys is kept between bursts.
const settledKept = 64

// settle writes what this burst has settled, in one batch.
func (c *conn) settle() error {
	if len(c.settled) == 0 {
		return nil
	}
	if err := c.whenRoom(func() error { return c.client.Settle(c.settled) }); err != nil {
		return err
	}
	if c.settled = c.settled[:0]; cap(c.settled) > settledKept {
		c.settled = nil
	}
	if c.client.Walking() { // retained messages wait for the mailbox to run low
		c.out.wake()
	}
	return nil
}
