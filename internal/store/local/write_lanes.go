package local

import (
	"log/slog"
)

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
	if l.alive > 0 {
		row.last = l.entries[len(l.entries)-1].seq
		if err := w.addEntries(l); err != nil {
			return err
		}
	}
	was := row.count
	bytes := int64(row.bytes) + l.bytes
	for _, id := range l.moved {
		cost, err := w.costOf(id)
		if err != nil {
			return err
		}
		bytes += cost
	}
	row.count = w.atLeastZero(int64(row.count)+l.count, l, "entries")
	row.bytes = w.atLeastZero(bytes, l, "bytes")
	if row.count == 0 {
		return w.stmt.laneDelete.exec(l.mailbox, int(l.priority))
	}
	switch {
	case was == 0 && l.alive > 0:
		row.first = l.entries[l.low].seq
	case len(settled) > 0:
		if row.first, err = w.firstSeq(l.mailbox, l.priority); err != nil {
			return err
		}
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
