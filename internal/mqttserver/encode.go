package mqttserver

import (
	"encoding/binary"
	"sync"

	"emanet/internal/broker"
	"emanet/internal/message"
	"emanet/internal/mqttwire"
)

// outgoing is one message on its way to this client.
type outgoing struct {
	message  *message.Message
	attr     uint8
	tag      string
	packetID uint16
	dup      bool
}

// largePayload is the size from which a payload is written from where it lies.
const largePayload = 4 << 10

// flushAt is how many bytes are gathered before they are written, messages yet to come or not: a client
// that does not read holds no more than that in its own form.
const flushAt = 256 << 10

// encodeMessage appends a PUBLISH; false: it is larger than the client takes ([MQTT-3.1.2-24]).
func (o *output) encodeMessage(m *outgoing, now int64) bool {
	c := o.conn
	d := mqttwire.Delivery{
		Topic: m.message.Topic, Payload: m.message.Payload,
		QoS: m.attr & broker.AttrQoS, Retain: m.attr&broker.AttrRetain != 0,
		Dup: m.dup, PacketID: m.packetID,
	}
	if c.version == mqttwire.V5 {
		if m.message.Properties != nil {
			d.Forward = forward(m.message.Properties)
		}
		if m.tag != "" {
			d.SubscriptionIDs = identifiers(m.tag)
		}
		if at := m.message.ExpiresAt; at != 0 { // what is left of it ([MQTT-3.3.2-6])
			d.HasExpiry, d.MessageExpiry = true, uint32(max(1, (at-now+999)/1000))
		}
	}
	if c.exceeds(&d) {
		c.server.stats.TooLargeDropped.Add(1)
		return false
	}
	before := len(o.buf)
	if len(d.Payload) < largePayload {
		o.buf = mqttwire.AppendDelivery(o.buf, &d, c.version)
	} else {
		o.buf = mqttwire.AppendDeliveryHead(o.buf, &d, c.version)
		o.chunks = append(o.chunks, o.buf[o.chunked:], d.Payload)
		o.chunked = len(o.buf)
		o.gathered += len(d.Payload)
	}
	o.gathered += len(o.buf) - before
	if o.gathered >= flushAt {
		o.flush()
	}
	return true
}

// exceeds tells whether a packet is larger than its client takes, or than MQTT can say: what is added to a
// message on its way may bring it there.
func (c *conn) exceeds(d *mqttwire.Delivery) bool {
	if c.maxOut == 0 && len(d.Payload) < mqttwire.MaxPacketSize/2 {
		return false
	}
	limit := uint32(mqttwire.MaxPacketSize)
	if c.maxOut != 0 {
		limit = min(limit, c.maxOut)
	}
	return uint64(mqttwire.DeliverySize(d, c.version)) > uint64(limit)
}

// identifiers turns an entry's tag into subscription identifiers.
func identifiers(tag string) mqttwire.SubscriptionIDs {
	var ids mqttwire.SubscriptionIDs
	for rest := []byte(tag); len(rest) > 0; {
		id, n := binary.Uvarint(rest)
		if n <= 0 {
			break
		}
		ids = ids.Append(uint32(id))
		rest = rest[n:]
	}
	return ids
}

// Output buffers are pooled; one that grew far is left to the collector.
const (
	outputBuffer    = 16 << 10
	outputBufferMax = 512 << 10
)

var outputBuffers = sync.Pool{New: func() any { b := make([]byte, 0, outputBuffer); return &b }}

func (o *output) takeBuffer() {
	o.box = outputBuffers.Get().(*[]byte)
	o.buf = *o.box
}

func (o *output) giveBuffer() {
	if cap(o.buf) <= outputBufferMax {
		*o.box = o.buf[:0]
		outputBuffers.Put(o.box)
	}
	o.box, o.buf = nil, nil
}

// flush writes what was gathered. After an error it only throws it away.
func (o *output) flush() {
	if o.err == nil && len(o.buf)+len(o.chunks) > 0 {
		var n int64
		n, o.err = o.writeOut()
		o.conn.server.stats.BytesOut.Add(uint64(n))
	}
	clear(o.chunks)
	o.buf, o.chunks, o.chunked, o.gathered = o.buf[:0], o.chunks[:0], 0, 0
}

func (o *output) writeOut() (int64, error) {
	if len(o.chunks) == 0 {
		n, err := o.conn.nc.Write(o.buf)
		return int64(n), err
	}
	if len(o.buf) > o.chunked {
		o.chunks = append(o.chunks, o.buf[o.chunked:])
	}
	all := o.chunks // WriteTo consumes the slice it is called on
	return all.WriteTo(o.conn.nc)
}
