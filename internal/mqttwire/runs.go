package mqttwire

import (
	"encoding/binary"
	"iter"
)

// UserProperties is a run of properties in wire form, of which only the user
// properties count: a PUBLISH may mix others among them, and keeping the range
// of bytes costs no allocation, keeps order and keeps duplicates. Build one
// with Append, read one with All. It is safe to range over any bytes.
type UserProperties []byte

// Append adds one user property. Key and value are strings: the caller vouches
// for ValidString of both.
func (u UserProperties) Append(key, value string) UserProperties {
	u = append(u, idUser)
	u = appendString(u, key)
	return appendString(u, value)
}

// All yields the pairs in order. The slices alias u.
func (u UserProperties) All() iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		for rest := []byte(u); len(rest) > 0; {
			id, value, after, ok := cutProperty(rest)
			if !ok {
				return
			}
			if id == idUser && !yield(splitPair(value)) {
				return
			}
			rest = after
		}
	}
}

// SubscriptionIDs is a run of properties in wire form, of which only the
// subscription identifiers count. A PUBLISH to a client carries one for each
// of the client's subscriptions that matched and has one [MQTT-3.3.4-3].
type SubscriptionIDs []byte

// Append adds one identifier, 1 to 268,435,455.
func (s SubscriptionIDs) Append(id uint32) SubscriptionIDs {
	assert(id > 0 && id <= MaxRemainingLength, "subscription identifier out of range")
	return appendVarint(append(s, idSubscriptionID), id)
}

// All yields the identifiers in order.
func (s SubscriptionIDs) All() iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		for rest := []byte(s); len(rest) > 0; {
			id, value, after, ok := cutProperty(rest)
			if !ok {
				return
			}
			if id == idSubscriptionID {
				n, _ := readVarint(value)
				if !yield(n) {
					return
				}
			}
			rest = after
		}
	}
}

// First returns the first identifier, or 0 when there is none: what SUBSCRIBE
// has, at most one.
func (s SubscriptionIDs) First() uint32 {
	for id := range s.All() {
		return id
	}
	return 0
}

// cutProperty takes one property off the head of b.
func cutProperty(b []byte) (id byte, value, rest []byte, ok bool) {
	id = b[0]
	if id >= idLimit || propertyKinds[id] == kindNone {
		return 0, nil, nil, false
	}
	size := valueSize(id, b[1:])
	if size < 0 {
		return 0, nil, nil, false
	}
	return id, b[1 : 1+size], b[1+size:], true
}

// splitPair separates the two strings of a pair that valueSize has measured.
func splitPair(b []byte) (key, value []byte) {
	n := 2 + int(binary.BigEndian.Uint16(b))
	end := n + 2 + int(binary.BigEndian.Uint16(b[n:]))
	return b[2:n:n], b[n+2 : end : end]
}

// runSize is how many bytes of run belong to properties with this identifier.
func runSize(run []byte, want byte) int {
	n := 0
	for len(run) > 0 {
		id, value, rest, ok := cutProperty(run)
		if !ok {
			return n
		}
		if id == want {
			n += 1 + len(value)
		}
		run = rest
	}
	return n
}

// appendRun copies the properties with this identifier, in order.
func appendRun(dst, run []byte, want byte) []byte {
	for len(run) > 0 {
		id, value, rest, ok := cutProperty(run)
		if !ok {
			return dst
		}
		if id == want {
			dst = append(append(dst, id), value...)
		}
		run = rest
	}
	return dst
}
