package journal

import (
	"cmp"
	"fmt"
	"slices"
)

// scan is what Open learns from the files.
type scan struct {
	live []*segment
	free []int
	last LSN
	seq  uint64 // highest of any segment
	time int64  // of the last group
}

// slotState sorts a slot by its header.
type slotState int

const (
	slotFree    slotState = iota // never used, or all of it released
	slotLive                     // holds records above the floor
	slotSuspect                  // no whole header: a torn activation, or damage
)

func (r *ring) slotState(slot int, b []byte, floor LSN) (segmentHeader, slotState) {
	h, ok := r.seal.parseSegmentHeader(b)
	switch {
	case !ok || int(h.slot) != slot || h.bytes != r.bytes:
		return h, slotSuspect
	case h.seq == 0 || h.prev < floor:
		return h, slotFree
	}
	return h, slotLive
}

// scan finds the segments in use and the end of the last one, and checks every group in
// them. The first damage is returned as *CorruptError. A torn last group is no damage:
// it was never acknowledged.
func (r *ring) scan(h *head) (*scan, error) {
	s := &scan{last: h.floor}
	var suspects []int
	var header [segmentHeaderLen]byte
	for slot, f := range r.files {
		if n, err := f.ReadAt(header[:], 0); n < len(header) {
			return nil, fmt.Errorf("read %s: %w", r.name(slot), err)
		}
		sh, state := r.slotState(slot, header[:], h.floor)
		if state != slotSuspect {
			s.seq = max(s.seq, sh.seq)
		}
		switch state {
		case slotFree:
			s.free = append(s.free, slot)
		case slotSuspect:
			suspects = append(suspects, slot)
		case slotLive:
			s.live = append(s.live, &segment{slot: slot, seq: sh.seq, prev: sh.prev, appended: sh.prev, last: sh.prev, end: segmentHeaderLen})
		}
	}
	slices.SortFunc(s.live, func(a, b *segment) int { return cmp.Compare(a.seq, b.seq) })

	var image []byte
	var err error
	for i, seg := range s.live {
		if seg.prev != s.last {
			return nil, r.chainBroken(s, i)
		}
		if image, err = r.image(seg.slot, image); err != nil {
			return nil, err
		}
		if t := r.walk(seg, image); t != 0 {
			s.time = t
		}
		s.last = seg.last
	}
	if len(s.live) > 0 {
		// image is the last segment's. One group at most is torn, at the end itself, and the rest of
		// one torn before an earlier start has LSNs below that start's: a newer group behind the end
		// was flushed, so what stands at the end was too.
		end := s.live[len(s.live)-1]
		if at := r.seal.findGroup(image, int(end.end)+align, s.last); at >= 0 {
			return nil, &CorruptError{File: r.name(end.slot), Offset: end.end,
				Reason: fmt.Sprintf("group after LSN %d is damaged, a whole one follows at offset %d", s.last, at)}
		}
	}
	for _, slot := range suspects {
		if image, err = r.image(slot, image); err != nil {
			return nil, err
		}
		if at := r.seal.findGroup(image, 0, s.last); at >= 0 {
			return nil, &CorruptError{File: r.name(slot), Offset: 0,
				Reason: fmt.Sprintf("segment header is damaged, records follow at offset %d", at)}
		}
		s.free = append(s.free, slot)
	}
	slices.Sort(s.free)
	if s.last < h.flushed {
		return nil, r.endsEarly(s, h.flushed)
	}
	return s, nil
}

// walk follows the chain of whole groups and sets the segment's end. It answers the time of the last one.
func (r *ring) walk(seg *segment, image []byte) (time int64) {
	for {
		b := image[seg.end:]
		g, _, ok := r.seal.checkGroup(b)
		if !ok || g.prev != seg.last {
			return time
		}
		seg.last, seg.appended, time = g.last(), g.last(), g.time
		seg.end += int64(g.frame())
	}
}

// chainBroken: live segment i does not go on where the one before ends.
func (r *ring) chainBroken(s *scan, i int) error {
	seg := s.live[i]
	if i == 0 {
		return &CorruptError{File: r.name(seg.slot), Offset: 0,
			Reason: fmt.Sprintf("records from LSN %d to %d are missing before this segment", s.last+1, seg.prev)}
	}
	before := s.live[i-1]
	return &CorruptError{File: r.name(before.slot), Offset: before.end,
		Reason: fmt.Sprintf("records from LSN %d to %d are damaged or missing before %s", s.last+1, seg.prev, slotName(seg.slot))}
}

func (r *ring) endsEarly(s *scan, flushed LSN) error {
	e := &CorruptError{File: r.dir, Reason: fmt.Sprintf("records end at LSN %d, LSN %d was flushed", s.last, flushed)}
	if n := len(s.live); n > 0 {
		e.File, e.Offset = r.name(s.live[n-1].slot), s.live[n-1].end
	}
	return e
}
