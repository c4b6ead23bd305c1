package mqttserver

import (
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"time"

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
	if c.maxOut != 0 && mqttwire.DeliverySize(&d, c.version) > int(c.maxOut) {
		c.server.stats.TooLargeDropped.Add(1)
		return false
	}
	if len(d.Payload) < largePayload {
		o.buf = mqttwire.AppendDelivery(o.buf, &d, c.version)
		return true
	}
	o.buf = mqttwire.AppendDeliveryHead(o.buf, &d, c.version)
	o.chunks = append(o.chunks, o.buf, d.Payload)
	o.buf = getOutput()
	return true
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

func getOutput() []byte { return (*outputBuffers.Get().(*[]byte))[:0] }

func putOutput(b []byte) {
	if c := cap(b); c >= outputBuffer && c <= outputBufferMax {
		outputBuffers.Put(&b)
	}
}

// flush writes what was gathered and gives the buffers back.
func (o *output) flush() error {
	var n int64
	var err error
	if len(o.chunks) == 0 {
		if len(o.buf) > 0 {
			var w int
			w, err = o.conn.nc.Write(o.buf)
			n = int64(w)
		}
	} else {
		if len(o.buf) > 0 {
			o.chunks = append(o.chunks, o.buf)
		}
		all := o.chunks // WriteTo consumes the slice it is called on
		n, err = all.WriteTo(o.conn.nc)
		for i := 0; i < len(o.chunks); i += 2 { // every other one is ours, the payloads between are not
			if i != len(o.chunks)-1 {
				putOutput(o.chunks[i])
			}
		}
		clear(o.chunks)
		o.chunks = o.chunks[:0]
	}
	putOutput(o.buf)
	o.buf = nil
	o.conn.server.stats.BytesOut.Add(uint64(n))
	return err
}

// closeGently closes the connection so that the last words arrive: with bytes unread, close would send a
// reset, which overtakes them.
func closeGently(nc net.Conn) {
	if tcp, ok := nc.(interface{ CloseWrite() error }); ok {
		if tcp.CloseWrite() == nil && nc.SetReadDeadline(time.Now().Add(lingerTime)) == nil {
			var sink [4096]byte
			for range lingerReads {
				if _, err := nc.Read(sink[:]); err != nil {
					break
				}
			}
		}
	}
	if err := nc.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return // it is as closed as it will get
	}
}

// A peer gets a moment to read the last words and close its side; one that goes on sending does not.
const (
	lingerTime  = 200 * time.Millisecond
	lingerReads = 64
)
