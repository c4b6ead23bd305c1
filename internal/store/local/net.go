package local

import (
	"maps"
	"math"
	"slices"
	"sort"
	"strings"

	"emanet/internal/message"
	"emanet/internal/store"
)

// net is the net effect of a run of journal records: what came and went within it leaves no trace. The
// fold makes one per chunk and writes it to SQLite; Load makes one of the whole unfolded tail and lays it
// over the pages. Bodies, tags, keys and values alias the records.
type net struct {
	last        store.LSN
	taken       int // records
	ops         uint64
	entries     int // in all lanes, dead ones too: what bounds the memory of a fold
	nextMessage uint64
	nextMailbox uint64

	messages  []netMessage // ascending ids
	refs      []refChange  // for messages that are not in messages
	mailboxes map[uint64]*netMailbox
	records   map[recordKey]netRecord
	prefixes  map[recordKey]uint64 // operation that deleted all records with that prefix
	retained  map[string]netRetained

	spare [][]pageEntry

	// lastMailbox and lastLane save the lookup for runs of operations on one lane.
	lastMailbox *netMailbox
	lastLane    *netLane
}

type recordKey struct{ kind, key string }

// netRecord is a record's newest value, nil when it was deleted, set by operation number at.
type netRecord struct {
	value []byte
	at    uint64
}

// netMessage is a message of this run; it stays only if refs is not 0 in the end.
type netMessage struct {
	id   uint64
	refs int64
	cost int64
	body []byte
}

// refChange counts entries of a message of an earlier run up or down.
type refChange struct {
	id    uint64
	delta int64
}

// netRetained is a topic's newest retained message; a nil body: none any more.
type netRetained struct{ body []byte }

type netMailbox struct {
	id       uint64
	created  bool // within this run
	deleted  bool
	nextSeq  uint64 // 0: no entry came
	received map[uint16]bool
	lanes    []*netLane
}

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

func newNet() *net {
	return &net{
		mailboxes: map[uint64]*netMailbox{}, records: map[recordKey]netRecord{},
		prefixes: map[recordKey]uint64{}, retained: map[string]netRetained{},
	}
}

// reset makes n empty and keeps its larger slices.
func (n *net) reset() {
	clear(n.messages)
	spare := n.spare[:0]
	for _, m := range n.mailboxes {
		for _, l := range m.lanes {
			if cap(l.entries) >= spareEntries && len(spare) < spareLanes {
				clear(l.entries)
				spare = append(spare, l.entries[:0])
			}
		}
	}
	messages, refs := n.messages[:0], n.refs[:0]
	*n = *newNet()
	n.messages, n.refs, n.spare = messages, refs, spare
}

// trim lets the memory of the last run go.
func (n *net) trim() { *n = *newNet() }

// A lane's slice is worth keeping from spareEntries on, and no more than spareLanes of them.
const (
	spareEntries = 4096
	spareLanes   = 16
)

// add takes one record. Whatever it says, it never fails half-way for a sense it does not see; damage that
// the journal's checksum let through is an error.
func (n *net) add(lsn store.LSN, record []byte) error {
	ops := store.NewOps(record)
	for ops.Next() {
		n.apply(lsn, ops.Op())
		n.ops++
	}
	n.last = lsn
	n.taken++
	return ops.Err()
}

func (n *net) apply(lsn store.LSN, op *store.Op) {
	switch op.Kind {
	case store.OpMessage:
		n.messages = append(n.messages, netMessage{id: op.MessageID, cost: message.StoredSize(op.Body), body: op.Body})
		n.nextMessage = op.MessageID + 1
	case store.OpEntry:
		n.entry(lsn, op)
	case store.OpSettle:
		n.settle(n.lane(op.Mailbox, op.Priority), op)
	case store.OpRelease:
		n.release(n.lane(op.Mailbox, op.Priority), op)
	case store.OpDeliveries:
		n.deliveries(n.lane(op.Mailbox, op.Priority), op)
	case store.OpPut:
		n.records[recordKey{string(op.RecordKind), string(op.Key)}] = netRecord{append([]byte{}, op.Value...), n.ops}
	case store.OpDelete:
		n.records[recordKey{string(op.RecordKind), string(op.Key)}] = netRecord{nil, n.ops}
	case store.OpDeletePrefix:
		n.prefixes[recordKey{string(op.RecordKind), string(op.Key)}] = n.ops
	case store.OpRetain, store.OpRetainLast:
		if topic, ok := message.StoredTopic(op.Body); ok {
			n.retained[string(topic)] = netRetained{op.Body}
		}
	case store.OpUnretain:
		n.retained[string(op.Key)] = netRetained{}
	case store.OpReceived, store.OpUnreceived:
		m := n.mailbox(op.Mailbox)
		if m.received == nil {
			m.received = map[uint16]bool{}
		}
		m.received[op.PacketID] = op.Kind == store.OpReceived
	case store.OpMailboxCreate:
		n.mailbox(op.Mailbox).created = true
		n.nextMailbox = max(n.nextMailbox, op.Mailbox+1)
	case store.OpMailboxDelete:
		n.deleteMailbox(n.mailbox(op.Mailbox))
	}
}

