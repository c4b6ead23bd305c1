package local

import (
	"emanet/internal/journal"
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
		GroupBatches:  groupBatches(&j),
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

func groupBatches(j *journal.Stats) store.Histogram {
	h := store.Histogram{Sum: float64(j.Records)}
	for i, n := range j.Sizes {
		h.Count += n
		if i < len(j.Sizes)-1 {
			h.Bounds, h.Counts = append(h.Bounds, float64(int(1)<<i)), append(h.Counts, h.Count)
		}
	}
	return h
}
