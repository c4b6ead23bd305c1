package local

import (
	"emanet/internal/store"
)

// Stats reads the counters.
func (s *Store) Stats() store.Stats {
	j := s.journal.Stats()
	st := store.Stats{
		Appended: s.journal.Appended(), Flushed: s.journal.Flushed(), Folded: s.fold.foldedLSN(),
		Groups: j.Groups, GroupBytes: j.GroupBytes,
		JournalUsed: j.BytesUsed, JournalTotal: j.Bytes,
		FlushSeconds:  s.flushes.histogram(),
		WALBytes:      s.fileSize(s.databasePath() + "-wal"),
		DatabaseBytes: s.fileSize(s.databasePath()),
	}
	f := &s.fold.statistic
	f.mu.Lock()
	st.Folds, st.FoldSeconds, st.FoldedOps = f.folds, f.spent.Seconds(), f.ops
	f.mu.Unlock()
	return st
}

// fileSize is 0 for a file that is not there.
func (s *Store) fileSize(name string) int64 {
	e, err := s.opt.FS.Stat(name)
	if err != nil {
		return 0
	}
	return e.Size
}
