package local

import (
	"errors"
	"fmt"

	"github.com/ncruces/go-sqlite3"

	"emanet/internal/message"
	"emanet/internal/store"
)

// reader reads entries with their messages from pages. One goroutine uses it at a time.
type reader struct {
	conn                       *sqlite3.Conn
	begin, end                 *statement
	pageAt, pageAfter, settled *statement
	message                    *statement
	topics                     map[string]string // repeated topics of one call share their bytes
}

// readCache is SQLite's page cache of one read connection: pages are read once, in order.
const readCache = 1 << 20

func newReader(path, vfs string) (*reader, error) {
	conn, err := connect(path, vfs, sqlite3.OPEN_READWRITE, readCache)
	if err != nil {
		return nil, err
	}
	r := &reader{conn: conn}
	if err := conn.Exec(`PRAGMA query_only = ON`); err != nil {
		return nil, errors.Join(err, disconnect(conn))
	}
	for _, p := range []struct {
		to  **statement
		sql string
	}{
		{&r.begin, `BEGIN`},
		{&r.end, `COMMIT`},
		{&r.pageAt, `SELECT first_seq, last_seq, data FROM entry_page WHERE mailbox = ? AND priority = ? AND first_seq <= ? ORDER BY first_seq DESC LIMIT 1`},
		{&r.pageAfter, `SELECT first_seq, last_seq, data FROM entry_page WHERE mailbox = ? AND priority = ? AND first_seq > ? ORDER BY first_seq LIMIT 1`},
		{&r.settled, `SELECT from_seq, to_seq FROM settled WHERE mailbox = ? AND priority = ? ORDER BY from_seq`},
		{&r.message, `SELECT p.first_id, l.last_id, p.data FROM message_live l JOIN message_page p ON p.first_id = l.first_id WHERE l.first_id <= ? ORDER BY l.first_id DESC LIMIT 1`},
	} {
		if *p.to, err = prepare(conn, p.sql); err != nil {
			return nil, errors.Join(err, disconnect(conn))
		}
	}
	return r, nil
}

func (r *reader) close() error { return disconnect(r.conn) }

// entries is store.ReadEntries within one snapshot.
func (r *reader) entries(mailbox uint64, priority uint8, after, before uint64, limit int, bytes int64) (entries []store.Entry, err error) {
	if limit <= 0 || after >= maxSeq {
		return nil, nil
	}
	if err := r.begin.exec(); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.end.exec()) }()
	hidden, err := r.hidden(mailbox, priority)
	if err != nil {
		return nil, err
	}
	r.topics = make(map[string]string)
	entries = make([]store.Entry, 0, min(limit, 256))
	for next := after + 1; next < before && len(entries) < limit; {
		for len(hidden) > 0 && hidden[0].To < next {
			hidden = hidden[1:]
		}
		if len(hidden) > 0 && hidden[0].From <= next {
			next = hidden[0].To + 1
			continue
		}
		last, found, err := r.page(mailbox, priority, next, before, limit, hidden, &entries)
		if err != nil {
			return nil, fmt.Errorf("mailbox %d, priority %d, page of entry %d: %w", mailbox, priority, next, err)
		}
		if !found {
			break
		}
		next = last + 1
	}
	n, err := r.attach(entries, bytes)
	if err != nil {
		return nil, fmt.Errorf("mailbox %d, priority %d: %w", mailbox, priority, err)
	}
	return entries[:n], nil
}

// hidden are the ranges that pages still show though they are settled.
func (r *reader) hidden(mailbox uint64, priority uint8) ([]store.SeqRange, error) {
	var out []store.SeqRange
	more, err := r.settled.row(mailbox, int(priority))
	for ; more; more, err = r.settled.more() {
		out = append(out, store.SeqRange{From: r.settled.uint(0), To: r.settled.uint(1)})
	}
	r.settled.done()
	return mergeRanges(out), err
}

// page adds entries from the page that holds seq from, or the next one, and tells the page's last seq.
func (r *reader) page(mailbox uint64, priority uint8, from, before uint64, limit int, hidden []store.SeqRange, to *[]store.Entry) (last uint64, found bool, err error) {
	s := r.pageAt
	got, err := s.row(mailbox, int(priority), from)
	if err != nil {
		return 0, false, err
	}
	if !got || s.uint(1) < from {
		s.done()
		s = r.pageAfter
		if got, err = s.row(mailbox, int(priority), from); err != nil {
			return 0, false, err
		}
	}
	defer s.done()
	if !got {
		return 0, false, nil
	}
	pages := newEntryReader(s.uint(0), s.ColumnRawBlob(2))
	var e pageEntry
	tag := ""
	for len(*to) < limit && pages.next(&e) && e.seq < before {
		if e.seq < from {
			continue
		}
		for len(hidden) > 0 && hidden[0].To < e.seq {
			hidden = hidden[1:]
		}
		if len(hidden) > 0 && hidden[0].From <= e.seq {
			continue
		}
		if string(e.tag) != tag {
			tag = string(e.tag)
		}
		*to = append(*to, store.Entry{
			Seq: e.seq, Priority: priority, Attr: e.attr, Released: e.released, Deliveries: e.deliveries,
			ExpiresAt: e.expiresAt, Tag: tag, MessageID: e.message,
		})
	}
	return s.uint(1), true, pages.err
}

// attach gives the entries their messages. Messages come mostly in the order of the entries, so a page of
// bodies is walked once for a run of them. It ends after the entry with which their Cost comes to limit
// and returns how many have theirs: bodies behind it are not decoded.
func (r *reader) attach(entries []store.Entry, limit int64) (n int, err error) {
	var bodies messageReader
	var id, last uint64
	var cost int64
	var body []byte
	ok := false
	defer r.message.done()
	for i := range entries {
		e := &entries[i]
		if i > 0 && cost >= limit {
			return i, nil
		}
		if e.Released {
			continue
		}
		if !ok || e.MessageID < id || e.MessageID > last {
			r.message.done()
			got, err := r.message.row(e.MessageID)
			if err != nil {
				return 0, err
			}
			if !got || r.message.uint(1) < e.MessageID {
				return 0, fmt.Errorf("%w: message %d of entry %d is on no page", store.ErrCorrupt, e.MessageID, e.Seq)
			}
			last = r.message.uint(1)
			bodies = newMessageReader(r.message.uint(0), r.message.ColumnRawBlob(2))
			id, body, ok = bodies.next()
		}
		for ok && id < e.MessageID {
			id, body, ok = bodies.next()
		}
		if !ok || id != e.MessageID {
			return 0, errors.Join(bodies.err, fmt.Errorf("%w: message %d of entry %d is not on its page", store.ErrCorrupt, e.MessageID, e.Seq))
		}
		m, err := r.decode(id, body)
		if err != nil {
			return 0, fmt.Errorf("%w: message %d of entry %d: %w", store.ErrCorrupt, id, e.Seq, err)
		}
		e.Message = m
		cost += m.Cost()
	}
	return len(entries), nil
}

func (r *reader) decode(id uint64, body []byte) (*message.Message, error) {
	m, err := message.Decode(body)
	if err != nil {
		return nil, err
	}
	m.ID = id
	if topic, ok := r.topics[m.Topic]; ok {
		m.Topic = topic
	} else {
		r.topics[m.Topic] = m.Topic
	}
	return m, nil
}
