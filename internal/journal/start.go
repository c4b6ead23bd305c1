package journal

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
)

// Start makes what Open found durable again, because a killed process leaves pages that
// only the page cache has, and begins to accept appends. folded is the LSN up to which the
// caller needs nothing any more; LSNs go on above it, and above every LSN that a torn
// group may have left on the disk.
func (j *Journal) Start(folded LSN) error {
	if err := j.start(folded); err != nil {
		return fmt.Errorf("start journal: %w", err)
	}
	j.wake = make(chan struct{}, 1)
	j.done = make(chan struct{})
	j.notices = make(chan notice, noticesMax)
	j.notified = make(chan struct{})
	j.mu.Lock()
	j.number = 1
	j.gather, j.spare = &group{number: j.number}, &group{}
	j.state = stateRunning
	j.mu.Unlock()
	go j.commit()
	go j.notify()
	return nil
}

func (j *Journal) start(folded LSN) error {
	if j.state != stateOpen {
		panic("journal: Start called twice")
	}
	if err := j.rewrite(folded); err != nil {
		return err
	}
	// Names as well: a process killed while it created the journal leaves them unflushed.
	if err := errors.Join(j.opt.FS.SyncDir(j.dir), j.opt.FS.SyncDir(filepath.Dir(j.dir))); err != nil {
		return err
	}
	// A torn group's LSNs are at most a segment's worth of records above what was flushed before it.
	skip := LSN(j.opt.SegmentBytes)
	if j.head.damaged {
		// The lost copy may have named a higher base, of a run that wrote only a torn group.
		skip *= 4
	}
	h := j.head
	h.base = max(h.base, h.flushed, LSN(j.flushed.Load()), folded) + skip
	h.flushed = LSN(j.flushed.Load())
	h.time = j.time
	// Both copies: losing one later must not bring back an older base.
	if err := h.writeBoth(); err != nil {
		return err
	}
	j.next = h.base + 1
	return nil
}

// rewrite writes the tail above folded again, same bytes at the same offsets, and flushes it.
// Behind the end it wipes the place of the next group's header: what is left of a torn group
// there must not become whole when the next one, torn as well, happens to bring the missing bytes.
func (j *Journal) rewrite(folded LSN) error {
	var buf []byte
	for i, seg := range j.ring.live {
		final := i == len(j.ring.live)-1
		if seg.last <= folded && !final {
			continue
		}
		to := seg.end
		if final {
			to = min(seg.end+groupHeaderLen, j.ring.bytes)
		}
		buf = slices.Grow(buf[:0], int(to))[:to]
		f, name := j.ring.files[seg.slot], j.ring.name(seg.slot)
		if n, err := f.ReadAt(buf, 0); n < len(buf) {
			return fmt.Errorf("read %s: %w", name, err)
		}
		clear(buf[seg.end:])
		if _, err := f.WriteAt(buf, 0); err != nil {
			return fmt.Errorf("write %s again: %w", name, err)
		}
		if err := f.Sync(); err != nil {
			return fmt.Errorf("flush %s: %w", name, err)
		}
	}
	return nil
}
