package message

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// The stored form (docs/format/journal.md shows it too):
//
//	+-------+-------------+----------------------+-------+--------------+------------+---------+
//	| flags | received_at | [expires_at-received]| topic | [properties] | payload    |
//	| 1 B   | uvarint     | uvarint              | bytes | see below    | the rest   |
//	+-------+-------------+----------------------+-------+--------------+------------+---------+
//
// "bytes" is a uvarint length and that many bytes. Properties are a presence byte, the present ones
// as bytes in the order content type, response topic, correlation data, then a uvarint count of user
// properties and their keys and values.
const (
	flagQoS        = 0x03
	flagRetain     = 0x04
	flagExpires    = 0x08
	flagProperties = 0x10
	flagsKnown     = flagQoS | flagRetain | flagExpires | flagProperties
)

const (
	hasFormat = 1 << iota
	formatUTF8
	hasContentType
	hasResponseTopic
	hasCorrelation
)

// ErrCorrupt is wrapped by every error of Decode.
var ErrCorrupt = errors.New("stored message is damaged")

// EncodedMax is an upper bound of what Append will add, so that callers can ask for room beforehand.
func (m *Message) EncodedMax() int {
	n := 1 + 3*binary.MaxVarintLen64 + len(m.Topic) + len(m.Payload)
	if p := m.Properties; p != nil {
		n += 1 + 4*binary.MaxVarintLen64 + len(p.ContentType) + len(p.ResponseTopic) + len(p.Correlation)
		for _, u := range p.User {
			n += 2*binary.MaxVarintLen64 + len(u.Key) + len(u.Value)
		}
	}
	return n
}

// Append adds the stored form of m to dst. The ID is not part of it: pages and records hold it beside.
func (m *Message) Append(dst []byte) []byte {
	flags := m.QoS & flagQoS
	if m.Retain {
		flags |= flagRetain
	}
	if m.ExpiresAt != 0 {
		flags |= flagExpires
	}
	if m.Properties != nil {
		flags |= flagProperties
	}
	dst = append(dst, flags)
	dst = binary.AppendUvarint(dst, uint64(m.ReceivedAt))
	if m.ExpiresAt != 0 {
		dst = binary.AppendVarint(dst, m.ExpiresAt-m.ReceivedAt)
	}
	dst = appendString(dst, m.Topic)
	if m.Properties != nil {
		dst = m.Properties.append(dst)
	}
	return append(dst, m.Payload...)
}

func (p *Properties) append(dst []byte) []byte {
	var has byte
	set := func(on bool, bit byte) {
		if on {
			has |= bit
		}
	}
	set(p.HasPayloadFormat, hasFormat)
	set(p.PayloadIsUTF8, formatUTF8)
	set(p.HasContentType, hasContentType)
	set(p.HasResponseTopic, hasResponseTopic)
	set(p.HasCorrelation, hasCorrelation)
	dst = append(dst, has)
	if p.HasContentType {
		dst = appendString(dst, p.ContentType)
	}
	if p.HasResponseTopic {
		dst = appendString(dst, p.ResponseTopic)
	}
	if p.HasCorrelation {
		dst = binary.AppendUvarint(dst, uint64(len(p.Correlation)))
		dst = append(dst, p.Correlation...)
	}
	dst = binary.AppendUvarint(dst, uint64(len(p.User)))
	for _, u := range p.User {
		dst = appendString(dst, u.Key)
		dst = appendString(dst, u.Value)
	}
	return dst
}

func appendString(dst []byte, s string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(s)))
	return append(dst, s...)
}

// Decode reads the stored form. Nothing of the result aliases b. Errors wrap ErrCorrupt.
func Decode(b []byte) (*Message, error) {
	d := decoder{rest: b}
	flags := d.byte()
	if flags&^flagsKnown != 0 || flags&flagQoS == 3 {
		return nil, fmt.Errorf("%w: flags %#02x", ErrCorrupt, flags)
	}
	m := &Message{QoS: flags & flagQoS, Retain: flags&flagRetain != 0}
	at := d.uvarint()
	if at > math.MaxInt64 {
		d.bad = true
	}
	m.ReceivedAt = int64(at)
	if flags&flagExpires != 0 {
		m.ExpiresAt = m.ReceivedAt + d.varint()
	}
	m.Topic = string(d.bytes())
	if flags&flagProperties != 0 {
		m.Properties = d.properties()
	}
	if d.bad {
		return nil, fmt.Errorf("%w: it ends within a field", ErrCorrupt)
	}
	m.Payload = append(make([]byte, 0, len(d.rest)), d.rest...)
	return m, nil
}

// decoder reads fields off rest and remembers whether one did not fit.
type decoder struct {
	rest []byte
	bad  bool
}

func (d *decoder) byte() byte {
	if len(d.rest) == 0 {
		d.bad = true
		return 0
	}
	c := d.rest[0]
	d.rest = d.rest[1:]
	return c
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.rest)
	return advance(d, v, n)
}

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.rest)
	return advance(d, v, n)
}

func advance[T int64 | uint64](d *decoder, v T, n int) T {
	if n <= 0 {
		d.bad = true
		d.rest = nil
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

func (d *decoder) bytes() []byte {
	n := d.uvarint()
	if n > uint64(len(d.rest)) {
		d.bad = true
		d.rest = nil
		return nil
	}
	b := d.rest[:n]
	d.rest = d.rest[n:]
	return b
}

func (d *decoder) properties() *Properties {
	has := d.byte()
	p := &Properties{
		HasPayloadFormat: has&hasFormat != 0,
		PayloadIsUTF8:    has&formatUTF8 != 0,
		HasContentType:   has&hasContentType != 0,
		HasResponseTopic: has&hasResponseTopic != 0,
		HasCorrelation:   has&hasCorrelation != 0,
	}
	if p.HasContentType {
		p.ContentType = string(d.bytes())
	}
	if p.HasResponseTopic {
		p.ResponseTopic = string(d.bytes())
	}
	if p.HasCorrelation {
		p.Correlation = append([]byte(nil), d.bytes()...)
	}
	n := d.uvarint()
	// Each pair takes two bytes at least, so a count that lies is refused before memory is reserved.
	if n > uint64(len(d.rest)/2) {
		d.bad = true
		return p
	}
	for range n {
		p.User = append(p.User, Pair{string(d.bytes()), string(d.bytes())})
	}
	return p
}
