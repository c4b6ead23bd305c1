package local

import (
	"log/slog"

	"emanet/internal/store"
)

// entryPageRow is a row of entry_page; data aliases SQLite's memory until the statement is done.
type entryPageRow struct {
	id, first, last uint64
	count           int
	data            []byte
}

func readEntryPage(s *statement) entryPageRow {
	return entryPageRow{s.uint(0), s.uint(1), s.uint(2), s.ColumnInt(3), s.ColumnRawBlob(4)}
}

// addEntries appends what is left of a lane's new entries, together with the small pages at its end: a
// page joins what comes after it when that is at least half its size. So slow traffic rewrites an entry
// some log2(page) times and never leaves more than that many small pages.
func (w *writer) addEntries(l *netLane) error {
	if err := w.dropStrays(l); err != nil || l.alive == 0 {
		return err
	}
	joined, err := w.joinSmallPages(l)
	if err != nil {
		return err
	}
	w.newEntryPage()
	for i := range joined {
		w.entries.add(&joined[i])
	}
	for i := l.low; i < len(l.entries); i++ {
		e := &l.entries[i]
		if e.dead {
			continue
		}
		if w.entryPageFull() {
			if err := w.insertEntryPage(l.mailbox, l.priority); err != nil {
				return err
			}
			w.newEntryPage()
		}
		w.entries.add(e)
	}
	return w.insertEntryPage(l.mailbox, l.priority)
}

// dropStrays gives up entries that are not above those on pages: their seqs were given before, which
// cannot be, and must not keep the fold from going on.
func (w *writer) dropStrays(l *netLane) error {
	got, err := w.stmt.pageLast.row(l.mailbox, int(l.priority), maxSeq)
	if err != nil {
		return err
	}
	defer w.stmt.pageLast.done()
	for i := l.low; got && i < len(l.entries) && l.entries[i].seq <= w.stmt.pageLast.uint(2); i++ {
		e := &l.entries[i]
		if e.dead {
			continue
		}
		w.stray("an entry's seq was given before", slog.Uint64("mailbox", l.mailbox), slog.Uint64("seq", e.seq))
		l.count--
		if m := w.net.message(e.message); m != nil && !e.released {
			l.bytes -= m.cost
		}
		w.net.kill(l, e)
	}
	for l.low < len(l.entries) && l.entries[l.low].dead {
		l.low++
	}
	return nil
}

// newEntryPage keeps the last seq out of habit: callers read it after the last page was inserted.
func (w *writer) newEntryPage() { w.entries = entryWriter{data: w.entries.data[:0]} }

func (w *writer) entryPageFull() bool {
	return w.entries.count >= w.geo.pageEntries || len(w.entries.data) >= w.geo.pageBytes
}

func (w *writer) insertEntryPage(mailbox uint64, priority uint8) error {
	e := &w.entries
	return w.stmt.pageInsert.exec(mailbox, int(priority), e.first, e.last, e.count, e.data)
}

// joinSmallPages takes the pages at the lane's end that the new entries join, and gives their entries.
func (w *writer) joinSmallPages(l *netLane) ([]pageEntry, error) {
	var joined []pageEntry
	total, before := l.alive, l.entries[l.low].seq
	for total < w.geo.pageEntries {
		got, err := w.stmt.pageLast.row(l.mailbox, int(l.priority), before)
		if err != nil {
			return nil, err
		}
		if !got {
			w.stmt.pageLast.done()
			break
		}
		s := w.stmt.pageLast
		count := s.ColumnInt(3)
		if count > 2*total || count+total > w.geo.pageEntries {
			s.done()
			break
		}
		page := readEntryPage(s)
		if len(page.data) > w.geo.pageBytes/2 {
			s.done()
			break
		}
		page.data = append([]byte(nil), page.data...)
		s.done()
		entries, err := decodeEntries(page.first, page.data)
		if err != nil {
			return nil, err
		}
		joined = append(entries, joined...)
		total, before = total+count, page.first
		if err := w.stmt.pageDelete.exec(page.id); err != nil {
			return nil, err
		}
	}
	return joined, nil
}

func decodeEntries(first uint64, data []byte) ([]pageEntry, error) {
	var entries []pageEntry
	r := newEntryReader(first, data)
	var e pageEntry
	for r.next(&e) {
		entries = append(entries, e)
	}
	return entries, r.err
}

