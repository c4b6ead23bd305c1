package local

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"emanet/internal/store"
)

// pageEntry is an entry as a page and the fold hold it. It has no priority: a page belongs to one lane.
type pageEntry struct {
	seq        uint64
	message    uint64
	expiresAt  int64 // Unix ms, 0 is never
	lsn        store.LSN
	tag        []byte
	deliveries uint32
	attr       uint8
	released   bool
	dead       bool // settled; only in memory
}

// An entry page (docs/format/store.md draws it) holds entries one after the other, each a flags byte and
// the fields that differ from what its neighbour lets expect:
//
//	flags | [seq - previous - 1] | [message - previous] | [attr] | [expires] | [tag] | [deliveries]
//
// So the entries of a lane that gets every message of a publisher take one byte each.
const (
	entrySeq        = 1 << iota // seq is not the previous + 1; its distance from that follows
	entryMessage                // message is not the previous + 1; the zigzag difference from the previous follows
	entryAttr                   // attr differs from the previous
	entryExpires                // expiry follows
	entryTag                    // tag differs from the previous and follows, with its length
	entryDeliveries             // delivery count follows
	entryIsReleased
	entryFlagsEnd
)

var errPage = errors.New("it ends within a field")

// entryWriter packs entries with ascending seqs.
type entryWriter struct {
	data        []byte
	first, last uint64 // seqs
	count       int
	prev        pageEntry
}

func (w *entryWriter) add(e *pageEntry) {
	if w.count == 0 {
		w.first = e.seq
		w.prev = pageEntry{seq: e.seq - 1}
	}
	var flags byte
	if e.seq != w.prev.seq+1 {
		flags |= entrySeq
	}
	if e.message != w.prev.message+1 {
		flags |= entryMessage
	}
	if e.attr != w.prev.attr {
		flags |= entryAttr
	}
	if e.expiresAt != 0 {
		flags |= entryExpires
	}
	if string(e.tag) != string(w.prev.tag) {
		flags |= entryTag
	}
	if e.deliveries != 0 {
		flags |= entryDeliveries
	}
	if e.released {
		flags |= entryIsReleased
	}
	d := append(w.data, flags)
	if flags&entrySeq != 0 {
		d = binary.AppendUvarint(d, e.seq-w.prev.seq-1)
	}
	if flags&entryMessage != 0 {
		d = binary.AppendVarint(d, int64(e.message-w.prev.message))
	}
	if flags&entryAttr != 0 {
		d = append(d, e.attr)
	}
	if flags&entryExpires != 0 {
		d = binary.AppendUvarint(d, uint64(e.expiresAt))
	}
	if flags&entryTag != 0 {
		d = binary.AppendUvarint(d, uint64(len(e.tag)))
		d = append(d, e.tag...)
	}
	if flags&entryDeliveries != 0 {
		d = binary.AppendUvarint(d, uint64(e.deliveries))
	}
	w.data, w.prev, w.last = d, *e, e.seq
	w.count++
}

// entryReader unpacks a page; tags alias it.
type entryReader struct {
	rest []byte
	prev pageEntry
	err  error
}

func newEntryReader(firstSeq uint64, data []byte) entryReader {
	return entryReader{rest: data, prev: pageEntry{seq: firstSeq - 1}}
}

// next decodes one entry; false at the end or on damage, which err tells.
func (r *entryReader) next(e *pageEntry) bool {
	if len(r.rest) == 0 || r.err != nil {
		return false
	}
	flags := r.rest[0]
	r.rest = r.rest[1:]
	if flags&(entryFlagsEnd-1) != flags {
		r.err = fmt.Errorf("%w: entry flags %#02x", store.ErrCorrupt, flags)
		return false
	}
	*e = pageEntry{
		seq: r.prev.seq + 1, message: r.prev.message + 1, attr: r.prev.attr, tag: r.prev.tag,
		released: flags&entryIsReleased != 0,
	}
	if flags&entrySeq != 0 {
		e.seq += r.uvarint()
	}
	if flags&entryMessage != 0 {
		e.message = r.prev.message + uint64(r.varint())
	}
	if flags&entryAttr != 0 {
		e.attr = r.take(1)[0]
	}
	if flags&entryExpires != 0 {
		e.expiresAt = int64(r.uvarint() & math.MaxInt64)
	}
	if flags&entryTag != 0 {
		e.tag = r.take(r.uvarint())
	}
	if flags&entryDeliveries != 0 {
		e.deliveries = uint32(r.uvarint())
	}
	if e.seq <= r.prev.seq && e.seq != 0 {
		r.err = errPage
	}
	if r.err != nil {
		r.err = fmt.Errorf("%w: entry page: %w", store.ErrCorrupt, r.err)
		return false
	}
	r.prev = *e
	return true
}

func (r *entryReader) uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.err, r.rest = errPage, nil
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *entryReader) varint() int64 {
	v, n := binary.Varint(r.rest)
	if n <= 0 {
		r.err, r.rest = errPage, nil
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

// noBytes stands in for a field that is not there, so that a caller may index the first byte.
var noBytes = []byte{0}

func (r *entryReader) take(n uint64) []byte {
	if n > uint64(len(r.rest)) {
		r.err, r.rest = errPage, nil
		return noBytes
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}
