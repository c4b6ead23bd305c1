package local

import (
	"errors"
	"fmt"

	"emanet/internal/message"
	"emanet/internal/store"
)

// Load hands out the state as of the last batch in the journal: broker.db, and over it the net effect of
// what is not folded. It writes nothing, so it works on a full disk.
func (s *Store) Load(to store.Loader) error {
	if s.loaded {
		panic("local: Load called twice")
	}
	s.loaded = true
	l := &loader{to: to, db: s.fold.db, net: newNet(), topics: map[string]string{}}
	if err := l.load(s); err != nil {
		return fmt.Errorf("load store %s: %w", s.dir, err)
	}
	s.batch = store.NewBatch(sealer{s}, max(s.fold.db.nextMessage, l.net.nextMessage), max(s.fold.db.nextMailbox, l.net.nextMailbox))
	return nil
}

// loader merges broker.db and the unfolded tail.
type loader struct {
	to      store.Loader
	db      *database
	net     *net
	reader  *reader            // for messages on pages that entries of the tail refer to
	decoded []*message.Message // of net.messages, as they are needed
	topics  map[string]string
}

func (l *loader) load(s *Store) (err error) {
	source := newSource(s.journal, s.fold.foldedLSN())
	all := int(^uint(0) >> 1)
	if _, err := source.fill(l.net, s.journal.Flushed(), all, all); err != nil {
		return err
	}
	l.decoded = make([]*message.Message, len(l.net.messages))
	if l.reader, err = newReader(s.databasePath(), s.opt.VFS); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.reader.close()) }()
	l.reader.topics = l.topics
	if err := l.records(); err != nil {
		return fmt.Errorf("records: %w", err)
	}
	if err := l.retained(); err != nil {
		return fmt.Errorf("retained messages: %w", err)
	}
	return l.mailboxes()
}

func (l *loader) records() error {
	s, err := prepare(l.db.conn, `SELECT kind, key, value FROM record`)
	if err != nil {
		return err
	}
	defer s.Close()
	lengths := map[int]bool{}
	for p := range l.net.prefixes {
		lengths[len(p.key)] = true
	}
	more, err := s.row()
	for ; more; more, err = s.more() {
		k := recordKey{s.ColumnText(0), s.ColumnText(1)}
		if _, newer := l.net.records[k]; newer || l.deletedByPrefix(k, lengths) {
			continue
		}
		if err := l.to.Record(k.kind, k.key, s.ColumnRawText(2)); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	keys, values := l.net.sortedRecords()
	for i, k := range keys {
		if values[i].value == nil {
			continue
		}
		if err := l.to.Record(k.kind, k.key, values[i].value); err != nil {
			return err
		}
	}
	return nil
}

func (l *loader) deletedByPrefix(k recordKey, lengths map[int]bool) bool {
	for n := range lengths {
		if n > len(k.key) {
			continue
		}
		if _, ok := l.net.prefixes[recordKey{k.kind, k.key[:n]}]; ok {
			return true
		}
	}
	return false
}

func (l *loader) retained() error {
	s, err := prepare(l.db.conn, `SELECT `+retainedColumns+` FROM retained`)
	if err != nil {
		return err
	}
	defer s.Close()
	more, err := s.row()
	for ; more; more, err = s.more() {
		if _, newer := l.net.retained[s.ColumnText(0)]; newer {
			continue
		}
		m, err := readRetained(s)
		if err != nil {
			return err
		}
		if err := l.to.Retained(m); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	for topic, r := range l.net.retained {
		if r.body == nil {
			continue
		}
		m, err := message.Decode(r.body)
		if err != nil {
			return fmt.Errorf("%q: %w", topic, err)
		}
		if err := l.to.Retained(m); err != nil {
			return err
		}
	}
	return nil
}

// mailboxes walks the rows of mailbox and lane side by side, both by mailbox id, and then what the tail made.
func (l *loader) mailboxes() error {
	boxes, err := prepare(l.db.conn, `SELECT id, next_seq, received FROM mailbox ORDER BY id`)
	if err != nil {
		return err
	}
	defer boxes.Close()
	lanes, err := prepare(l.db.conn, `SELECT mailbox, priority, count, bytes, first_seq, last_seq FROM lane ORDER BY mailbox, priority`)
	if err != nil {
		return err
	}
	defer lanes.Close()
	moreLanes, err := lanes.row()
	if err != nil {
		return err
	}
	more, err := boxes.row()
	for ; more; more, err = boxes.more() {
		state := store.MailboxState{ID: boxes.uint(0), NextSeq: boxes.uint(1), Received: decodeReceived(boxes.ColumnRawBlob(2))}
		for moreLanes && lanes.uint(0) <= state.ID {
			if lanes.uint(0) == state.ID {
				state.Lanes = append(state.Lanes, store.LaneState{
					Priority: uint8(lanes.ColumnInt(1)), Count: lanes.uint(2), Bytes: lanes.ColumnInt64(3),
					First: lanes.uint(4), Last: lanes.uint(5),
				})
			}
			if moreLanes, err = lanes.more(); err != nil {
				return err
			}
		}
		if err := l.mailbox(&state, l.net.mailboxes[state.ID]); err != nil {
			return err
		}
		delete(l.net.mailboxes, state.ID)
	}
	if err != nil {
		return err
	}
	for _, m := range l.net.sortedMailboxes() {
		if m.created || m.nextSeq != 0 || len(m.received) != 0 {
			if err := l.mailbox(&store.MailboxState{ID: m.id, NextSeq: 1}, m); err != nil {
				return err
			}
		}
	}
	return nil
}

// mailbox lays m, which may be nil, over the state on pages and hands it out.
func (l *loader) mailbox(state *store.MailboxState, m *netMailbox) error {
	if m != nil {
		if m.deleted {
			return nil
		}
		state.NextSeq = max(state.NextSeq, m.nextSeq)
		state.Received = overlayReceived(state.Received, m.received)
		for _, lane := range m.lanes {
			if err := l.lane(laneOf(state, lane.priority), lane); err != nil {
				return fmt.Errorf("mailbox %d, priority %d: %w", m.id, lane.priority, err)
			}
		}
	}
	return l.to.Mailbox(*state)
}

func overlayReceived(ids []uint16, changes map[uint16]bool) []uint16 {
	if len(changes) == 0 {
		return ids
	}
	all := map[uint16]bool{}
	for _, id := range ids {
		all[id] = true
	}
	for id, there := range changes {
		if there {
			all[id] = true
		} else {
			delete(all, id)
		}
	}
	return decodeReceived(encodeReceived(all))
}

func laneOf(state *store.MailboxState, priority uint8) *store.LaneState {
	for i := range state.Lanes {
		if state.Lanes[i].Priority == priority {
			return &state.Lanes[i]
		}
	}
	state.Lanes = append(state.Lanes, store.LaneState{Priority: priority})
	return &state.Lanes[len(state.Lanes)-1]
}
