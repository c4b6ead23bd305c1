package local

import (
	"fmt"

	"emanet/internal/journal"
	"emanet/internal/store"
)

// source hands the unfolded journal to the fold, cut at any record. The fold's goroutine owns it.
type source struct {
	reader *journal.Reader
	rest   []unread // records that were read and lie beyond the last cut
	held   []byte   // the buffer rest lies in
	used   [][]byte // buffers that the net being built lies in
	free   [][]byte
	done   store.LSN // last record handed out
}

type unread struct {
	lsn  store.LSN
	data []byte
}

// readSize is how much of the journal is read at once.
const readSize = 1 << 20

func newSource(j *journal.Journal, after store.LSN) *source {
	return &source{reader: j.NewReader(after), done: after}
}

// fill adds records up to LSN upTo to n, as long as it holds less than about size bytes of records and
// maxEntries entries. What n aliases stays valid until recycle. full: there is more below upTo.
func (s *source) fill(n *net, upTo store.LSN, size, maxEntries int) (full bool, err error) {
	bytes := 0
	for s.done < upTo {
		if bytes >= size || n.entries >= maxEntries {
			return true, nil
		}
		if len(s.rest) == 0 {
			more, err := s.read()
			if err != nil || !more {
				return false, err
			}
		}
		i := 0
		for i < len(s.rest) && s.rest[i].lsn <= upTo && n.entries < maxEntries {
			if err := n.add(s.rest[i].lsn, s.rest[i].data); err != nil {
				return false, fmt.Errorf("journal record %d: %w", s.rest[i].lsn, err)
			}
			bytes += len(s.rest[i].data)
			s.done = s.rest[i].lsn
			i++
		}
		s.rest = s.rest[i:]
		if i == 0 {
			return false, nil // an LSN gap ends at upTo
		}
	}
	return false, nil
}

// read takes the next part of the journal into rest.
func (s *source) read() (bool, error) {
	if s.held != nil {
		s.used, s.held = append(s.used, s.held), nil
	}
	var buf []byte
	if k := len(s.free); k > 0 {
		buf, s.free = s.free[k-1], s.free[:k-1]
	}
	chunk, err := s.reader.Next(buf, readSize)
	if err != nil {
		return false, fmt.Errorf("read journal: %w", err)
	}
	if chunk.Len() == 0 {
		return false, nil
	}
	s.held = chunk.Buf()
	s.rest = s.rest[:0]
	for lsn, data := range chunk.All() {
		s.rest = append(s.rest, unread{lsn, data})
	}
	return true, nil
}

// recycle tells that nothing needs what the last fill gave any more.
func (s *source) recycle() {
	s.free = append(s.free, s.used...)
	clear(s.used)
	s.used = s.used[:0]
}

// trim lets the memory go while there is nothing to fold.
func (s *source) trim() {
	s.free, s.used = nil, nil
	if len(s.rest) == 0 {
		s.rest, s.held = nil, nil
	}
}
