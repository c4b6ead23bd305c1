package local

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/ncruces/go-sqlite3"

	"emanet/internal/disk"
	"emanet/internal/journal"
	"emanet/internal/store"
)

// Report is what Check found.
type Report struct {
	Opened        bool      // else a damaged file kept the rest from being looked at, and all numbers are 0
	Folded, Last  store.LSN // in broker.db; in the journal
	Unfolded      int       // journal records above Folded
	Mailboxes     int
	Entries       uint64 // live, on pages
	EntryPages    int
	Messages      uint64 // live, on pages
	MessagePages  int
	Records       int
	Retained      int
	DatabaseBytes int64
	Problems      []string
	// MoreProblems counts those beyond problemsMax.
	MoreProblems int
}

const problemsMax = 100

func (r *Report) problem(format string, args ...any) {
	if len(r.Problems) >= problemsMax {
		r.MoreProblems++
		return
	}
	r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
}

// Check reads a whole data directory that nobody has open and says what does not fit together: damaged
// files, an entry without its body, a body that nobody holds, counts that are wrong. It changes nothing
// but what SQLite's recovery of its WAL does. The error is about not being able to look.
func Check(dir string, opt Options) (Report, error) {
	if err := matchJournal(dir, &opt); err != nil {
		return Report{}, fmt.Errorf("check %s: %w", dir, err)
	}
	s := &Store{opt: opt, dir: dir, failed: make(chan struct{})}
	var r Report
	err := s.check(&r)
	if cerr := s.release(); cerr != nil && err == nil {
		err = cerr
	}
	if err != nil {
		return r, fmt.Errorf("check %s: %w", dir, err)
	}
	return r, nil
}

// matchJournal takes the size and number of segments from the directory: whoever checks need not know
// with which options it was made.
func matchJournal(dir string, opt *Options) error {
	if opt.FS == nil {
		opt.FS = disk.OS()
	}
	if _, err := opt.FS.Stat(filepath.Join(dir, "format")); err != nil {
		return fmt.Errorf("not a data directory: %w", err)
	}
	entries, err := opt.FS.ReadDir(filepath.Join(dir, "journal"))
	if err != nil {
		return err
	}
	opt.Journal = journal.Options{}
	for _, e := range entries {
		if strings.HasSuffix(e.Name, ".seg") {
			opt.Journal.SegmentBytes = max(opt.Journal.SegmentBytes, e.Size)
			opt.Journal.Segments++
		}
	}
	opt.complete()
	return nil
}

func (s *Store) check(r *Report) error {
	err := s.open()
	if errors.Is(err, store.ErrCorrupt) {
		r.problem("%v", err)
		return nil
	}
	if err != nil {
		return err
	}
	r.Opened = true
	r.Folded, r.Last = s.fold.foldedLSN(), s.journal.Flushed()
	r.DatabaseBytes = s.fileSize(s.databasePath())
	if err := s.checkJournal(r); err != nil {
		return err
	}
	c := &checker{report: r, conn: s.fold.db.conn}
	return c.database()
}

func (s *Store) checkJournal(r *Report) error {
	source := newSource(s.journal, r.Folded)
	for {
		n := newNet()
		full, err := source.fill(n, r.Last, s.opt.FoldBytes, maxFoldEntries)
		if errors.Is(err, store.ErrCorrupt) || errors.Is(err, journal.ErrCorrupt) {
			r.problem("%v", err)
			return nil
		}
		if err != nil {
			return err
		}
		r.Unfolded += n.taken
		source.recycle()
		if !full {
			return nil
		}
	}
}

// checker compares what the tables of broker.db say about each other.
type checker struct {
	report *Report
	conn   *sqlite3.Conn

	messages []messageRef // of message_live, ascending
	held     map[uint64]uint64
	lanes    map[laneKey]*laneSum
	hidden   map[laneKey][]store.SeqRange
	nextSeq  map[uint64]uint64
}

type laneKey struct {
	mailbox  uint64
	priority uint8
}

// laneSum is what a lane's pages add up to.
type laneSum struct {
	count, bytes, first, last uint64
}

// each runs a query and calls f for each row.
func (c *checker) each(sql string, f func(s *statement) error) error {
	s, err := prepare(c.conn, sql)
	if err != nil {
		return err
	}
	defer s.Close()
	more, err := s.row()
	for ; more; more, err = s.more() {
		if err := f(s); err != nil {
			return err
		}
	}
	return err
}

func (c *checker) database() error {
	c.held, c.lanes = map[uint64]uint64{}, map[laneKey]*laneSum{}
	c.hidden, c.nextSeq = map[laneKey][]store.SeqRange{}, map[uint64]uint64{}
	for _, step := range []func() error{
		c.integrity, c.mailboxes, c.settled, c.messagePages, c.entryPages, c.references, c.laneRows, c.recordRows, c.retainedRows,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (c *checker) integrity() error {
	return c.each(`PRAGMA integrity_check(20)`, func(s *statement) error {
		if line := s.ColumnText(0); line != "ok" {
			c.report.problem("broker.db: %s", line)
		}
		return nil
	})
}

func (c *checker) mailboxes() error {
	return c.each(`SELECT id, next_seq, received FROM mailbox`, func(s *statement) error {
		c.report.Mailboxes++
		id := s.uint(0)
		c.nextSeq[id] = s.uint(1)
		b := s.ColumnRawBlob(2)
		ids := decodeReceived(b)
		ascending := len(b)%2 == 0
		for i := 1; i < len(ids); i++ {
			ascending = ascending && ids[i-1] < ids[i]
		}
		if !ascending {
			c.report.problem("mailbox %d: received packet ids are not ascending", id)
		}
		return nil
	})
}

func (c *checker) settled() error {
	return c.each(`SELECT mailbox, priority, from_seq, to_seq FROM settled`, func(s *statement) error {
		k := laneKey{s.uint(0), uint8(s.ColumnInt(1))}
		c.hidden[k] = append(c.hidden[k], store.SeqRange{From: s.uint(2), To: s.uint(3)})
		return nil
	})
}
