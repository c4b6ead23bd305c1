package journal

import (
	"bytes"
	"testing"
)

// fuzzSalt is what the seeds are sealed with, so that mutations get behind the checksums' front door.
var fuzzSalt = [16]byte{1, 2, 3, 4, 5, 6, 7, 8, 9}

// fuzzImage is a whole segment of three groups.
func fuzzImage() []byte {
	s := newSeal(fuzzSalt)
	image := make([]byte, 4096)
	s.putSegmentHeader(image, segmentHeader{seq: 1, bytes: 4096})
	off, prev := segmentHeaderLen, LSN(0)
	for _, payloads := range [][]string{{"a"}, {"bb", "ccc"}, {"dddd", "e", "ffffff"}} {
		var body []byte
		for _, p := range payloads {
			body = append(body, 0, 0, 0, 0, byte(len(p)), 0, 0, 0)
			body = append(body, p...)
		}
		s.sealRecords(body, prev+1)
		g := groupHeader{length: groupHeaderLen + len(body), count: len(payloads), first: prev + 1, prev: prev, time: 7}
		s.putGroupHeader(image[off:], g)
		copy(image[off+groupHeaderLen:], body)
		off += g.frame()
		prev = g.last()
	}
	return image
}

// FuzzSegment: no image makes the reader or the salvager panic, what they accept hangs together,
// and what salvage writes is whole. With fix, the checksums of the headers are put right first,
// so that the fuzzer reaches what stands behind them.
func FuzzSegment(f *testing.F) {
	whole := fuzzImage()
	f.Add(whole, false)
	f.Add(whole, true)
	f.Add(whole[:200], true)
	zeroed := bytes.Clone(whole)
	clear(zeroed[64:128])
	f.Add(zeroed, true)
	f.Fuzz(func(t *testing.T, data []byte, fix bool) {
		image := make([]byte, 4096)
		copy(image, data)
		s := newSeal(fuzzSalt)
		if fix {
			fixHeaders(&s, image)
		}
		r := &ring{bytes: 4096, seal: s}
		seg := &segment{end: segmentHeaderLen}
		r.walk(seg, image)
		if seg.end > 4096 || seg.last < seg.prev {
			t.Fatalf("segment ends at %d with LSN %d", seg.end, seg.last)
		}
		for off := segmentHeaderLen; off < int(seg.end); {
			g, kept, ok := s.checkGroup(image[off:])
			if !ok {
				t.Fatalf("the group at %d is not whole any more", off)
			}
			n := 0
			for lsn, payload := range records(image[off:off+g.length], g, 0) {
				if lsn < g.first || lsn > g.last() || len(payload) == 0 {
					t.Fatalf("record %d of %d bytes in the group from %d to %d", lsn, len(payload), g.first, g.last())
				}
				n++
			}
			if n != kept {
				t.Fatalf("%d records, %d were counted", n, kept)
			}
			off += g.frame()
		}
		s.findGroup(image, int(seg.end), seg.last)
		salvageImage(t, r, image, seg)
	})
}

// fixHeaders puts marker, reserved field and checksum right wherever a group header may stand.
func fixHeaders(s *seal, image []byte) {
	for off := segmentHeaderLen; off+groupHeaderLen <= len(image); {
		b := image[off:]
		g := decodeGroupHeader(b)
		s.putGroupHeader(b, g)
		if g.frame() <= 0 || g.frame() > len(b) {
			return
		}
		off += g.frame()
	}
}

func salvageImage(t *testing.T, r *ring, image []byte, seg *segment) {
	j := &Journal{ring: *r, head: &headFile{}}
	v := &salvager{j: j, out: make([]byte, segmentHeaderLen, len(image))}
	for off := segmentHeaderLen; off >= 0 && off+groupHeaderLen <= len(image); {
		off = v.group(image, off, true)
	}
	if len(v.out) > len(image) {
		t.Fatalf("salvage makes %d bytes of %d", len(v.out), len(image))
	}
	out := make([]byte, len(image))
	copy(out, v.out)
	again := &segment{end: segmentHeaderLen}
	r.walk(again, out)
	if int(again.end) != len(v.out) || again.last != v.last || again.last < seg.last {
		t.Fatalf("salvage kept up to LSN %d in %d bytes, read are %d in %d; undamaged were %d", v.last, len(v.out), again.last, again.end, seg.last)
	}
}

func FuzzHead(f *testing.F) {
	h := head{salt: fuzzSalt, segmentBytes: 4096, slots: 4, generation: 3, base: 9, floor: 2, flushed: 5, time: 1}
	f.Add(h.encode())
	f.Fuzz(func(t *testing.T, data []byte) {
		got, whole, err := decodeHead(data)
		if whole && err == nil && !bytes.Equal(got.encode()[:80], data[:80]) {
			t.Fatalf("%+v encodes to other bytes", got)
		}
	})
}