func (n *net) mailbox(id uint64) *netMailbox {
	if n.lastMailbox != nil && n.lastMailbox.id == id {
		return n.lastMailbox
	}
	m := n.mailboxes[id]
	if m == nil {
		m = &netMailbox{id: id}
		n.mailboxes[id] = m
	}
	n.lastMailbox = m
	return m
}

func (n *net) lane(mailbox uint64, priority uint8) *netLane {
	if l := n.lastLane; l != nil && l.mailbox == mailbox && l.priority == priority {
		return l
	}
	l := n.mailbox(mailbox).lane(priority)
	n.lastLane = l
	return l
}

func (m *netMailbox) lane(priority uint8) *netLane {
	for _, l := range m.lanes {
		if l.priority == priority {
			return l
		}
	}
	l := &netLane{mailbox: m.id, priority: priority}
	m.lanes = append(m.lanes, l)
	return l
}

func (n *net) entry(lsn store.LSN, op *store.Op) {
	l := n.lane(op.Mailbox, op.Priority)
	m := n.mailbox(op.Mailbox)
	m.nextSeq = max(m.nextSeq, op.Range.From+1)
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

// hold counts the entries of a message up or down.
func (n *net) hold(id uint64, delta int64) {
	if m := n.message(id); m != nil {
		m.refs += delta
		return
	}
	n.refs = append(n.refs, refChange{id, delta})
}

// message finds a message of this run.
func (n *net) message(id uint64) *netMessage {
	if i := n.messageIndex(id); i >= 0 {
		return &n.messages[i]
	}
	return nil
}

// messageIndex is the message's place, or -1. Ids are dense but for batches that were given up.
func (n *net) messageIndex(id uint64) int {
	last := len(n.messages) - 1
	if last < 0 || id < n.messages[0].id || id > n.messages[last].id {
		return -1
	}
	if n.messages[last].id == id {
		return last
	}
	i := int(min(id-n.messages[0].id, uint64(last)))
	if n.messages[i].id != id {
		i = sort.Search(last, func(i int) bool { return n.messages[i].id >= id })
	}
	if n.messages[i].id != id {
		return -1
	}
	return i
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

// sortedRecords gives the newest values of the records that no later prefix deletion took, by kind and key.
func (n *net) sortedRecords() ([]recordKey, []netRecord) {
	keys := slices.SortedFunc(maps.Keys(n.records), compareKeys)
	gone := make([]bool, len(keys))
	for p, at := range n.prefixes {
		i, _ := slices.BinarySearchFunc(keys, p, compareKeys)
		for ; i < len(keys) && keys[i].kind == p.kind && strings.HasPrefix(keys[i].key, p.key); i++ {
			gone[i] = gone[i] || n.records[keys[i]].at < at
		}
	}
	kept, values := keys[:0], make([]netRecord, 0, len(keys))
	for i, k := range keys {
		if !gone[i] {
			kept, values = append(kept, k), append(values, n.records[k])
		}
	}
	return kept, values
}

func compareKeys(a, b recordKey) int {
	if c := strings.Compare(a.kind, b.kind); c != 0 {
		return c
	}
	return strings.Compare(a.key, b.key)
}

// sortedMailboxes gives the mailboxes in the order of their ids: neighbours in the file, and the same
// order in every run.
func (n *net) sortedMailboxes() []*netMailbox {
	all := make([]*netMailbox, 0, len(n.mailboxes))
	for _, m := range n.mailboxes {
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b *netMailbox) int { return compare(a.id, b.id) })
	return all
}

func compare(a, b uint64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// settledRanges are the lane's settled ranges of entries on pages, ascending and disjoint.
func (l *netLane) settledRanges() []store.SeqRange { return mergeRanges(l.settled) }

// mergeRanges sorts ranges and joins those that touch or overlap, in place.
func mergeRanges(rs []store.SeqRange) []store.SeqRange {
	slices.SortFunc(rs, func(a, b store.SeqRange) int { return compare(a.From, b.From) })
	out := rs[:0]
	for _, r := range rs {
		if k := len(out); k > 0 && r.From <= out[k-1].To+1 {
			out[k-1].To = max(out[k-1].To, r.To)
			continue
		}
		out = append(out, r)
	}
	return out
}

// mergedChanges are the lane's changes by ascending seq, one for each entry.
func (l *netLane) mergedChanges() []entryChange {
	slices.SortStableFunc(l.changes, func(a, b entryChange) int { return compare(a.seq, b.seq) })
	out := l.changes[:0]
	for _, c := range l.changes {
		if k := len(out); k > 0 && out[k-1].seq == c.seq {
			out[k-1].released = out[k-1].released || c.released
			if c.counted {
				out[k-1].deliveries, out[k-1].counted = c.deliveries, true
			}
			continue
		}
		out = append(out, c)
	}
	return out
}
