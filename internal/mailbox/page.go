package mailbox

import (
	"slices"
	"sort"

	"emanet/internal/store"
)

const (
	// loadLen is how many entries one load brings: some pages' worth, little against any budget.
	loadLen = 1024
	// loadLow is when the next load begins, so that a consumer seldom waits for the disk.
	loadLow = 256
)

// prefetchLocked loads the next entries of a lane whose memory runs low while somebody consumes.
func (m *Mailbox) prefetchLocked() {
	for _, l := range m.lanes {
		if l.gap.count > 0 && l.head.len() < loadLow {
			m.loadLocked()
			return
		}
	}
}

// loadLocked starts reading the front of the first lane that needs it, on a goroutine of its own. One
// load runs at a time; when it is done it dispatches.
func (m *Mailbox) loadLocked() {
	if m.loading || m.closed {
		return
	}
	for _, l := range m.lanes {
		if l.gap.count > 0 && l.head.len() < loadLow {
			m.loading = true
			go m.load(l, l.gap.after, l.gap.before)
			return
		}
	}
}

func (m *Mailbox) load(l *lane, after, before uint64) {
	entries, err := m.store.ReadEntries(m.id, l.priority, after, before, loadLen)
	m.mu.Lock()
	m.loading = false
	if purged := m.purged; m.closed || purged {
		m.purged = false
		m.mu.Unlock()
		m.wake(m.store.Flushed())
		return
	}
	if err != nil {
		m.mu.Unlock()
		m.host.LoadFailed(m, err)
		return
	}
	m.installLocked(l, entries)
	over := m.overLocked(0, 0)
	m.mu.Unlock()
	if over {
		m.trim()
	}
	m.wake(m.store.Flushed())
}

// installLocked puts loaded entries at the end of head.
func (m *Mailbox) installLocked(l *lane, entries []store.Entry) {
	last := len(entries) < loadLen // nothing is left on disk
	for i := range entries {
		e := &entries[i]
		l.gap.after = e.Seq
		if l.gap.isGone(e.Seq) {
			continue
		}
		l.gap.change(e)
		it := item{Entry: *e, durable: true}
		l.gap.count--
		l.gap.bytes -= store.Cost(it.Message)
		m.memory += it.memory()
		m.markSent(&it)
		if it.sent {
			l.giveBack(it)
			continue
		}
		l.head.pushBack(it)
	}
	if last && l.gap.count > 0 { // counted but not there: believe the pages
		m.ready -= l.gap.count
		m.bytes -= l.gap.bytes
		l.gap.count = 0
	}
	if l.gap.count == 0 {
		m.closeGapLocked(l)
	}
}

// closeGapLocked joins the tail to the head; at a restart its first entries may have been sent before.
func (m *Mailbox) closeGapLocked(l *lane) {
	for l.tail.len() > 0 && l.tail.front().Seq < m.restored && (m.sentFirst > 0 || l.tail.front().Seq <= m.sentHigh) {
		it := l.tail.popFront()
		m.markSent(&it)
		l.giveBack(it)
	}
	l.closeGap()
}

func (g *gap) isGone(seq uint64) bool {
	i := sort.Search(len(g.gone), func(i int) bool { return g.gone[i].To >= seq })
	g.gone = g.gone[i:] // entries come in order: what is behind is not asked for again
	return len(g.gone) > 0 && g.gone[0].From <= seq
}

func (g *gap) change(e *store.Entry) {
	i, found := slices.BinarySearchFunc(g.changed, e.Seq, func(c store.EntryChange, seq uint64) int {
		switch {
		case c.Seq < seq:
			return -1
		case c.Seq > seq:
			return 1
		}
		return 0
	})
	if found {
		c := g.changed[i]
		e.Deliveries = max(e.Deliveries, c.Deliveries)
		if c.Released {
			e.Released, e.Message = true, nil
		}
	}
	g.changed = g.changed[i:]
}

// trim enforces the bounds after a load, in a batch of its own. If the store is not to be had the mailbox
// overshoots until the next append.
func (m *Mailbox) trim() {
	b, err := m.store.Begin(store.Control, loadLen*store.SizeSettle)
	if err != nil {
		return
	}
	m.mu.Lock()
	m.trimLocked(b)
	m.mu.Unlock()
	b.Commit()
}

// Evict lets entries leave memory that are folded (their batch is at most folded), keeping the next keep of
// each lane, and returns about how many bytes that freed.
func (m *Mailbox) Evict(folded store.LSN, keep int) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.policy.Durable || m.closed || m.loading {
		return 0
	}
	before := m.memory
	for _, l := range m.lanes {
		m.evictLocked(l, folded, max(keep, loadLow))
	}
	return before - m.memory
}

func (m *Mailbox) evictLocked(l *lane, folded store.LSN, keep int) {
	if l.gap.count == 0 {
		if l.head.len() < keep+chunkLen {
			return
		}
		l.tail = l.head.split(keep)
		l.gap.after = l.tail.front().Seq - 1
	}
	for l.tail.len() > 0 {
		it := l.tail.front()
		if !it.durable || it.lsn > folded {
			break
		}
		gone := l.tail.popFront()
		l.gap.count++
		l.gap.bytes += store.Cost(gone.Message)
		m.memory -= gone.memory()
	}
	l.gap.before = m.nextSeq
	if l.tail.len() > 0 {
		l.gap.before = l.tail.front().Seq
	}
	if l.gap.count == 0 {
		l.closeGap()
	}
}
