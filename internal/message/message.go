// Package message holds the noun that every layer shares: one published message.
// It knows no protocol: servers translate their wire form into it once, at their edge.
package message

import "sync/atomic"

// Message is one published message. It is shared by all its recipients and never changed after it
// was handed to the broker; a server that must alter a field for one recipient does so while encoding.
type Message struct {
	// ID is the store's number of the message, dense and rising; 0 while it was never stored.
	ID uint64
	// Topic is the name it was published to, with '/' between levels.
	Topic string
	// Payload is passed on byte for byte.
	Payload []byte
	// ReceivedAt is the broker's clock at arrival, Unix milliseconds.
	ReceivedAt int64
	// ExpiresAt is the moment after which nobody may get it, Unix milliseconds; 0 is never.
	ExpiresAt int64
	// QoS is what the publisher asked for: 0, 1 or 2.
	QoS uint8
	// Retain tells that the publisher asked to keep it as the topic's retained value.
	Retain bool
	// Properties is nil for the many messages that have none.
	Properties *Properties
}

// Properties are what a publisher said about a message and what subscribers get unaltered.
type Properties struct {
	// PayloadIsUTF8 is MQTT 5's payload format indicator 1. HasPayloadFormat tells a sent 0 from an absent one.
	PayloadIsUTF8    bool
	HasPayloadFormat bool
	// HasContentType and its kin tell an empty value from an absent one: both are legal on the wire.
	HasContentType   bool
	HasResponseTopic bool
	HasCorrelation   bool
	ContentType      string
	ResponseTopic    string
	Correlation      []byte
	// User keeps the order and the duplicates of the publisher ([MQTT-3.3.2-18]).
	User []Pair

	encoded atomic.Pointer[[]byte]
}

// Encoded is what encode makes of p, made for the first recipient and shared by all others, who must not change it.
// There is room for one form: the one of the protocol that can say all of it.
func (p *Properties) Encoded(encode func(*Properties) []byte) []byte {
	if b := p.encoded.Load(); b != nil {
		return *b
	}
	b := encode(p) // perhaps two do so at once: they make the same
	p.encoded.Store(&b)
	return b
}

// Pair is a user property.
type Pair struct{ Key, Value string }

// overhead is what a message costs in memory beside its bytes: the struct, slice rounding and the
// entry that refers to it. Measured, not exact: budgets are about orders, not bytes.
const overhead = 160

// Cost is about how many bytes the message occupies in memory.
func (m *Message) Cost() int64 {
	n := overhead + len(m.Topic) + len(m.Payload)
	if p := m.Properties; p != nil {
		n += 192 + 2*(len(p.ContentType)+len(p.ResponseTopic)+len(p.Correlation)) // twice: they may be encoded as well
		for _, u := range p.User {
			n += 40 + 2*(len(u.Key)+len(u.Value))
		}
	}
	return int64(n)
}

// Expired tells whether the message may no longer be handed to anybody at now (Unix milliseconds).
func (m *Message) Expired(now int64) bool { return m.ExpiresAt != 0 && now >= m.ExpiresAt }
