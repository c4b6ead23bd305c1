package storetest

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"emanet/internal/message"
	"emanet/internal/store"
)

// State is everything a store holds, in the plainest form.
type State struct {
	Records   map[[2]string]string
	Retained  map[string]string
	Mailboxes map[uint64]*Mailbox
}

// Mailbox is one mailbox of a State.
type Mailbox struct {
	NextSeq  uint64
	Received map[uint16]bool
	Lanes    map[uint8]map[uint64]Entry
}

// Entry is one entry of a State.
type Entry struct {
	Attr       uint8
	Released   bool
	Deliveries uint32
	ExpiresAt  int64
	Tag        string
	MessageID  uint64
	Message    string // as render shows it; "" when released
	cost       int64
}

func newState() *State {
	return &State{map[[2]string]string{}, map[string]string{}, map[uint64]*Mailbox{}}
}

func newMailbox() *Mailbox {
	return &Mailbox{NextSeq: 1, Received: map[uint16]bool{}, Lanes: map[uint8]map[uint64]Entry{}}
}

func (m *Mailbox) lane(priority uint8) map[uint64]Entry {
	if m.Lanes[priority] == nil {
		m.Lanes[priority] = map[uint64]Entry{}
	}
	return m.Lanes[priority]
}

func (s *State) clone() *State {
	c := &State{maps.Clone(s.Records), maps.Clone(s.Retained), map[uint64]*Mailbox{}}
	for id, m := range s.Mailboxes {
		lanes := map[uint8]map[uint64]Entry{}
		for p, l := range m.Lanes {
			lanes[p] = maps.Clone(l)
		}
		c.Mailboxes[id] = &Mailbox{m.NextSeq, maps.Clone(m.Received), lanes}
	}
	return c
}

// render shows a message with everything that must survive but its id.
func render(m *message.Message) string {
	if m == nil {
		return ""
	}
	p := "-"
	if m.Properties != nil {
		p = fmt.Sprintf("%+v", m.Properties)
	}
	return fmt.Sprintf("%s|%q|%d|%d|%d|%v|%s", m.Topic, m.Payload, m.ReceivedAt, m.ExpiresAt, m.QoS, m.Retain, p)
}

// String is a canonical form: equal states have equal strings.
func (s *State) String() string {
	var b strings.Builder
	for _, k := range slices.SortedFunc(maps.Keys(s.Records), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
		fmt.Fprintf(&b, "record %q %q = %s\n", k[0], k[1], s.Records[k])
	}
	for _, k := range slices.Sorted(maps.Keys(s.Retained)) {
		fmt.Fprintf(&b, "retained %q = %s\n", k, short(s.Retained[k]))
	}
	for _, id := range slices.Sorted(maps.Keys(s.Mailboxes)) {
		m := s.Mailboxes[id]
		fmt.Fprintf(&b, "mailbox %d next %d received %v\n", id, m.NextSeq, slices.Sorted(maps.Keys(m.Received)))
		for _, p := range slices.Sorted(maps.Keys(m.Lanes)) {
			for _, seq := range slices.Sorted(maps.Keys(m.Lanes[p])) {
				e := m.Lanes[p][seq]
				fmt.Fprintf(&b, "  %d/%d attr %d released %v deliveries %d expires %d tag %q message %d %s\n", p, seq,
					e.Attr, e.Released, e.Deliveries, e.ExpiresAt, e.Tag, e.MessageID, short(e.Message))
			}
		}
	}
	return b.String()
}

// short keeps a rendered message readable and still distinct.
func short(s string) string {
	if len(s) <= 120 {
		return s
	}
	sum := uint64(14695981039346656037)
	for i := range len(s) {
		sum = (sum ^ uint64(s[i])) * 1099511628211
	}
	return fmt.Sprintf("%s… %d bytes, hash %x", s[:60], len(s), sum)
}

// loaded takes what Load hands out.
type loaded struct {
	state *State
	boxes []store.MailboxState
}

func (l *loaded) Record(kind, key string, value []byte) error {
	k := [2]string{kind, key}
	if _, twice := l.state.Records[k]; twice {
		return fmt.Errorf("record %q came twice", k)
	}
	l.state.Records[k] = string(value)
	return nil
}

func (l *loaded) Retained(m *message.Message) error {
	if _, twice := l.state.Retained[m.Topic]; twice {
		return fmt.Errorf("retained %q came twice", m.Topic)
	}
	l.state.Retained[m.Topic] = render(m)
	return nil
}

