package journal

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
)

// salvager writes damaged segments anew with what is whole in them, so that the chain of
// groups holds again. A record that is lost within a group leaves an empty one in its place.
type salvager struct {
	j    *Journal
	last LSN // of what was kept
	out  []byte
	lost []Lost
	slot int
}

// salvage keeps what is whole, copies every segment it changes to the folder salvage first,
// and notes what is lost.
func (j *Journal) salvage(cause error) (*scan, error) {
	j.opt.Logger.Warn("journal salvage", "damage", cause)
	s := &salvager{j: j, last: j.head.floor}
	order, err := s.order()
	if err != nil {
		return nil, err
	}
	var image []byte
	for i, c := range order {
		if image, err = j.ring.image(c.slot, image); err != nil {
			return nil, err
		}
		if err := s.segment(c.slot, uint64(i)+order[0].seq, image, i == len(order)-1); err != nil {
			return nil, err
		}
	}
	h := j.head
	s.lose(h.flushed, j.dir, 0)
	// LSNs of lost records are not given out again.
	h.base, h.flushed = max(h.base, h.flushed, s.last), s.last
	if err := h.writeBoth(); err != nil {
		return nil, err
	}
	h.damaged = true // the newest groups may be among the lost
	for _, l := range s.lost {
		j.opt.Logger.Error("journal records are lost", "first", l.First, "last", l.Last, "file", l.File, "offset", l.Offset, "aside", l.Aside)
	}
	j.lost = s.lost
	return j.ring.scan(&h.head)
}

type candidate struct {
	slot int
	seq  uint64
	prev LSN
}

// order lists the slots that hold groups above the floor, oldest first.
func (s *salvager) order() ([]candidate, error) {
	j := s.j
	var order []candidate
	var image []byte
	var err error
	for slot := range j.ring.files {
		if image, err = j.ring.image(slot, image); err != nil {
			return nil, err
		}
		sh, state := j.ring.slotState(slot, image, j.head.floor)
		c := candidate{slot: slot, seq: sh.seq, prev: sh.prev}
		if state == slotSuspect {
			at := j.ring.seal.findGroup(image, 0, j.head.floor)
			if at < 0 {
				if len(bytes.Trim(image, "\x00")) > 0 {
					s.slot = slot
					s.setAside(image)
				}
				continue
			}
			g, _ := j.ring.seal.parseGroupHeader(image[at:])
			c = candidate{slot: slot, seq: 1, prev: g.prev}
		}
		if state != slotFree {
			order = append(order, c)
		}
	}
	slices.SortFunc(order, func(a, b candidate) int { return cmp.Or(cmp.Compare(a.prev, b.prev), cmp.Compare(a.seq, b.seq)) })
	return order, nil
}

// segment rebuilds one segment and writes it if that changes anything.
func (s *salvager) segment(slot int, seq uint64, image []byte, final bool) error {
	s.slot, s.out = slot, make([]byte, segmentHeaderLen, len(image))
	sl, lostBefore := &s.j.ring.seal, len(s.lost)
	sl.putSegmentHeader(s.out, segmentHeader{slot: uint32(slot), seq: seq, prev: s.last, bytes: s.j.ring.bytes})
	for off := segmentHeaderLen; off >= 0 && off+groupHeaderLen <= len(image); {
		off = s.group(image, off, final)
	}
	if len(s.out) == segmentHeaderLen {
		sl.putSegmentHeader(s.out, segmentHeader{slot: uint32(slot), bytes: s.j.ring.bytes})
	}
	if bytes.Equal(s.out, image[:len(s.out)]) {
		return nil
	}
	aside := s.setAside(image)
	for i := lostBefore; i < len(s.lost); i++ {
		s.lost[i].Aside = aside
	}
	clear(s.out[len(s.out):cap(s.out)])
	f := s.j.ring.files[slot]
	if _, err := f.WriteAt(s.out[:len(image)], 0); err != nil {
		return fmt.Errorf("salvage %s: %w", s.j.ring.name(slot), err)
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("salvage %s: %w", s.j.ring.name(slot), err)
	}
	return nil
}

