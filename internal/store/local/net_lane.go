package local

import (
	"math"
	"slices"
	"sort"

	"emanet/internal/store"
)

// netLane is what happened to one priority of a mailbox.
type netLane struct {
	mailbox  uint64
	priority uint8
	entries  []pageEntry // that came, ascending seqs
	alive    int         // of entries
	low      int         // entries below this index are dead
	count    int64       // change of the number of live entries
	bytes    int64       // change of their Cost
	settled  []store.SeqRange
	changes  []entryChange // of entries on pages, in journal order
	moved    []uint64      // messages of earlier runs that entries came with: their Cost is still missing in bytes
}

// entryChange is a Release or a delivery count of an entry that is on a page.
type entryChange struct {
	seq        uint64
	deliveries uint32
	counted    bool // deliveries is set
	released   bool
}

func (n *net) entry(lsn store.LSN, op *store.Op) {
	l := n.lane(op.Mailbox, op.Priority)
	m := n.mailbox(op.Mailbox)
	if op.Range.From < m.nextSeq {
		n.strays++
		return
	}
	m.nextSeq = op.Range.From + 1
	if len(l.entries) == cap(l.entries) && len(l.entries) >= spareEntries/4 {
		l.entries = n.larger(l.entries)
	}
	l.entries = append(l.entries, pageEntry{
		seq: op.Range.From, message: op.MessageID, expiresAt: op.ExpiresAt, lsn: lsn, tag: op.Tag,
		deliveries: op.Deliveries, attr: op.Attr, released: op.Released,
	})
	l.alive++
	l.count++
	n.entries++
	if op.Released {
		return
	}
	if m := n.message(op.MessageID); m != nil {
		m.refs++
		l.bytes += m.cost
		return
	}
	n.refs = append(n.refs, refChange{op.MessageID, 1})
	l.moved = append(l.moved, op.MessageID)
}

// larger moves entries to a slice of an earlier run, if there is one with room.
func (n *net) larger(entries []pageEntry) []pageEntry {
	i := slices.IndexFunc(n.spare, func(s []pageEntry) bool { return cap(s) > len(entries) })
	if i < 0 {
		return entries
	}
	to := append(n.spare[i], entries...)
	n.spare = slices.Delete(n.spare, i, i+1)
	return to
}

// find gives the index of the first entry of this run with a seq of at least seq.
func (l *netLane) find(seq uint64) int {
	if len(l.entries) == 0 || seq <= l.entries[0].seq {
		return 0
	}
	// Seqs are dense unless the mailbox has several lanes: the guess is nearly always right.
	if i := seq - l.entries[0].seq; i < uint64(len(l.entries)) && l.entries[i].seq == seq {
		return int(i)
	}
	return sort.Search(len(l.entries), func(i int) bool { return l.entries[i].seq >= seq })
}

// entryAt is the live entry seq of this run, or nil.
func (l *netLane) entryAt(seq uint64) *pageEntry {
	i := l.find(seq)
	if i == len(l.entries) || l.entries[i].seq != seq || l.entries[i].dead {
		return nil
	}
	return &l.entries[i]
}

func (n *net) settle(l *netLane, op *store.Op) {
	l.count -= int64(op.Count)
	l.bytes -= op.Bytes
	r := op.Range
	r.To = min(r.To, math.MaxInt64) // what SQLite can hold; no seq gets there
	for i := max(l.find(r.From), l.low); i < len(l.entries) && l.entries[i].seq <= r.To; i++ {
		if e := &l.entries[i]; !e.dead {
			n.kill(l, e)
		}
	}
	for l.low < len(l.entries) && l.entries[l.low].dead {
		l.low++
	}
	if len(l.entries) > 0 {
		if first := l.entries[0].seq; r.From >= first {
			return
		} else {
			r.To = min(r.To, first-1)
		}
	}
	if k := len(l.settled); k > 0 && r.From == l.settled[k-1].To+1 {
		l.settled[k-1].To = r.To
		return
	}
	l.settled = append(l.settled, r)
}

func (n *net) kill(l *netLane, e *pageEntry) {
	e.dead = true
	l.alive--
	if !e.released {
		n.hold(e.message, -1)
	}
}

func (n *net) release(l *netLane, op *store.Op) {
	l.bytes -= op.Bytes
	if len(l.entries) == 0 || op.Range.From < l.entries[0].seq {
		l.changes = append(l.changes, entryChange{seq: op.Range.From, released: true})
		return
	}
	if e := l.entryAt(op.Range.From); e != nil && !e.released {
		e.released = true
		n.hold(e.message, -1)
	}
}

func (n *net) deliveries(l *netLane, op *store.Op) {
	if len(l.entries) == 0 || op.Range.From < l.entries[0].seq {
		l.changes = append(l.changes, entryChange{seq: op.Range.From, deliveries: op.Deliveries, counted: true})
		return
	}
	if e := l.entryAt(op.Range.From); e != nil {
		e.deliveries = op.Deliveries
	}
}

func (n *net) deleteMailbox(m *netMailbox) {
	for _, l := range m.lanes {
		for i := l.low; i < len(l.entries); i++ {
			if e := &l.entries[i]; !e.dead {
				n.kill(l, e)
			}
		}
	}
	m.lanes, m.received, m.deleted = nil, nil, true
	n.lastLane = nil
}