func (l *loaded) Mailbox(m store.MailboxState) error {
	if l.state.Mailboxes[m.ID] != nil {
		return fmt.Errorf("mailbox %d came twice", m.ID)
	}
	box := newMailbox()
	box.NextSeq = m.NextSeq
	for _, id := range m.Received {
		box.Received[id] = true
	}
	l.state.Mailboxes[m.ID] = box
	l.boxes = append(l.boxes, m)
	return nil
}

// open opens the subject, loads and starts it.
func open(tb testing.TB, sub *Subject) (store.Store, *State) {
	tb.Helper()
	s := sub.Open(tb)
	l := &loaded{state: newState()}
	must(tb, s.Load(l))
	must(tb, s.Start())
	for _, box := range l.boxes {
		for _, lane := range box.Lanes {
			if entries := readLane(tb, s, box.ID, lane); len(entries) > 0 {
				l.state.Mailboxes[box.ID].Lanes[lane.Priority] = entries
			}
		}
	}
	return s, l.state
}

// readLane makes a lane of its pages and of what Load said about them, and checks the counts.
func readLane(tb testing.TB, s store.Store, mailbox uint64, lane store.LaneState) map[uint64]Entry {
	tb.Helper()
	changed := map[uint64]store.EntryChange{}
	for _, c := range lane.Changed {
		changed[c.Seq] = c
	}
	all := map[uint64]Entry{}
	tailFrom := uint64(math.MaxInt64)
	if len(lane.Tail) > 0 {
		tailFrom = lane.Tail[0].Seq
	}
	var count uint64
	var bytes int64
	for _, e := range readAll(tb, s, mailbox, lane.Priority, 0, tailFrom) {
		if slices.ContainsFunc(lane.Gone, func(r store.SeqRange) bool { return r.From <= e.Seq && e.Seq <= r.To }) {
			continue
		}
		if c, ok := changed[e.Seq]; ok {
			if c.Released {
				e.Released, e.Message = true, nil
			}
			if c.Deliveries != 0 {
				e.Deliveries = c.Deliveries
			}
		}
		if e.Seq < lane.First || e.Seq > lane.Last {
			tb.Fatalf("mailbox %d: entry %d is not within %d to %d", mailbox, e.Seq, lane.First, lane.Last)
		}
		count++
		bytes += store.Cost(e.Message)
		all[e.Seq] = entryOf(e)
	}
	if count != lane.Count || bytes != lane.Bytes {
		tb.Fatalf("mailbox %d, priority %d: %d entries of %d bytes on pages, Load said %d of %d\n%+v", mailbox, lane.Priority, count, bytes, lane.Count, lane.Bytes, lane)
	}
	last := lane.Last
	for _, t := range lane.Tail {
		if t.Seq <= last {
			tb.Fatalf("mailbox %d: tail entry %d is not above %d", mailbox, t.Seq, last)
		}
		if t.LSN == 0 || t.LSN > s.Flushed() {
			tb.Fatalf("mailbox %d: tail entry %d has LSN %d", mailbox, t.Seq, t.LSN)
		}
		last = t.Seq
		all[t.Seq] = entryOf(t.Entry)
	}
	return all
}

// readAll reads with after < seq < before in calls of a few.
func readAll(tb testing.TB, s store.Store, mailbox uint64, priority uint8, after, before uint64) []store.Entry {
	tb.Helper()
	var all []store.Entry
	for {
		es, err := s.ReadEntries(mailbox, priority, after, before, 100, math.MaxInt64)
		must(tb, err)
		for i := range es {
			if es[i].Seq <= after || es[i].Seq >= before || es[i].Priority != priority {
				tb.Fatalf("ReadEntries(%d, %d, %d, %d) gave entry %d of priority %d", mailbox, priority, after, before, es[i].Seq, es[i].Priority)
			}
			after = es[i].Seq
		}
		all = append(all, es...)
		if len(es) < 100 {
			return all
		}
	}
}

func entryOf(e store.Entry) Entry {
	m := e.Message
	if m != nil && m.ID != e.MessageID {
		panic(fmt.Sprintf("entry %d of message %d has message %d", e.Seq, e.MessageID, m.ID))
	}
	out := Entry{
		Attr: e.Attr, Released: e.Released, Deliveries: e.Deliveries, ExpiresAt: e.ExpiresAt, Tag: e.Tag,
		MessageID: e.MessageID, Message: render(m), cost: store.Cost(m),
	}
	if e.Released {
		out.MessageID = 0 // of no use any more
	}
	return out
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
