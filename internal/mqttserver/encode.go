package mqttserver

import (
	"net"
	"sync"

	"emanet/internal/broker"
	"emanet/internal/mailbox"
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

// encodeMessage appends a PUBLISH; false: it is not for the client, as it is larger than the client takes
// ([MQTT-3.1.2-24]) or of a topic it may not read any more.
func (o *output) encodeMessage(m *outgoing, now int64) bool {
	c := o.conn
	if !o.mayRead(m.message.Topic) {
		return false
	}
	d := mqttwire.Delivery{
		Topic: m.message.Topic, Payload: m.message.Payload,
		QoS: m.attr & broker.AttrQoS, Retain: m.attr&broker.AttrRetain != 0,
		Dup: m.dup, PacketID: m.packetID,
	}
	if c.version == mqttwire.V5 {
		if m.message.Properties != nil {
			d.Forward = m.message.Properties.Encoded(forward)
		}
		if m.tag != "" {
			o.pad.identifiers = appendIdentifiers(o.pad.identifiers[:0], m.tag)
			d.SubscriptionIDs = o.pad.identifiers
		}
		if at := m.message.ExpiresAt; at != 0 { // what is left of it ([MQTT-3.3.2-6])
			d.HasExpiry, d.MessageExpiry = true, uint32(max(1, (at-now+999)/1000))
		}
		if c.aliasOut > 0 {
			o.useAlias(&d)
		}
	}
	if c.exceeds(&d) {
		c.server.stats.TooLargeDropped.Add(1)
		return false
	}
	o.pad.tally.packets[mqttwire.TypePublish]++
	o.pad.tally.publish(d.Payload)
	before := len(o.pad.buf)
	if len(d.Payload) < largePayload {
		o.pad.buf = mqttwire.AppendDelivery(o.pad.buf, &d, c.version)
	} else {
		o.pad.buf = mqttwire.AppendDeliveryHead(o.pad.buf, &d, c.version)
		o.pad.chunks = append(o.pad.chunks, o.pad.buf[o.pad.chunked:], d.Payload)
		o.pad.chunked = len(o.pad.buf)
		o.pad.gathered += len(d.Payload)
	}
	o.pad.gathered += len(o.pad.buf) - before
	if o.pad.gathered >= flushAt {
		o.flush()
	}
	return true
}

// useAlias has the topic sent as its alias, or along with the one it gets: then it counts only if the packet goes out,
// which is certain where it fits. Should the connection end before, so do its aliases.
func (o *output) useAlias(d *mqttwire.Delivery) {
	if o.aliases == nil {
		o.aliases = newOutboundAliases(o.conn.aliasOut)
	}
	alias, known := o.aliases.offer(d.Topic)
	switch {
	case alias == 0:
		return
	case known:
		d.TopicAlias, d.Topic = alias, ""
		return
	}
	d.TopicAlias = alias
	if o.conn.exceeds(d) {
		d.TopicAlias = 0
		return
	}
	o.aliases.keep(d.Topic, alias)
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

// appendIdentifiers adds the subscription identifiers of an entry's tag, which is uvarints.
func appendIdentifiers(ids mqttwire.SubscriptionIDs, tag string) mqttwire.SubscriptionIDs {
	id, shift := uint64(0), 0
	for i := range len(tag) {
		id |= uint64(tag[i]&0x7F) << shift
		if shift += 7; tag[i] < 0x80 {
			ids = ids.Append(uint32(id))
			id, shift = 0, 0
		}
	}
	return ids
}

// pad is what a writer works with. They are pooled: a connection without a writer has none.
type pad struct {
	buf        []byte
	chunks     net.Buffers // when large payloads go out without being copied
	chunked    int         // so much of buf is in chunks
	gathered   int         // bytes in buf and chunks
	tally      tally       // of the packets in them
	deliveries []mailbox.Delivery
	retained   []broker.Retained

	identifiers mqttwire.SubscriptionIDs // of the message being encoded
}

// A pad begins with padBytes; one that grew beyond padBytesMax is left to the collector.
const (
	padBytes    = 16 << 10
	padBytesMax = 512 << 10
)

var pads = sync.Pool{New: func() any { return &pad{buf: make([]byte, 0, padBytes)} }}

func (o *output) givePad() {
	if p := o.pad; cap(p.buf) <= padBytesMax && cap(p.deliveries) <= listKept {
		pads.Put(p)
	}
	o.pad = nil
}

// flush writes what was gathered. After an error it only throws it away.
func (o *output) flush() {
	switch {
	case o.err != nil:
	case len(o.pad.buf)+len(o.pad.chunks) > 0:
		var n int64
		n, o.err = o.writeOut()
		o.sent(n)
	case o.unsent:
		o.err = o.conn.in.over.Flush()
	}
	o.unsent = false
	p := o.pad
	p.tally = tally{} // what an error has kept from being sent
	clear(p.chunks)
	p.buf, p.chunks, p.chunked, p.gathered = p.buf[:0], p.chunks[:0], 0, 0
}

func (o *output) writeOut() (int64, error) {
	if len(o.pad.chunks) == 0 {
		n, err := o.conn.nc.Write(o.pad.buf)
		return int64(n), err
	}
	if len(o.pad.buf) > o.pad.chunked {
		o.pad.chunks = append(o.pad.chunks, o.pad.buf[o.pad.chunked:])
	}
	all := o.pad.chunks // writing consumes the slice it is called on
	if over := o.conn.in.over; over != nil {
		return over.WriteBuffers(&all)
	}
	return all.WriteTo(o.conn.nc)
}
