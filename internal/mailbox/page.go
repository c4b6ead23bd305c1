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
		if l.gap.count > 0 && l.inMemory() < loadLow {
			m.loadLocked(l)
			return
		}
	}
}

// loadLocked starts reading the front of a lane's gap, on a goroutine of its own. One load runs at a time;
// when it is done, it dispatches and looks for the next.
func (m *Mailbox) loadLocked(l *lane) {
	if m.loading != nil || m.closed || l.gap.count == 0 {
		return
	}
	m.loading = l
	go m.load(l, l.gap.after, l.gap.before)
}

// retryLoad is after how many milliseconds a failed load is tried again, by way of Sweep.
const retryLoad = 1000

func (m *Mailbox) load(l *lane, after, before uint64) {
	entries, err := m.store.ReadEntries(m.id, l.priority, after, before, loadLen)
	m.mu.Lock()
	void := m.closed || m.purged
	m.loading, m.purged = nil, false
	if err != nil && !void {
		m.sweepByLocked(m.host.Now() + retryLoad)
		m.mu.Unlock()
		m.host.LoadFailed(m, err)
		return
	}
	if !void {
		m.installLocked(l, entries)
		m.afterLoadLocked()
	}
	m.mu.Unlock()
	m.wake(m.store.Flushed())
}

// afterLoadLocked asks for what waited for the load: the bounds, and the fronts of other lanes.
func (m *Mailbox) afterLoadLocked() {
	if m.dropsLocked() && m.overLocked(0, 0) {
		m.sweepNowLocked()
	}
	m.wishSweepLocked()
	if (m.sweepAt != 0 || m.policy.sheds()) && slices.ContainsFunc(m.lanes, (*lane).onlyOnDisk) {
		m.sweepNowLocked()
	}
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
		it := durableItem(*e, 0)
		if l.gap.count == 0 { // there but not counted: believe the pages
			l.gap.count++
			m.ready++
		}
		l.gap.count--
		l.gap.bytes -= store.Cost(it.Message)
		m.memory += it.memory()
		m.markSent(&it)
		if it.sent() {
			m.giveBack(l, it)
			continue
		}
		l.head.pushBack(it)
	}
	if last { // counted but not there: believe the pages
		m.ready -= l.gap.count
		l.gap.count = 0
	}
	if l.gap.count == 0 {
		m.bytes -= l.gap.bytes
		m.closeGapLocked(l)
	}
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

// Evict lets entries leave memory that are folded (their batch is at most folded), keeping the next keep of
// each lane, and returns about how many bytes that freed.
func (m *Mailbox) Evict(folded store.LSN, keep int) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.policy.Durable || m.closed || m.loading != nil {
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
		if !it.durable() || it.lsn() > folded {
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
