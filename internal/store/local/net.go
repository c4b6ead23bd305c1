package local

import (
	"sort"

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
	strays      int // operations that cannot be meant; a fold stops for no record, but it counts them
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
	if op.Mailbox > maxSeq || op.Range.From >= maxSeq || op.MessageID >= maxSeq {
		n.strays++ // SQLite has no such numbers
		return
	}
	switch op.Kind {
	case store.OpMessage:
		if op.MessageID < n.nextMessage {
			n.strays++
			return
		}
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
