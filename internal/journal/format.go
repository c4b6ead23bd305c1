package journal

import (
	"encoding/binary"
	"hash/crc32"
)

// All integers are little endian. docs/format/journal.md draws these bytes.
const (
	formatVersion = 1

	segmentHeaderLen = 64
	groupHeaderLen   = 48
	recordHeaderLen  = 8
	align            = 8 // groups begin at multiples of this

	segmentMagic = "EMANETJS"

	// recordLost in a record's length marks one whose payload salvage could not keep.
	recordLost = 1 << 31
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func alignUp[T int | int64](n T) T { return (n + align - 1) &^ (align - 1) }

// A seal is what the directory's salt makes of the checksums. Clients choose payload
// bytes but never see the salt: the 64-bit marker in front of each group keeps crafted
// payloads from passing for a group wherever damage makes us search, and the CRCs
// behind it tell damage from data.
type seal struct {
	salt   [16]byte
	marker uint64
	seed   uint32 // CRC of the salt
}

func newSeal(salt [16]byte) seal {
	return seal{
		salt:   salt,
		marker: binary.LittleEndian.Uint64(salt[:8]),
		seed:   crc32.Update(0, castagnoli, salt[:]),
	}
}

// record is the CRC of one record: over salt, LSN, length and payload.
// b begins at the record's length field.
func (s *seal) record(lsn LSN, b []byte) uint32 {
	// The LSN's eight bytes by hand: a slice of them passed to crc32.Update would be allocated.
	crc := ^s.seed
	for range 8 {
		crc = castagnoli[byte(crc)^byte(lsn)] ^ crc>>8
		lsn >>= 8
	}
	return crc32.Update(^crc, castagnoli, b)
}

// segmentHeader stands at offset 0 of a segment that was activated; seq 0 is a
// segment that was never used.
type segmentHeader struct {
	slot  uint32
	seq   uint64 // order of activation
	prev  LSN    // last LSN before this segment
	bytes int64  // size of the file
}

func (s *seal) putSegmentHeader(b []byte, h segmentHeader) {
	_ = b[segmentHeaderLen-1]
	copy(b, segmentMagic)
	le := binary.LittleEndian
	le.PutUint32(b[8:], formatVersion)
	le.PutUint32(b[12:], h.slot)
	copy(b[16:32], s.salt[:])
	le.PutUint64(b[32:], h.seq)
	le.PutUint64(b[40:], uint64(h.prev))
	le.PutUint64(b[48:], uint64(h.bytes))
	le.PutUint32(b[56:], 0)
	le.PutUint32(b[60:], crc32.Checksum(b[:60], castagnoli))
}

// parseSegmentHeader answers false for anything that is not a whole header of this directory.
func (s *seal) parseSegmentHeader(b []byte) (segmentHeader, bool) {
	le := binary.LittleEndian
	if len(b) < segmentHeaderLen || string(b[:8]) != segmentMagic ||
		le.Uint32(b[60:]) != crc32.Checksum(b[:60], castagnoli) ||
		le.Uint32(b[8:]) != formatVersion || [16]byte(b[16:32]) != s.salt {
		return segmentHeader{}, false
	}
	return segmentHeader{
		slot:  le.Uint32(b[12:]),
		seq:   le.Uint64(b[32:]),
		prev:  LSN(le.Uint64(b[40:])),
		bytes: int64(le.Uint64(b[48:])),
	}, true
}

// groupHeader stands in front of the records that one flush made durable.
type groupHeader struct {
	length int   // bytes, header included, padding not
	count  int   // records
	first  LSN   // LSNs within a group are dense
	prev   LSN   // last LSN of the group before, so that a missing group is seen
	time   int64 // unix ms
}

func (g groupHeader) last() LSN { return g.first + LSN(g.count) - 1 }

// frame is how far the next group is away.
func (g groupHeader) frame() int { return alignUp(g.length) }

func (s *seal) putGroupHeader(b []byte, g groupHeader) {
	_ = b[groupHeaderLen-1]
	le := binary.LittleEndian
	le.PutUint64(b, s.marker)
	le.PutUint32(b[8:], uint32(g.length))
	le.PutUint32(b[12:], uint32(g.count))
	le.PutUint64(b[16:], uint64(g.first))
	le.PutUint64(b[24:], uint64(g.prev))
	le.PutUint64(b[32:], uint64(g.time))
	le.PutUint32(b[40:], 0)
	le.PutUint32(b[44:], crc32.Update(s.seed, castagnoli, b[:44]))
}

// parseGroupHeader answers false unless b begins with a whole header of this directory.
// The frame it announces may reach beyond b.
func (s *seal) parseGroupHeader(b []byte) (groupHeader, bool) {
	le := binary.LittleEndian
	if len(b) < groupHeaderLen || le.Uint64(b) != s.marker ||
		le.Uint32(b[44:]) != crc32.Update(s.seed, castagnoli, b[:44]) {
		return groupHeader{}, false
	}
	g := decodeGroupHeader(b)
	whole := g.count > 0 && g.count <= (g.length-groupHeaderLen)/recordHeaderLen &&
		g.first > g.prev && g.first+LSN(g.count) > g.first && le.Uint32(b[40:]) == 0
	return g, whole
}

// decodeGroupHeader reads a header that was checked before.
func decodeGroupHeader(b []byte) groupHeader {
	le := binary.LittleEndian
	return groupHeader{
		length: int(le.Uint32(b[8:])),
		count:  int(le.Uint32(b[12:])),
		first:  LSN(le.Uint64(b[16:])),
		prev:   LSN(le.Uint64(b[24:])),
		time:   int64(le.Uint64(b[32:])),
	}
}

// sealRecords fills in the CRC of every record of a group's body; the append path
// has written the lengths.
func (s *seal) sealRecords(body []byte, first LSN) {
	le := binary.LittleEndian
	for lsn := first; len(body) > 0; lsn++ {
		n := recordHeaderLen + int(le.Uint32(body[4:]))
		le.PutUint32(body, s.record(lsn, body[4:n]))
		body = body[n:]
	}
}

// nextRecord cuts one record off the front of a group's body. ok is false when the
// record is not whole. A record marked lost is whole and has a nil payload.
func (s *seal) nextRecord(body []byte, lsn LSN) (payload, rest []byte, ok bool) {
	if len(body) < recordHeaderLen {
		return nil, body, false
	}
	le := binary.LittleEndian
	n := le.Uint32(body[4:])
	lost := n&recordLost != 0
	n &^= recordLost
	if uint64(n) > uint64(len(body)-recordHeaderLen) || lost != (n == 0) {
		return nil, body, false
	}
	end := recordHeaderLen + int(n)
	if le.Uint32(body) != s.record(lsn, body[4:end]) {
		return nil, body, false
	}
	if !lost {
		payload = body[recordHeaderLen:end:end]
	}
	return payload, body[end:], true
}

// checkGroup says whether the group at the front of b is whole: header, every record, padding.
// kept is the number of records that have a payload.
func (s *seal) checkGroup(b []byte) (g groupHeader, kept int, ok bool) {
	g, ok = s.parseGroupHeader(b)
	if !ok || g.frame() > len(b) {
		return g, 0, false
	}
	body := b[groupHeaderLen:g.length]
	for i := range g.count {
		var payload []byte
		if payload, body, ok = s.nextRecord(body, g.first+LSN(i)); !ok {
			return g, 0, false
		}
		if payload != nil {
			kept++
		}
	}
	for _, c := range b[g.length:g.frame()] {
		ok = ok && c == 0
	}
	return g, kept, ok && len(body) == 0
}

// findGroup searches b from off for a group header with an LSN above last; -1: none.
// The header alone is proof enough: it is longer in one piece than any tear leaves of
// two writes, and its marker is secret.
func (s *seal) findGroup(b []byte, off int, last LSN) int {
	for off = alignUp(off); off+groupHeaderLen <= len(b); off += align {
		if binary.LittleEndian.Uint64(b[off:]) != s.marker {
			continue
		}
		if g, ok := s.parseGroupHeader(b[off:]); ok && g.first > last {
			return off
		}
	}
	return -1
}
