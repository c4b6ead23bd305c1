package local

import (
	"log/slog"
	"slices"
)

// liveRow is a row of message_live.
type liveRow struct {
	first, last    uint64
	live           int
	liveCost, cost uint64
}

// readLive reads a row and decodes its references into the scratch slice.
func (w *writer) readLive(s *statement) (liveRow, []messageRef, error) {
	row := liveRow{s.uint(0), s.uint(1), s.ColumnInt(2), s.uint(3), s.uint(4)}
	var err error
	w.decoded, err = decodeRefs(w.decoded[:0], row.first, s.ColumnRawBlob(5))
	return row, w.decoded, err
}

// liveAt finds the page that holds message id, if any does.
func (w *writer) liveAt(id uint64) (row liveRow, refs []messageRef, found bool, err error) {
	got, err := w.stmt.liveAt.row(id)
	if err != nil {
		return liveRow{}, nil, false, err
	}
	defer w.stmt.liveAt.done()
	if !got || w.stmt.liveAt.uint(1) < id {
		return liveRow{}, nil, false, nil
	}
	row, refs, err = w.readLive(w.stmt.liveAt)
	return row, refs, err == nil, err
}

// costOf is the Cost of a stored message.
func (w *writer) costOf(id uint64) (int64, error) {
	_, refs, found, err := w.liveAt(id)
	if err != nil || !found {
		return 0, err
	}
	if i, ok := findRef(refs, id); ok {
		return int64(refs[i].cost), nil
	}
	return 0, nil
}

func findRef(refs []messageRef, id uint64) (int, bool) {
	return slices.BinarySearchFunc(refs, id, func(r messageRef, id uint64) int { return compare(r.id, id) })
}

// applyRefs counts references of stored messages up and down, page by page, and lets bodies go that
// nobody holds.
func (w *writer) applyRefs() error {
	changes := mergeRefs(w.refs)
	for len(changes) > 0 {
		row, refs, found, err := w.liveAt(changes[0].id)
		if err != nil {
			return err
		}
		if !found {
			w.stray("a settled entry's message is on no page", slog.Uint64("message", changes[0].id))
			changes = changes[1:]
			continue
		}
		n := 0
		for n < len(changes) && changes[n].id <= row.last {
			n++
		}
		w.count(&row, refs, changes[:n])
		changes = changes[n:]
		if err := w.putLive(row, refs); err != nil {
			return err
		}
	}
	return nil
}

// mergeRefs sorts the changes, in place, to one per message, without those that come to nothing.
func mergeRefs(changes []refChange) []refChange {
	ascending := func(a, b refChange) int { return compare(a.id, b.id) }
	if !slices.IsSortedFunc(changes, ascending) {
		slices.SortFunc(changes, ascending)
	}
	out := changes[:0]
	for _, c := range changes {
		if k := len(out); k > 0 && out[k-1].id == c.id {
			out[k-1].delta += c.delta
			continue
		}
		out = append(out, c)
	}
	return slices.DeleteFunc(out, func(c refChange) bool { return c.delta == 0 })
}

// count brings changes to the references of one page.
func (w *writer) count(row *liveRow, refs []messageRef, changes []refChange) {
	i := 0
	for _, c := range changes {
		for i < len(refs) && refs[i].id < c.id {
			i++
		}
		if i == len(refs) || refs[i].id != c.id || int64(refs[i].refs)+c.delta < 0 {
			w.stray("a message has fewer references than settlements", slog.Uint64("message", c.id))
			continue
		}
		was := refs[i].refs
		refs[i].refs = uint64(int64(was) + c.delta)
		switch {
		case was != 0 && refs[i].refs == 0:
			row.live--
			row.liveCost -= refs[i].cost
		case was == 0 && refs[i].refs != 0:
			w.stray("a message came back to life", slog.Uint64("message", c.id))
			row.live++
			row.liveCost += refs[i].cost
		}
	}
}

// putLive writes changed references, and the bodies anew when less than a quarter of them lives.
func (w *writer) putLive(row liveRow, refs []messageRef) error {
	if row.live == 0 {
		return w.deleteMessagePage(row.first)
	}
	if row.cost < w.geo.sparseCost || row.liveCost >= row.cost/4 {
		w.blob = appendRefs(w.blob[:0], row.first, refs)
		return w.stmt.livePut.exec(row.first, row.last, row.live, row.liveCost, row.cost, w.blob)
	}
	return w.compactMessagePage(row, refs)
}

