package journal

import (
	"encoding/binary"
	"fmt"
	"iter"
	"slices"
)

// A Reader reads flushed records in order: for the replay after Open, and for the fold
// while the journal runs. It is for one goroutine; a journal may have several.
type Reader struct {
	j     *Journal
	after LSN // last LSN handed out
	seg   *segment
	off   int64
}

// NewReader reads what has an LSN above after.
func (j *Journal) NewReader(after LSN) *Reader { return &Reader{j: j, after: after} }

// A Chunk is a run of records. Their bytes belong to the buffer that was given to Next.
type Chunk struct {
	buf   []byte // whole groups
	after LSN    // records up to here are skipped
	count int
	last  LSN
	time  int64
}

// Next reads whole groups of together about size bytes, at least one group however large,
// into buf, which grows as needed: pass the last chunk's Buf, when its records are not
// needed any more. An empty chunk means that nothing more is flushed now.
// Errors: ErrReleased, *CorruptError, those of the file system.
func (r *Reader) Next(buf []byte, size int) (Chunk, error) {
	for {
		end, err := r.locate()
		if err != nil || end == r.off {
			return Chunk{buf: buf[:0], after: r.after, last: r.after}, err
		}
		c, err := r.load(buf, end, size)
		if err = r.explain(err); err != nil {
			return Chunk{}, err
		}
		buf = c.buf
		if c.last > r.after {
			r.after = c.last
		}
		if c.count > 0 {
			return c, nil
		}
	}
}

// locate finds where the next groups begin and up to where they are flushed; both are
// equal when there is nothing.
func (r *Reader) locate() (end int64, err error) {
	j := r.j
	j.mu.Lock()
	defer j.mu.Unlock()
	live := j.ring.live
	if len(live) == 0 {
		return r.off, nil
	}
	if r.after < live[0].prev {
		return 0, fmt.Errorf("%w: from LSN %d, the oldest kept is above %d", ErrReleased, r.after+1, live[0].prev)
	}
	if r.seg != nil && r.off < r.seg.end && slices.Contains(live, r.seg) {
		return r.seg.end, nil
	}
	for _, seg := range live {
		if seg.last > r.after {
			if seg != r.seg {
				r.seg, r.off = seg, segmentHeaderLen
			}
			return seg.end, nil
		}
	}
	return r.off, nil
}

// load reads and checks groups from r.off on.
func (r *Reader) load(buf []byte, end int64, size int) (Chunk, error) {
	r.j.mu.Lock()
	f := r.j.ring.files[r.seg.slot]
	r.j.mu.Unlock()
	want := int(min(end-r.off, int64(max(size, groupHeaderLen))))
	c := Chunk{after: r.after}
	have, used := 0, 0
	for {
		buf = slices.Grow(buf[:have], want-have)[:want]
		if n, err := f.ReadAt(buf[have:], r.off+int64(have)); n < want-have {
			return c, fmt.Errorf("read %s at %d: %w", r.j.ring.name(r.seg.slot), r.off, err)
		}
		have = want
		for used < have {
			g, kept, ok := r.j.ring.seal.checkGroup(buf[used:])
			if !ok {
				break
			}
			c.count += c.countAbove(buf[used:used+g.length], g, kept)
			c.last, c.time = g.last(), g.time
			used += g.frame()
		}
		if used > 0 {
			break
		}
		// The first group is larger than what was read, or damaged.
		g, ok := r.j.ring.seal.parseGroupHeader(buf)
		if int64(have) == end-r.off || ok && g.frame() <= have {
			return c, &CorruptError{File: r.j.ring.name(r.seg.slot), Offset: r.off, Reason: "group is damaged"}
		}
		want = int(end - r.off)
		if ok {
			want = min(want, g.frame())
		} else {
			want = min(want, have+groupHeaderLen)
		}
	}
	r.off += int64(used)
	c.buf = buf[:used]
	return c, nil
}

// countAbove counts the records of a checked group that the chunk hands out.
func (c *Chunk) countAbove(b []byte, g groupHeader, kept int) (n int) {
	switch {
	case g.first > c.after:
		return kept
	case g.last() <= c.after:
		return 0
	}
	for range records(b, g, c.after) {
		n++
	}
	return n
}

// explain tells damage from bytes that were recycled under the reader. Whole groups are no proof:
// they may be the new ones. A segment that is still live was not written over while it was read.
func (r *Reader) explain(err error) error {
	r.j.mu.Lock()
	defer r.j.mu.Unlock()
	if live := r.j.ring.live; !slices.Contains(live, r.seg) {
		return fmt.Errorf("%w: from LSN %d, the oldest kept is above %d", ErrReleased, r.after+1, live[0].prev)
	}
	return err
}

// Len is the number of records.
func (c *Chunk) Len() int { return c.count }

// Last is the LSN up to which this chunk and those before it have everything.
func (c *Chunk) Last() LSN { return c.last }

// Time is when the last group was written, unix ms.
func (c *Chunk) Time() int64 { return c.time }

// Buf is the buffer to pass to the next call of Next.
func (c *Chunk) Buf() []byte { return c.buf }

// All yields the records in order. A record is valid as long as the chunk's buffer.
func (c *Chunk) All() iter.Seq2[LSN, []byte] {
	return func(yield func(LSN, []byte) bool) {
		for b := c.buf; len(b) > 0; {
			g := decodeGroupHeader(b)
			for lsn, payload := range records(b[:g.length], g, c.after) {
				if !yield(lsn, payload) {
					return
				}
			}
			b = b[g.frame():]
		}
	}
}

// records yields a checked group's records above after, those that salvage lost left out.
func records(b []byte, g groupHeader, after LSN) iter.Seq2[LSN, []byte] {
	return func(yield func(LSN, []byte) bool) {
		body := b[groupHeaderLen:g.length]
		for lsn := g.first; len(body) > 0; lsn++ {
			n := binary.LittleEndian.Uint32(body[4:])
			end := recordHeaderLen + int(n&^recordLost)
			if n&recordLost == 0 && lsn > after && !yield(lsn, body[recordHeaderLen:end:end]) {
				return
			}
			body = body[end:]
		}
	}
}
