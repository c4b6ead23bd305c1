package local

import (
	"encoding/json"

	"emanet/internal/message"
	"emanet/internal/store"
)

// messagePages reads bodies and their references side by side.
func (c *checker) messagePages() error {
	var last uint64
	return c.each(`SELECT l.first_id, l.last_id, l.live, l.live_cost, l.cost, l.refs, p.data, coalesce(l.first_id, p.first_id)
		FROM message_live l FULL JOIN message_page p ON p.first_id = l.first_id ORDER BY 8`, func(s *statement) error {
		c.report.MessagePages++
		row := liveRow{s.uint(0), s.uint(1), s.ColumnInt(2), s.uint(3), s.uint(4)}
		refs, err := decodeRefs(nil, row.first, s.ColumnRawBlob(5))
		if err != nil || len(refs) == 0 {
			c.report.problem("message page %d: no references: %v", s.uint(7), err)
			return nil
		}
		if row.first <= last && last != 0 || refs[0].id != row.first || refs[len(refs)-1].id != row.last {
			c.report.problem("message page %d: ids %d to %d after %d, said to be %d to %d", row.first, refs[0].id, refs[len(refs)-1].id, last, row.first, row.last)
		}
		last = row.last
		c.bodies(row, refs, s.ColumnRawBlob(6))
		c.messages = append(c.messages, refs...)
		return nil
	})
}

func (c *checker) bodies(row liveRow, refs []messageRef, data []byte) {
	var sum liveRow
	r := newMessageReader(row.first, data)
	i := 0
	for id, body, ok := r.next(); ok; id, body, ok = r.next() {
		if i >= len(refs) || refs[i].id != id {
			c.report.problem("message page %d: body %d has no reference", row.first, id)
			return
		}
		m, err := message.Decode(body)
		if err != nil {
			c.report.problem("message %d: %v", id, err)
		} else if uint64(store.Cost(m)) != refs[i].cost {
			c.report.problem("message %d: cost %d, said to be %d", id, store.Cost(m), refs[i].cost)
		}
		sum.cost += refs[i].cost
		if refs[i].refs > 0 {
			sum.live++
			sum.liveCost += refs[i].cost
		}
		i++
	}
	if r.err != nil || i != len(refs) {
		c.report.problem("message page %d: %d of %d bodies are there: %v", row.first, i, len(refs), r.err)
	}
	if sum.live != row.live || sum.liveCost != row.liveCost || sum.cost != row.cost {
		c.report.problem("message page %d: %d live of cost %d and %d, said to be %d of %d and %d", row.first,
			sum.live, sum.liveCost, sum.cost, row.live, row.liveCost, row.cost)
	}
	if sum.live == 0 {
		c.report.problem("message page %d: nothing on it lives", row.first)
	}
	c.report.Messages += uint64(sum.live)
}

func (c *checker) entryPages() error {
	var at laneKey
	var last uint64
	return c.each(`SELECT id, first_seq, last_seq, count, data, mailbox, priority FROM entry_page ORDER BY mailbox, priority, first_seq`, func(s *statement) error {
		c.report.EntryPages++
		page := readEntryPage(s)
		k := laneKey{s.uint(5), uint8(s.ColumnInt(6))}
		if k != at {
			at, last = k, 0
		}
		if page.first <= last {
			c.report.problem("lane %v: page of entries %d to %d overlaps the one before", k, page.first, page.last)
		}
		last = page.last
		c.entries(k, page)
		return nil
	})
}

func (c *checker) entries(k laneKey, page entryPageRow) {
	var e pageEntry
	var first, last uint64
	n := 0
	r := newEntryReader(page.first, page.data)
	for r.next(&e) {
		if n++; n == 1 {
			first = e.seq
		}
		last = e.seq
		if !e.released {
			c.held[e.message]++
		}
		if inRanges(c.hidden[k], e.seq) {
			continue
		}
		c.report.Entries++
		sum := c.lanes[k]
		if sum == nil {
			sum = &laneSum{first: e.seq}
			c.lanes[k] = sum
		}
		sum.count++
		sum.last = e.seq
		if !e.released {
			sum.bytes += c.cost(k, &e)
		}
		if next, ok := c.nextSeq[k.mailbox]; !ok || e.seq >= next {
			c.report.problem("lane %v: entry %d, but the mailbox's next seq is %d (there: %v)", k, e.seq, next, ok)
		}
	}
	if r.err != nil || n != page.count || first != page.first || last != page.last {
		c.report.problem("lane %v: page %d has %d entries %d to %d, said to be %d from %d to %d: %v", k, page.id,
			n, first, last, page.count, page.first, page.last, r.err)
	}
}

func (c *checker) cost(k laneKey, e *pageEntry) uint64 {
	i, ok := findRef(c.messages, e.message)
	if !ok {
		c.report.problem("lane %v: entry %d: its message %d is not there", k, e.seq, e.message)
		return 0
	}
	return c.messages[i].cost
}

func inRanges(rs []store.SeqRange, seq uint64) bool {
	for _, r := range rs {
		if r.From <= seq && seq <= r.To {
			return true
		}
	}
	return false
}

// references compares the counts on message pages with the entries that hold the messages.
func (c *checker) references() error {
	for _, m := range c.messages {
		if got := c.held[m.id]; got != m.refs {
			c.report.problem("message %d: %d entries hold it, said to be %d", m.id, got, m.refs)
		}
		delete(c.held, m.id)
	}
	for id := range c.held {
		c.report.problem("message %d: entries hold it, but it is on no page", id)
	}
	var next uint64
	err := c.each(`SELECT value FROM meta WHERE key = '`+metaNextMessage+`'`, func(s *statement) error {
		next = s.uint(0)
		return nil
	})
	if n := len(c.messages); n > 0 && c.messages[n-1].id >= next {
		c.report.problem("message %d exists, but the next would be %d", c.messages[n-1].id, next)
	}
	return err
}

func (c *checker) laneRows() error {
	err := c.each(`SELECT count, bytes, first_seq, last_seq, mailbox, priority FROM lane`, func(s *statement) error {
		k := laneKey{s.uint(4), uint8(s.ColumnInt(5))}
		said := laneSum{s.uint(0), s.uint(1), s.uint(2), s.uint(3)}
		got := c.lanes[k]
		delete(c.lanes, k)
		switch {
		case got == nil:
			c.report.problem("lane %v: no entries, said to be %d", k, said.count)
		case got.count != said.count || got.bytes != said.bytes:
			c.report.problem("lane %v: %d entries of %d bytes, said to be %d of %d", k, got.count, got.bytes, said.count, said.bytes)
		case said.first > got.first || said.last < got.last:
			c.report.problem("lane %v: entries %d to %d, said to be within %d to %d", k, got.first, got.last, said.first, said.last)
		}
		return nil
	})
	for k, got := range c.lanes {
		c.report.problem("lane %v: %d entries, but there is no such lane", k, got.count)
	}
	return err
}

func (c *checker) recordRows() error {
	return c.each(`SELECT kind, key, value FROM record`, func(s *statement) error {
		c.report.Records++
		if !json.Valid(s.ColumnRawText(2)) {
			c.report.problem("record %s %q: its value is not JSON", s.ColumnText(0), s.ColumnText(1))
		}
		return nil
	})
}

func (c *checker) retainedRows() error {
	return c.each(`SELECT `+retainedColumns+` FROM retained`, func(s *statement) error {
		c.report.Retained++
		if _, err := readRetained(s); err != nil {
			c.report.problem("%v", err)
		}
		return nil
	})
}
