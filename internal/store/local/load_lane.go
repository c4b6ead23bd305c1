package local

import (
	"fmt"

	"emanet/internal/message"
	"emanet/internal/store"
)

func (l *loader) lane(state *store.LaneState, n *netLane) error {
	state.Gone = n.settledRanges()
	for _, c := range n.mergedChanges() {
		state.Changed = append(state.Changed, store.EntryChange{Seq: c.seq, Released: c.released, Deliveries: c.deliveries})
	}
	tail, tailBytes, err := l.tail(n)
	if err != nil {
		return err
	}
	state.Tail = tail
	state.Bytes += n.bytes - tailBytes
	for _, id := range n.moved {
		cost, err := l.db.writer.costOf(id)
		if err != nil {
			return err
		}
		state.Bytes += cost
	}
	count := int64(state.Count) + n.count - int64(len(tail))
	state.Count, state.Bytes = uint64(max(count, 0)), max(state.Bytes, 0)
	if state.Count == 0 {
		state.First, state.Last, state.Bytes = 0, 0, 0
	}
	return nil
}

// tail makes the lane's entries that are only in the journal, with their messages and Cost.
func (l *loader) tail(n *netLane) ([]store.TailEntry, int64, error) {
	var out []store.TailEntry
	var bytes int64
	if n.alive > 0 {
		out = make([]store.TailEntry, 0, n.alive)
	}
	for i := n.low; i < len(n.entries); i++ {
		e := &n.entries[i]
		if e.dead {
			continue
		}
		t := store.TailEntry{LSN: e.lsn, Entry: store.Entry{
			Seq: e.seq, Priority: n.priority, Attr: e.attr, Released: e.released, Deliveries: e.deliveries,
			ExpiresAt: e.expiresAt, Tag: l.intern(string(e.tag)), MessageID: e.message,
		}}
		if !e.released {
			m, err := l.message(e.message)
			if err != nil {
				return nil, 0, fmt.Errorf("entry %d: %w", e.seq, err)
			}
			t.Message = m
			bytes += store.Cost(m)
		}
		out = append(out, t)
	}
	return out, bytes, nil
}

func (l *loader) intern(s string) string {
	if s == "" {
		return ""
	}
	if known, ok := l.topics[s]; ok {
		return known
	}
	l.topics[s] = s
	return s
}

// message decodes a message of the tail once, whoever shares it; one of an earlier run comes from its page.
func (l *loader) message(id uint64) (*message.Message, error) {
	n := l.net.message(id)
	if n == nil {
		one := []store.Entry{{MessageID: id}}
		if _, err := l.reader.attach(one, 0); err != nil {
			return nil, err
		}
		return one[0].Message, nil
	}
	i := l.net.messageIndex(id)
	if l.decoded[i] == nil {
		m, err := l.reader.decode(id, n.body)
		if err != nil {
			return nil, fmt.Errorf("%w: message %d in the journal: %w", store.ErrCorrupt, id, err)
		}
		l.decoded[i] = m
	}
	return l.decoded[i], nil
}