// compactMessagePage rewrites a sparse page with its living messages, together with the page before it
// when both fit on one.
func (w *writer) compactMessagePage(row liveRow, refs []messageRef) error {
	w.messages.reset()
	refs = slices.Clone(refs)
	before, beforeRefs, found, err := w.liveBefore(row.first)
	if err != nil {
		return err
	}
	if found && before.live+row.live <= w.geo.pageEntries && before.liveCost+row.liveCost <= uint64(w.geo.pageBytes)/2 {
		if err := w.takeMessagePage(before, slices.Clone(beforeRefs)); err != nil {
			return err
		}
	}
	if err := w.takeMessagePage(row, refs); err != nil {
		return err
	}
	return w.insertMessagePage()
}

func (w *writer) liveBefore(first uint64) (liveRow, []messageRef, bool, error) {
	got, err := w.stmt.liveLast.row(first)
	if err != nil {
		return liveRow{}, nil, false, err
	}
	defer w.stmt.liveLast.done()
	if !got {
		return liveRow{}, nil, false, nil
	}
	row, refs, err := w.readLive(w.stmt.liveLast)
	return row, refs, err == nil, err
}

// takeMessagePage moves a page's living messages into the scratch page and removes it.
func (w *writer) takeMessagePage(row liveRow, refs []messageRef) error {
	got, err := w.stmt.messageGet.row(row.first)
	if err != nil {
		return err
	}
	if got {
		r := newMessageReader(row.first, w.stmt.messageGet.ColumnRawBlob(0))
		i := 0
		for id, body, ok := r.next(); ok; id, body, ok = r.next() {
			for i < len(refs) && refs[i].id < id {
				i++
			}
			if i < len(refs) && refs[i].id == id && refs[i].refs > 0 {
				w.messages.add(refs[i], body)
			}
		}
		err = r.err
	}
	w.stmt.messageGet.done()
	if err != nil {
		return err
	}
	return w.deleteMessagePage(row.first)
}

func (w *writer) deleteMessagePage(first uint64) error {
	if err := w.stmt.liveDelete.exec(first); err != nil {
		return err
	}
	return w.stmt.messageDelete.exec(first)
}

func (w *writer) insertMessagePage() error {
	m := &w.messages
	if len(m.refs) == 0 {
		return nil
	}
	if err := w.stmt.messageInsert.exec(m.first, m.data); err != nil {
		return err
	}
	w.blob = appendRefs(w.blob[:0], m.first, m.refs)
	return w.stmt.livePut.exec(m.first, m.last, len(m.refs), m.cost, m.cost, w.blob)
}

// addMessages appends the messages of this run that somebody still holds, with the small pages at the
// end, as addEntries does.
func (w *writer) addMessages(messages []netMessage) error {
	alive, cost := 0, int64(0)
	for i := range messages {
		if messages[i].refs > 0 {
			alive, cost = alive+1, cost+messages[i].cost
		}
	}
	last, err := w.lastMessage()
	if err != nil || alive == 0 {
		return err
	}
	for len(messages) > 0 && messages[0].id <= last {
		w.stray("a message's id was given before", slog.Uint64("message", messages[0].id))
		messages = messages[1:]
	}
	if len(messages) == 0 {
		return nil
	}
	if err := w.joinSmallMessagePages(messages[0].id, alive, cost); err != nil {
		return err
	}
	for i := range messages {
		m := &messages[i]
		if m.refs <= 0 {
			continue
		}
		full := len(w.messages.refs) >= w.geo.pageEntries || len(w.messages.data)+len(m.body) > w.geo.pageBytes
		if full && len(w.messages.refs) > 0 {
			if err := w.insertMessagePage(); err != nil {
				return err
			}
			w.messages.reset()
		}
		w.messages.add(messageRef{m.id, uint64(m.refs), uint64(m.cost)}, m.body)
	}
	return w.insertMessagePage()
}

// lastMessage is the highest id on a page.
func (w *writer) lastMessage() (uint64, error) {
	got, err := w.stmt.liveLast.row(maxSeq)
	if err != nil {
		return 0, err
	}
	defer w.stmt.liveLast.done()
	if !got {
		return 0, nil
	}
	return w.stmt.liveLast.uint(1), nil
}

// joinSmallMessagePages starts the scratch page with the pages that alive new messages join.
func (w *writer) joinSmallMessagePages(before uint64, alive int, cost int64) error {
	w.messages.reset()
	type page struct {
		row  liveRow
		refs []messageRef
	}
	var pages []page
	for {
		row, refs, found, err := w.liveBefore(before)
		if err != nil {
			return err
		}
		if !found || row.live+alive > w.geo.pageEntries || int64(row.cost)+cost > int64(w.geo.pageBytes) ||
			row.live > 2*alive || int64(row.cost) > 2*cost {
			break
		}
		pages = append(pages, page{row, slices.Clone(refs)})
		alive, cost, before = alive+row.live, cost+int64(row.liveCost), row.first
	}
	for _, p := range slices.Backward(pages) {
		if err := w.takeMessagePage(p.row, p.refs); err != nil {
			return err
		}
	}
	return nil
}
