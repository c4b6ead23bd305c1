package mailbox

import (
	"slices"
	"sort"

	"emanet/internal/store"
)

// paging is how much of a lane is held and moved at once.
type paging struct {
	// loadLen and loadBytes are how much one load brings: some pages' worth, little against any budget.
	loadLen   int
	loadBytes int64
	// lowLen and lowBytes, both to be undercut, are when the next load begins, so that a consumer seldom waits
	// for the disk. As much is kept where memory is short.
	lowLen   int
	lowBytes int64
	// leastLen or leastBytes is what it takes to split a lane.
	leastLen   int
	leastBytes int64
}

var pagingDefaults = paging{
	loadLen: 1024, loadBytes: 1 << 20, lowLen: 256, lowBytes: 256 << 10, leastLen: chunkLen, leastBytes: 64 << 10,
}

// prefetchLocked loads the next entries of a lane whose memory runs low while somebody consumes.
func (m *Mailbox) prefetchLocked() {
	for _, l := range m.lanes {
		if m.runsLowLocked(l) {
			m.loadLocked(l)
			return
		}
	}
}

// runsLowLocked: less lies before the gap than the next load should wait for. What came back to other lanes
// is taken for this one's: then the load only begins late.
func (m *Mailbox) runsLowLocked(l *lane) bool {
	return l.gap.count > 0 && len(l.returned)+l.due.len()+l.head.len() < m.paging.lowLen &&
		m.keptBytes+l.head.bytes < m.paging.lowBytes
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
	entries, err := m.store.ReadEntries(m.id, l.priority, after, before, m.paging.loadLen, m.paging.loadBytes)
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
	last := len(entries) < m.paging.loadLen && costOf(entries) < m.paging.loadBytes // nothing is left on disk
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

// costOf is what ReadEntries counts for its limit of bytes.
func costOf(entries []store.Entry) (cost int64) {
	for i := range entries {
		if msg := entries[i].Message; msg != nil {
			cost += msg.Cost()
		}
	}
	return cost
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

// Evict lets entries leave memory that are folded (their batch is at most folded), and returns about how many
// bytes that freed. Of each lane the next keep stay (paging.lowLen at least), but no more than come to
// paging.lowBytes.
func (m *Mailbox) Evict(folded store.LSN, keep int) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.policy.Durable || m.closed || m.loading != nil {
		return 0
	}
	before := m.memory
	for _, l := range m.lanes {
		m.evictLocked(l, folded, max(keep, m.paging.lowLen))
	}
	return before - m.memory
}

func (m *Mailbox) evictLocked(l *lane, folded store.LSN, keep int) {
	upTo := max(l.assigned, l.asOf)
	if m.untaken > 0 {
		upTo = max(upTo, m.untakenHigh) // so that it can be given back
	}
	stay, bytes := l.stay(folded, upTo, keep, m.paging.lowBytes)
	split := l.head.len()-stay >= m.paging.leastLen || l.head.bytes-bytes >= m.paging.leastBytes
	switch {
	case split && l.gap.count > 0:
		m.evictHeadLocked(l, folded, stay)
	case split:
		l.tail = l.head.split(stay, bytes)
		l.gap.after = l.tail.front().Seq - 1
	case l.gap.count == 0:
		return
	}
	for l.tail.len() > 0 && l.tail.front().evictable(folded) {
		m.intoGapLocked(l, l.tail.popFront())
	}
	l.gap.before = m.nextSeq
	if l.tail.len() > 0 {
		l.gap.before = l.tail.front().Seq
	}
	if l.gap.count == 0 {
		l.closeGap()
	}
}

// stay tells how many entries of head stay in memory, one at least, and their bytes: those up to upTo. Up to assigned others
// of their lane are in flight or settled, up to asOf settled, and up to dropped until that is folded: a load
// would bring those as well.
func (l *lane) stay(folded store.LSN, upTo uint64, keep int, most int64) (n int, bytes int64) {
	if l.lastDrop > folded {
		upTo = max(upTo, l.dropped)
	}
	n = l.head.prefix(func(it *item) bool {
		if it.Seq > upTo && (keep <= 0 || bytes >= most) {
			return false
		}
		keep--
		bytes += it.memory()
		return true
	})
	return n, bytes
}

// evictHeadLocked moves the gap's beginning back over what was loaded and is not needed soon.
func (m *Mailbox) evictHeadLocked(l *lane, folded store.LSN, stay int) {
	for l.head.len() > stay && l.head.back().evictable(folded) {
		it := l.head.popBack()
		l.gap.after = it.Seq - 1 // and not the last that stays: in between may be what was settled
		m.intoGapLocked(l, it)
	}
}

// evictable: the pages have it.
func (it *item) evictable(folded store.LSN) bool { return it.durable() && it.lsn() <= folded }

func (m *Mailbox) intoGapLocked(l *lane, it item) {
	l.gap.count++
	l.gap.bytes += store.Cost(it.Message)
	m.memory -= it.memory()
}
