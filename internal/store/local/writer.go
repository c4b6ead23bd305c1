package local

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ncruces/go-sqlite3"

	"emanet/internal/store"
)

// geometry says how large pages are. The defaults are measured: docs/adr/0001-packed-pages.md.
type geometry struct {
	pageEntries  int // entries on an entry page, messages on a message page
	pageBytes    int // data of a page; a single larger message still gets one
	settleBudget int // entry pages that large settlements may touch in one transaction
	// A message page with less than this Cost is not worth rewriting when it gets sparse: the row is most of it.
	sparseCost uint64
	// stepsTime is spent on large settlements at a time; the rest waits for the next tick.
	stepsTime time.Duration
}

func defaultGeometry() geometry {
	return geometry{pageEntries: 256, pageBytes: 64 << 10, settleBudget: 1024, sparseCost: 4096, stepsTime: 100 * time.Millisecond}
}

// writer brings net effects into SQLite. The fold's goroutine owns it.
type writer struct {
	conn   *sqlite3.Conn
	geo    geometry
	log    *slog.Logger
	stmt   writerStatements
	net    *net        // being written
	refs   []refChange // of the transaction that is open
	budget int         // entry pages left to it
	// beforeCommit may still call the transaction off.
	beforeCommit func() error
	strays       uint64 // references and entries that were not where they should be

	entries  entryWriter // scratch
	messages messageWriter
	decoded  []messageRef
	blob     []byte
}

// write brings n and its LSN into SQLite, all or nothing, and takes a step of the large settlements that
// wait. more tells that some still do.
func (w *writer) write(n *net) (more bool, err error) {
	if err := w.stmt.begin.exec(); err != nil {
		return false, err
	}
	w.refs, w.budget = w.refs[:0], w.geo.settleBudget
	more, err = w.writeOpen(n)
	if err == nil && w.beforeCommit != nil {
		err = w.beforeCommit()
	}
	if err == nil {
		err = w.stmt.commit.exec()
	}
	if err != nil && !w.conn.GetAutocommit() {
		err = errors.Join(err, w.stmt.rollback.exec())
	}
	return more, err
}

func (w *writer) writeOpen(n *net) (more bool, err error) {
	w.net = n
	w.strays += uint64(n.strays)
	for _, m := range n.sortedMailboxes() {
		if err := w.mailbox(m); err != nil {
			return false, fmt.Errorf("mailbox %d: %w", m.id, err)
		}
	}
	w.refs = append(w.refs, n.refs...)
	if more, err = w.settledStep(); err != nil {
		return false, err
	}
	if err := w.applyRefs(); err != nil {
		return false, err
	}
	if err := w.addMessages(n.messages); err != nil {
		return false, err
	}
	if err := w.records(n); err != nil {
		return false, err
	}
	for _, m := range []struct {
		key   string
		value uint64
	}{{metaFolded, uint64(n.last)}, {metaNextMessage, n.nextMessage}, {metaNextMailbox, n.nextMailbox}} {
		if m.value == 0 {
			continue
		}
		if err := w.stmt.metaPut.exec(m.key, m.value); err != nil {
			return false, err
		}
	}
	return more, nil
}

// Keys of meta. All of them only rise.
const (
	metaFormat      = "format"
	metaFolded      = "folded"
	metaNextMessage = "next_message"
	metaNextMailbox = "next_mailbox"
)

func (w *writer) mailbox(m *netMailbox) error {
	switch {
	case m.deleted && m.created:
		return nil
	case m.deleted:
		return w.deleteMailbox(m.id)
	case len(m.received) > 0:
		if err := w.received(m); err != nil {
			return err
		}
	case m.created || m.nextSeq != 0:
		if err := w.stmt.mailboxSeq.exec(m.id, max(m.nextSeq, 1)); err != nil {
			return err
		}
	}
	for _, l := range m.lanes {
		if err := w.lane(l); err != nil {
			return fmt.Errorf("priority %d: %w", l.priority, err)
		}
	}
	return nil
}

// deleteMailbox lets the rows go at once and the pages in steps.
func (w *writer) deleteMailbox(id uint64) error {
	if err := w.stmt.settledClear.exec(id); err != nil {
		return err
	}
	for priority := 0; ; priority++ {
		next, err := w.nextLaneOfPages(id, priority)
		if err != nil {
			return err
		}
		if next < 0 {
			break
		}
		priority = next
		if err := w.stmt.settledPut.exec(id, priority, 0, int64(maxSeq)); err != nil {
			return err
		}
	}
	if err := w.stmt.lanesDelete.exec(id); err != nil {
		return err
	}
	return w.stmt.mailboxDelete.exec(id)
}

// maxSeq is above every seq.
const maxSeq = uint64(1)<<63 - 1

func (w *writer) received(m *netMailbox) error {
	got, err := w.stmt.mailboxGet.row(m.id)
	if err != nil {
		return err
	}
	ids := map[uint16]bool{}
	if got {
		for _, id := range decodeReceived(w.stmt.mailboxGet.ColumnRawBlob(1)) {
			ids[id] = true
		}
	}
	w.stmt.mailboxGet.done()
	for id, there := range m.received {
		if there {
			ids[id] = true
		} else {
			delete(ids, id)
		}
	}
	return w.stmt.mailboxPut.exec(m.id, max(m.nextSeq, 1), encodeReceived(ids))
}

// stray notes something that should not be.
func (w *writer) stray(what string, attrs ...any) {
	w.strays++
	w.log.Error("fold: "+what, attrs...)
}

func (w *writer) nextLaneOfPages(mailbox uint64, from int) (int, error) {
	got, err := w.stmt.lanesOf.row(mailbox, from)
	if err != nil {
		return -1, err
	}
	defer w.stmt.lanesOf.done()
	if !got {
		return -1, nil
	}
	return w.stmt.lanesOf.ColumnInt(0), nil
}

// settledStep works off large settlements with what is left of the budget.
func (w *writer) settledStep() (more bool, err error) {
	for w.budget > 0 {
		got, err := w.stmt.settledNext.row()
		if err != nil {
			return false, err
		}
		s := w.stmt.settledNext
		mailbox, priority := s.uint(0), uint8(s.ColumnInt(1))
		r := store.SeqRange{From: s.uint(2), To: s.uint(3)}
		s.done()
		if !got {
			return false, nil
		}
		rest, err := w.changePages(mailbox, priority, []store.SeqRange{r}, nil)
		if err != nil {
			return false, err
		}
		if err := w.stmt.settledDelete.exec(mailbox, int(priority), r.From); err != nil {
			return false, err
		}
		for _, r := range rest {
			if err := w.stmt.settledPut.exec(mailbox, int(priority), r.From, r.To); err != nil {
				return false, err
			}
		}
	}
	return true, nil
}
