package local

import (
	"encoding/binary"
	"fmt"

	"emanet/internal/store"
)

// A message page is two rows under one first id. message_page holds the bodies and is written once:
//
//	id - previous id | length | stored form of the message     (for each message)
//
// message_live holds what changes while they are consumed, so that a settlement rewrites some hundred
// bytes and not the bodies:
//
//	id - previous id | entries that hold it | cost             (for each message)
//
// all numbers as uvarints, the previous of the first being the page's first id.

// messageRef is one message's line in message_live. refs counts the entries that are neither settled nor
// released; at 0 the body is dead and goes when its page is rewritten.
type messageRef struct {
	id   uint64
	refs uint64
	cost uint64
}

// messageWriter packs messages with ascending ids.
type messageWriter struct {
	data        []byte
	refs        []messageRef
	first, last uint64
	cost        uint64 // of all messages in it
}

func (w *messageWriter) reset() { *w = messageWriter{data: w.data[:0], refs: w.refs[:0]} }

func (w *messageWriter) add(ref messageRef, body []byte) {
	if len(w.refs) == 0 {
		w.first, w.last = ref.id, ref.id
	}
	w.data = binary.AppendUvarint(w.data, ref.id-w.last)
	w.data = binary.AppendUvarint(w.data, uint64(len(body)))
	w.data = append(w.data, body...)
	w.refs = append(w.refs, ref)
	w.last = ref.id
	w.cost += ref.cost
}

// messageReader walks the bodies of a page; they alias it.
type messageReader struct {
	rest []byte
	id   uint64
	err  error
}

func newMessageReader(first uint64, data []byte) messageReader {
	return messageReader{rest: data, id: first}
}

func (r *messageReader) next() (id uint64, body []byte, ok bool) {
	if len(r.rest) == 0 || r.err != nil {
		return 0, nil, false
	}
	delta, n := binary.Uvarint(r.rest)
	if n <= 0 {
		return r.bad()
	}
	size, m := binary.Uvarint(r.rest[n:])
	if m <= 0 || size > uint64(len(r.rest)-n-m) {
		return r.bad()
	}
	r.id += delta
	body = r.rest[n+m:][:size]
	r.rest = r.rest[n+m+int(size):]
	return r.id, body, true
}

func (r *messageReader) bad() (uint64, []byte, bool) {
	r.err = fmt.Errorf("%w: message page: it ends within a field", store.ErrCorrupt)
	return 0, nil, false
}

// appendRefs writes the message_live form.
func appendRefs(dst []byte, first uint64, refs []messageRef) []byte {
	for _, r := range refs {
		dst = binary.AppendUvarint(dst, r.id-first)
		dst = binary.AppendUvarint(dst, r.refs)
		dst = binary.AppendUvarint(dst, r.cost)
		first = r.id
	}
	return dst
}

// decodeRefs reads the message_live form into refs.
func decodeRefs(refs []messageRef, first uint64, data []byte) ([]messageRef, error) {
	for len(data) > 0 {
		var v [3]uint64
		for i := range v {
			x, n := binary.Uvarint(data)
			if n <= 0 {
				return refs, fmt.Errorf("%w: message references end within a field", store.ErrCorrupt)
			}
			v[i], data = x, data[n:]
		}
		first += v[0]
		refs = append(refs, messageRef{id: first, refs: v[1], cost: v[2]})
	}
	return refs, nil
}
