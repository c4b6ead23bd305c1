package local

import (
	"log/slog"

	"github.com/ncruces/go-sqlite3"
)

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
