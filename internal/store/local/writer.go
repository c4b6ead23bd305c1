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

type writerStatements struct {
	begin, commit, rollback *statement
	metaPut                 *statement

	mailboxGet, mailboxPut, mailboxSeq, mailboxDelete  *statement
	laneGet, lanePut, laneDelete, lanesDelete, lanesOf *statement

	pageLast, pageAt, pageAfter, pageInsert, pageUpdate, pageDelete *statement
	settledPut, settledNext, settledDelete, settledClear            *statement

	liveLast, liveAt, livePut, liveDelete    *statement
	messageGet, messageInsert, messageDelete *statement

	recordPut, recordDelete, recordsFrom, recordsBetween, retainedPut, retainedDelete *statement
}

func newWriter(conn *sqlite3.Conn, geo geometry, log *slog.Logger) (*writer, error) {
	w := &writer{conn: conn, geo: geo, log: log}
	s := &w.stmt
	for _, p := range []struct {
		to  **statement
		sql string
	}{
		{&s.begin, `BEGIN IMMEDIATE`},
		{&s.commit, `COMMIT`},
		{&s.rollback, `ROLLBACK`},
		{&s.metaPut, `INSERT INTO meta (key, value) VALUES (?1, ?2) ON CONFLICT DO UPDATE SET value = max(value, ?2)`},

		{&s.mailboxGet, `SELECT next_seq, received FROM mailbox WHERE id = ?`},
		{&s.mailboxPut, `INSERT INTO mailbox (id, next_seq, received) VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET next_seq = max(next_seq, ?2), received = ?3`},
		{&s.mailboxSeq, `INSERT INTO mailbox (id, next_seq, received) VALUES (?1, ?2, x'') ON CONFLICT DO UPDATE SET next_seq = max(next_seq, ?2)`},
		{&s.mailboxDelete, `DELETE FROM mailbox WHERE id = ?`},

		{&s.laneGet, `SELECT count, bytes, first_seq, last_seq FROM lane WHERE mailbox = ? AND priority = ?`},
		{&s.lanePut, `INSERT OR REPLACE INTO lane (mailbox, priority, count, bytes, first_seq, last_seq) VALUES (?, ?, ?, ?, ?, ?)`},
		{&s.laneDelete, `DELETE FROM lane WHERE mailbox = ? AND priority = ?`},
		{&s.lanesDelete, `DELETE FROM lane WHERE mailbox = ?`},
		{&s.lanesOf, `SELECT priority FROM entry_page WHERE mailbox = ? AND priority >= ? ORDER BY priority LIMIT 1`},

		{&s.pageLast, `SELECT id, first_seq, last_seq, count, data FROM entry_page WHERE mailbox = ? AND priority = ? AND first_seq < ? ORDER BY first_seq DESC LIMIT 1`},
		{&s.pageAt, `SELECT id, first_seq, last_seq, count, data FROM entry_page WHERE mailbox = ? AND priority = ? AND first_seq <= ? ORDER BY first_seq DESC LIMIT 1`},
		{&s.pageAfter, `SELECT id, first_seq, last_seq, count, data FROM entry_page WHERE mailbox = ? AND priority = ? AND first_seq > ? ORDER BY first_seq LIMIT 1`},
		{&s.pageInsert, `INSERT INTO entry_page (mailbox, priority, first_seq, last_seq, count, data) VALUES (?, ?, ?, ?, ?, ?)`},
		{&s.pageUpdate, `UPDATE entry_page SET first_seq = ?2, last_seq = ?3, count = ?4, data = ?5 WHERE id = ?1`},
		{&s.pageDelete, `DELETE FROM entry_page WHERE id = ?`},

		{&s.settledPut, `INSERT INTO settled (mailbox, priority, from_seq, to_seq) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO UPDATE SET to_seq = max(to_seq, ?4)`},
		{&s.settledNext, `SELECT mailbox, priority, from_seq, to_seq FROM settled LIMIT 1`},
		{&s.settledDelete, `DELETE FROM settled WHERE mailbox = ? AND priority = ? AND from_seq = ?`},
		{&s.settledClear, `DELETE FROM settled WHERE mailbox = ?`},

		{&s.liveLast, `SELECT first_id, last_id, live, live_cost, cost, refs FROM message_live WHERE first_id < ? ORDER BY first_id DESC LIMIT 1`},
		{&s.liveAt, `SELECT first_id, last_id, live, live_cost, cost, refs FROM message_live WHERE first_id <= ? ORDER BY first_id DESC LIMIT 1`},
		{&s.livePut, `INSERT OR REPLACE INTO message_live (first_id, last_id, live, live_cost, cost, refs) VALUES (?, ?, ?, ?, ?, ?)`},
		{&s.liveDelete, `DELETE FROM message_live WHERE first_id = ?`},
		{&s.messageGet, `SELECT data FROM message_page WHERE first_id = ?`},
		{&s.messageInsert, `INSERT INTO message_page (first_id, data) VALUES (?, ?)`},
		{&s.messageDelete, `DELETE FROM message_page WHERE first_id = ?`},

		{&s.recordPut, `INSERT OR REPLACE INTO record (kind, key, value) VALUES (?, ?, ?)`},
		{&s.recordDelete, `DELETE FROM record WHERE kind = ? AND key = ?`},
		{&s.recordsFrom, `DELETE FROM record WHERE kind = ? AND key >= ?`},
		{&s.recordsBetween, `DELETE FROM record WHERE kind = ? AND key >= ? AND key < ?`},
		{&s.retainedPut, `INSERT OR REPLACE INTO retained (topic, payload, qos, retain, received_at, expires_at, properties) VALUES (?, ?, ?, ?, ?, ?, ?)`},
		{&s.retainedDelete, `DELETE FROM retained WHERE topic = ?`},
	} {
		var err error
		if *p.to, err = prepare(conn, p.sql); err != nil {
			return nil, err
		}
	}
	return w, nil
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
	w.refs = append(w.refs, n.refs...)
	for _, m := range n.sortedMailboxes() {
		if err := w.mailbox(m); err != nil {
			return false, fmt.Errorf("mailbox %d: %w", m.id, err)
		}
	}
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

// laneRow is a row of lane.
type laneRow struct {
	count, bytes uint64
	first, last  uint64
}

func (w *writer) laneRow(mailbox uint64, priority uint8) (laneRow, error) {
	got, err := w.stmt.laneGet.row(mailbox, int(priority))
	if err != nil {
		return laneRow{}, err
	}
	defer w.stmt.laneGet.done()
	if !got {
		return laneRow{}, nil
	}
	s := w.stmt.laneGet
	return laneRow{s.uint(0), s.uint(1), s.uint(2), s.uint(3)}, nil
}

// lane brings one lane's net effect to its pages and its row.
func (w *writer) lane(l *netLane) error {
	if l.alive == 0 && l.count == 0 && len(l.settled) == 0 && len(l.changes) == 0 {
		return nil // all that came went again
	}
	row, err := w.laneRow(l.mailbox, l.priority)
	if err != nil {
		return err
	}
	settled, changes := l.settledRanges(), l.mergedChanges()
	if len(settled)+len(changes) > 0 {
		rest, err := w.changePages(l.mailbox, l.priority, settled, changes)
		if err != nil {
			return err
		}
		for _, r := range rest {
			if err := w.stmt.settledPut.exec(l.mailbox, int(l.priority), r.From, r.To); err != nil {
				return err
			}
		}
	}
	bytes := int64(row.bytes) + l.bytes
	for _, id := range l.moved {
		cost, err := w.costOf(id)
		if err != nil {
			return err
		}
		bytes += cost
	}
	if l.alive > 0 {
		if err := w.addEntries(l); err != nil {
			return err
		}
		row.last = w.entries.last
	}
	row.count = w.atLeastZero(int64(row.count)+l.count, l, "entries")
	row.bytes = w.atLeastZero(bytes, l, "bytes")
	if row.count == 0 {
		return w.stmt.laneDelete.exec(l.mailbox, int(l.priority))
	}
	if row.first, err = w.firstSeq(l.mailbox, l.priority); err != nil {
		return err
	}
	return w.stmt.lanePut.exec(l.mailbox, int(l.priority), row.count, row.bytes, row.first, row.last)
}

// atLeastZero keeps a count that settlements took below zero: a fold stops for no record, but it says so.
func (w *writer) atLeastZero(v int64, l *netLane, what string) uint64 {
	if v >= 0 {
		return uint64(v)
	}
	w.stray("lane count below zero", slog.Uint64("mailbox", l.mailbox), slog.Int("priority", int(l.priority)),
		slog.String("of", what), slog.Int64("value", v))
	return 0
}

// stray notes something that should not be.
func (w *writer) stray(what string, attrs ...any) {
	w.strays++
	w.log.Error("fold: "+what, attrs...)
}

func (w *writer) firstSeq(mailbox uint64, priority uint8) (uint64, error) {
	got, err := w.stmt.pageAfter.row(mailbox, int(priority), 0)
	if err != nil {
		return 0, err
	}
	defer w.stmt.pageAfter.done()
	if !got {
		return 0, nil
	}
	return w.stmt.pageAfter.uint(1), nil
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
