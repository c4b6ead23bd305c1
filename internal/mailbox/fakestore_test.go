package mailbox

import (
	"maps"
	"slices"
	"sync"

	"emanet/internal/store"
)

// fakeStore is a store.Store in memory whose flushes and folds are steps of the test. It decodes every
// batch as it is committed and panics when an operation makes no sense: what a mailbox writes is thereby
// checked in every test.
type fakeStore struct {
	store.Store // what is not needed here panics

	append sync.Mutex // held from Begin to Commit
	batch  *store.Batch
	size   int // what Begin was told

	mu       sync.Mutex
	last     store.LSN
	flushLSN store.LSN
	folded   store.LSN
	records  []record // not folded
	visible  *contents
	pages    *contents // as of folded
	waiters  []*store.Waiter
	readErr  error
	reads    int
	longest  int           // most entries one ReadEntries gave
	gate     chan struct{} // ReadEntries waits for it to be closed; nil: does not
}

type record struct {
	lsn store.LSN
	ops []byte
}

func newFakeStore() *fakeStore {
	s := &fakeStore{visible: newContents(), pages: newContents()}
	s.batch = store.NewBatch(s, 1, 1)
	return s
}

func (s *fakeStore) Begin(_ store.Class, size int) (*store.Batch, error) {
	s.append.Lock()
	s.size = size
	s.batch.Reset(nil, s.last+1)
	return s.batch, nil
}

// begin is Begin for tests that do not care for sizes.
func (s *fakeStore) begin() *store.Batch {
	b, _ := s.Begin(store.Control, 1<<30)
	return b
}

func (s *fakeStore) Commit(ops []byte) store.LSN {
	if len(ops) > s.size {
		panic("fake store: the batch is larger than Begin was told")
	}
	s.mu.Lock()
	s.last++
	lsn := s.last
	s.visible.apply(ops)
	s.records = append(s.records, record{lsn, ops})
	s.mu.Unlock()
	s.append.Unlock()
	return lsn
}

func (s *fakeStore) Abort() { s.append.Unlock() }

func (s *fakeStore) Notify(w *store.Waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.waiters, w) {
		s.waiters = append(s.waiters, w)
	}
}

func (s *fakeStore) Flushed() store.LSN {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.flushLSN
}

// flush puts everything committed on disk.
func (s *fakeStore) flush() {
	s.append.Lock()
	s.mu.Lock()
	s.flushLSN = s.last
	lsn, waiters := s.flushLSN, s.waiters
	s.waiters = nil
	s.mu.Unlock()
	s.append.Unlock()
	for _, w := range waiters {
		w.F(lsn)
	}
}

// fold moves what is flushed to the pages and returns the LSN.
func (s *fakeStore) fold() store.LSN {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.records) > 0 && s.records[0].lsn <= s.flushLSN {
		s.pages.apply(s.records[0].ops)
		s.records = s.records[1:]
	}
	s.folded = s.flushLSN
	return s.folded
}

func (s *fakeStore) ReadEntries(mailbox uint64, priority uint8, after, before uint64, limit int, bytes int64) ([]store.Entry, error) {
	s.mu.Lock()
	gate := s.gate
	s.mu.Unlock()
	if gate != nil {
		<-gate
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	if s.readErr != nil {
		return nil, s.readErr
	}
	var found []store.Entry
	var cost int64
	s.pages.boxes[mailbox].walk(priority, after+1, before-1, func(e *store.Entry) bool {
		found = append(found, *e)
		if e.Message != nil {
			cost += e.Message.Cost()
		}
		return len(found) < limit && cost < bytes
	})
	s.longest = max(s.longest, len(found))
	return found, nil
}

func (s *fakeStore) readCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reads
}

// live lists the seqs of a mailbox's entries as of the last commit, ascending.
func (s *fakeStore) live(mailbox uint64) []uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.visible.boxes[mailbox].entries))
}

// crash is the store after a restart that finds the batches up to kept, which holds every flushed one.
// The old one is not to be used any more.
func (s *fakeStore) crash(kept store.LSN) *fakeStore {
	s.mu.Lock()
	defer s.mu.Unlock()
	if kept < s.flushLSN {
		panic("fake store: a crash does not lose what is flushed")
	}
	n := newFakeStore()
	n.last = s.last + 100 // LSNs go on above all that could stand in a torn rest
	n.flushLSN, n.folded = n.last, s.folded
	n.pages, n.visible = s.pages.clone(), s.pages.clone()
	for _, r := range s.records {
		if r.lsn <= kept {
			n.visible.apply(r.ops)
			n.records = append(n.records, r)
		}
	}
	n.batch = store.NewBatch(n, n.visible.nextMessage, n.visible.nextMailbox)
	return n
}

// restart is a crash that keeps everything committed.
func (s *fakeStore) restart() *fakeStore { return s.crash(s.last) }

// state is what Load would give for a mailbox.
func (s *fakeStore) state(mailbox uint64) store.MailboxState {
	now, then := s.visible.boxes[mailbox], s.pages.boxes[mailbox]
	if then == nil {
		then = newBox()
	}
	st := store.MailboxState{ID: mailbox, NextSeq: now.next}
	for _, p := range slices.Sorted(maps.Keys(now.order)) {
		ls := store.LaneState{Priority: p}
		then.walk(p, 0, 1<<63, func(e *store.Entry) bool {
			addPage(&ls, now.entries[e.Seq], e)
			return true
		})
		now.walk(p, 0, 1<<63, func(e *store.Entry) bool {
			if then.entries[e.Seq] == nil {
				ls.Tail = append(ls.Tail, store.TailEntry{Entry: *e, LSN: s.flushLSN})
			}
			return true
		})
		st.Lanes = append(st.Lanes, ls)
	}
	return st
}