// changePages takes settled entries off a lane's pages and brings changes to the others. Ranges and
// changes are ascending. rest is what the transaction's budget left of large ranges.
func (w *writer) changePages(mailbox uint64, priority uint8, settled []store.SeqRange, changes []entryChange) (rest []store.SeqRange, err error) {
	for {
		if w.budget <= 0 {
			for len(settled) > 0 && w.large(settled[0]) {
				rest, settled = append(rest, settled[0]), settled[1:]
			}
		}
		from, ok := lowest(settled, changes)
		if !ok {
			return rest, nil
		}
		page, found, err := w.pageFrom(mailbox, priority, from)
		if err != nil || !found {
			return rest, err
		}
		// Whatever lies before the page is not there any more.
		settled, changes = clip(settled, changes, page.first)
		if at, ok := lowest(settled, changes); ok && at <= page.last {
			if err := w.changePage(page, settled, changes); err != nil {
				return rest, err
			}
			w.budget--
		}
		settled, changes = clip(settled, changes, page.last+1)
	}
}

// large tells a range that is worth putting off from the acknowledgements of a consumer.
func (w *writer) large(r store.SeqRange) bool { return r.To-r.From >= uint64(16*w.geo.pageEntries) }

func lowest(settled []store.SeqRange, changes []entryChange) (uint64, bool) {
	switch {
	case len(settled) == 0 && len(changes) == 0:
		return 0, false
	case len(settled) == 0:
		return changes[0].seq, true
	case len(changes) == 0:
		return settled[0].From, true
	}
	return min(settled[0].From, changes[0].seq), true
}

// clip drops what is below seq. It does not write to the slices it got but for the first range's start.
func clip(settled []store.SeqRange, changes []entryChange, seq uint64) ([]store.SeqRange, []entryChange) {
	for len(settled) > 0 && settled[0].To < seq {
		settled = settled[1:]
	}
	if len(settled) > 0 && settled[0].From < seq {
		settled[0].From = seq
	}
	for len(changes) > 0 && changes[0].seq < seq {
		changes = changes[1:]
	}
	return settled, changes
}

// pageFrom finds the page that holds seq, or else the next one, and copies it into the scratch buffer.
func (w *writer) pageFrom(mailbox uint64, priority uint8, seq uint64) (entryPageRow, bool, error) {
	for _, s := range []*statement{w.stmt.pageAt, w.stmt.pageAfter} {
		got, err := s.row(mailbox, int(priority), seq)
		if err != nil {
			return entryPageRow{}, false, err
		}
		if got && (s == w.stmt.pageAfter || s.uint(2) >= seq) {
			page := readEntryPage(s)
			w.blob = append(w.blob[:0], page.data...)
			page.data = w.blob
			s.done()
			return page, true, nil
		}
		s.done()
	}
	return entryPageRow{}, false, nil
}

// changePage rewrites one page without its settled entries, or removes it with the last of them.
func (w *writer) changePage(page entryPageRow, settled []store.SeqRange, changes []entryChange) error {
	w.newEntryPage()
	changed := false
	r := newEntryReader(page.first, page.data)
	var e pageEntry
	for r.next(&e) {
		settled, changes = clip(settled, changes, e.seq)
		if len(settled) > 0 && settled[0].From <= e.seq {
			changed = true
			if !e.released {
				w.refs = append(w.refs, refChange{e.message, -1})
			}
			continue
		}
		if len(changes) > 0 && changes[0].seq == e.seq {
			changed = true
			w.change(&e, changes[0])
		}
		w.entries.add(&e)
	}
	if r.err != nil {
		return r.err
	}
	switch {
	case !changed:
		return nil
	case w.entries.count == 0:
		return w.stmt.pageDelete.exec(page.id)
	}
	return w.stmt.pageUpdate.exec(page.id, w.entries.first, w.entries.last, w.entries.count, w.entries.data)
}

func (w *writer) change(e *pageEntry, c entryChange) {
	if c.released && !e.released {
		e.released = true
		w.refs = append(w.refs, refChange{e.message, -1})
	}
	if c.counted {
		e.deliveries = c.deliveries
	}
}