// group keeps what is whole at off and answers where to go on, -1 at the end.
func (s *salvager) group(image []byte, off int, final bool) int {
	sl, b := &s.j.ring.seal, image[off:]
	g, ok := sl.parseGroupHeader(b)
	if ok = ok && g.first > s.last && g.frame() <= len(b); ok {
		if _, _, whole := sl.checkGroup(b); whole {
			s.lose(g.prev, s.j.ring.name(s.slot), int64(off))
			s.keep(g.first, g.count, b[groupHeaderLen:g.length], g.time)
			return off + g.frame()
		}
	}
	next := sl.findGroup(image, off+align, s.last)
	if next < 0 && final && s.last >= s.j.head.flushed {
		return -1 // a torn last group, or the unused rest
	}
	if ok {
		s.lose(g.prev, s.j.ring.name(s.slot), int64(off))
		s.damaged(g, b[groupHeaderLen:g.length], off)
		return off + g.frame()
	}
	limit := len(b)
	if next >= 0 {
		limit = next - off
	}
	s.headless(b[:max(limit, groupHeaderLen)])
	return next
}

// keep appends a group to the new image, chained to what was kept before it.
func (s *salvager) keep(first LSN, count int, body []byte, stamp int64) {
	at := len(s.out)
	s.out = append(s.out, zeros[:groupHeaderLen]...)
	s.out = append(s.out, body...)
	g := groupHeader{length: len(s.out) - at, count: count, first: first, prev: s.last, time: stamp}
	s.j.ring.seal.putGroupHeader(s.out[at:], g)
	s.out = append(s.out, zeros[:g.frame()-g.length]...)
	s.last = g.last()
}

// damaged keeps the whole records of a group whose header is whole.
func (s *salvager) damaged(g groupHeader, body []byte, off int) {
	sl := &s.j.ring.seal
	kept := make([]byte, 0, len(body))
	at := 0
	for i := range g.count {
		lsn := g.first + LSN(i)
		if _, rest, ok := sl.nextRecord(body[at:], lsn); ok {
			end := len(body) - len(rest)
			kept = append(kept, body[at:end]...)
			at = end
			continue
		}
		var mark [recordHeaderLen]byte
		binary.LittleEndian.PutUint32(mark[4:], recordLost)
		binary.LittleEndian.PutUint32(mark[:], sl.record(lsn, mark[4:]))
		kept = append(kept, mark[:]...)
		s.note(lsn, lsn, s.j.ring.name(s.slot), int64(off+groupHeaderLen+at))
		at = s.skip(body, at, lsn, i == g.count-1)
	}
	s.keep(g.first, g.count, kept, g.time)
}

// skip answers where the record behind a damaged one begins. Its length is believed only
// when a whole record follows; else the rest of the group cannot be read.
func (s *salvager) skip(body []byte, at int, lsn LSN, final bool) int {
	if final || at+recordHeaderLen > len(body) {
		return len(body)
	}
	n := binary.LittleEndian.Uint32(body[at+4:]) &^ recordLost
	if uint64(n) > uint64(len(body)-at-recordHeaderLen) {
		return len(body)
	}
	end := at + recordHeaderLen + int(n)
	if _, _, ok := s.j.ring.seal.nextRecord(body[end:], lsn+1); !ok {
		return len(body)
	}
	return end
}

// headless keeps the records behind a damaged group header, if they go on where the last group ended.
func (s *salvager) headless(b []byte) {
	body := b[groupHeaderLen:]
	rest, count := body, 0
	for {
		_, r, ok := s.j.ring.seal.nextRecord(rest, s.last+1+LSN(count))
		if !ok {
			break
		}
		rest, count = r, count+1
	}
	if count > 0 {
		s.keep(s.last+1, count, body[:len(body)-len(rest)], s.j.time)
	}
}

// lose notes that everything above what was kept, up to and with last, is lost.
func (s *salvager) lose(last LSN, file string, off int64) {
	if last > s.last {
		s.note(s.last+1, last, file, off)
	}
}

func (s *salvager) note(first, last LSN, file string, off int64) {
	if n := len(s.lost); n > 0 && s.lost[n-1].Last+1 == first && s.lost[n-1].File == file {
		s.lost[n-1].Last = last
		return
	}
	s.lost = append(s.lost, Lost{First: first, Last: last, File: file, Offset: off})
}
