package journal

import (
	"fmt"
	"math/bits"
)

const (
	// noticesMax groups may be flushed ahead of a slow notifier; then the committer waits for it.
	noticesMax = 4
	// A group buffer beyond bufKeep bytes is given back after sparseMax turns that used less than an eighth of it.
	bufKeep   = 1 << 20
	sparseMax = 256
)

// commit is the committer: it takes what has gathered, writes it, flushes it and says so,
// one group after the other. Group N+1 is not written before N's flush has returned; so at
// most one group on the disk is torn.
func (j *Journal) commit() {
	defer close(j.done)
	defer close(j.notices)
	for {
		g := j.take()
		if g == nil {
			return
		}
		n, err := j.write(g)
		if err != nil {
			j.fail(err)
			return
		}
		j.announce(n)
	}
}

// take waits for records and makes them the group in flight. nil: closed, and nothing is left.
func (j *Journal) take() *group {
	j.mu.Lock()
	for len(j.gather.parts) == 0 || j.failed != nil {
		if j.state == stateClosed || j.failed != nil {
			j.mu.Unlock()
			return nil
		}
		j.idle = true
		j.mu.Unlock()
		<-j.wake
		j.mu.Lock()
	}
	g := j.gather
	g.closePart()
	p := &g.parts[len(g.parts)-1]
	j.off = p.off + int64(len(g.buf)-p.at)
	j.flight, j.gather, j.spare = g, j.spare, nil
	j.number++
	j.gather.number = j.number
	if n := len(j.lists); n > 0 {
		j.gather.waiters = j.lists[n-1]
		j.lists = j.lists[:n-1]
	}
	now := j.opt.Now().UnixMilli()
	j.time = max(j.time, now) // a clock set back must not make time run backwards on disk
	stamp := j.time
	j.mu.Unlock()
	for i := range g.parts {
		j.ring.seal.sealPart(g.buf, &g.parts[i], stamp, j.ring.bytes)
	}
	return g
}

// sealPart fills in headers and checksums.
func (s *seal) sealPart(buf []byte, p *part, stamp, segmentBytes int64) {
	b := buf[p.at:p.end]
	if p.fresh {
		s.putSegmentHeader(b, segmentHeader{slot: uint32(p.seg.slot), seq: p.seg.seq, prev: p.prev, bytes: segmentBytes})
		b = b[segmentHeaderLen:]
	}
	s.sealRecords(b[groupHeaderLen:], p.first)
	s.putGroupHeader(b, groupHeader{length: len(b), count: p.count, first: p.first, prev: p.prev, time: stamp})
}

// write puts the group on disk. A part that was flushed counts, whatever becomes of the next.
func (j *Journal) write(g *group) (notice, error) {
	for i := range g.parts {
		p := &g.parts[i]
		f := j.ring.files[p.seg.slot]
		end := p.at + alignUp(p.end-p.at)
		if _, err := f.WriteAt(g.buf[p.at:end], p.off); err != nil {
			return notice{}, fmt.Errorf("write journal segment %s at %d: %w", j.ring.name(p.seg.slot), p.off, err)
		}
		if err := f.Sync(); err != nil {
			return notice{}, fmt.Errorf("flush journal segment %s: %w", j.ring.name(p.seg.slot), err)
		}
		j.mu.Lock()
		last := p.first + LSN(p.count) - 1
		p.seg.last = last
		p.seg.end = p.off + int64(end-p.at)
		j.flushed.Store(uint64(last))
		j.count.groups++
		j.count.records += uint64(p.count)
		j.count.groupBytes += uint64(end - p.at)
		j.count.sizes[min(bits.Len(uint(p.count-1)), GroupSizes-1)]++
		if i < len(g.parts)-1 {
			j.mu.Unlock()
		}
	}
	n := notice{waiters: g.waiters, flushed: j.Flushed()}
	g.reset()
	j.flight, j.spare = nil, g
	n.alone = len(j.gather.parts) == 0
	n.room = j.roomFoundLocked()
	j.mu.Unlock()
	return n, nil
}

func (g *group) reset() {
	if cap(g.buf) > bufKeep && len(g.buf) < cap(g.buf)/8 {
		g.sparse++
	} else {
		g.sparse = 0
	}
	if g.sparse >= sparseMax {
		g.buf, g.sparse = make([]byte, 0, bufKeep), 0
	}
	clear(g.parts)
	g.buf, g.parts, g.waiters = g.buf[:0], g.parts[:0], nil
}

// fail ends the journal. The failed write or flush is never tried again: the kernel may
// have dropped the pages and would call the next flush a success. Nobody waiting is told
// anything: the bytes may survive or not.
func (j *Journal) fail(err error) {
	j.mu.Lock()
	if j.failed != nil {
		j.mu.Unlock()
		return
	}
	j.failed = err
	if j.state == stateRunning {
		j.state = stateFailed
	}
	room := j.takeRoomLocked()
	j.mu.Unlock()
	j.opt.Logger.Error("journal has failed", "dir", j.dir, "error", err)
	j.opt.OnFail(err)
	tell(room)
}
