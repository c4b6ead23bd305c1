package mailbox

import (
	"slices"
	"testing"

	"emanet/internal/journal"
	"emanet/internal/message"
	"emanet/internal/store"
	"emanet/internal/store/local"
)

// onDisk is a mailbox on the real store.
type onDisk struct {
	t     *testing.T
	dir   string
	store store.Store
	host  fakeHost
	id    uint64
	state store.MailboxState
	m     *Mailbox
}

func (d *onDisk) Record(_, _ string, _ []byte) error { return nil }
func (d *onDisk) Retained(*message.Message) error    { return nil }
func (d *onDisk) Mailbox(s store.MailboxState) error { d.state = s; return nil }

// open opens the store, and the mailbox of an earlier open.
func (d *onDisk) open() {
	d.t.Helper()
	st, err := local.Open(d.dir, local.Options{Journal: journal.Options{SegmentBytes: 1 << 20}})
	if err == nil {
		d.store = st
		err = st.Load(d)
	}
	if err == nil && d.id != 0 {
		d.m = Restore(st, &d.host, d.state, Sent{}, queue)
	}
	if err == nil {
		err = st.Start()
	}
	if err != nil {
		d.t.Fatal(err)
	}
	if d.id == 0 {
		b := d.begin()
		d.id = b.MailboxCreate()
		b.Commit()
		d.m = New(st, &d.host, d.id, queue)
	}
}

func (d *onDisk) begin() *store.Batch {
	b, err := d.store.Begin(store.Control, 1<<15)
	if err != nil {
		d.t.Fatal(err)
	}
	return b
}

func (d *onDisk) publish(n int) {
	for i := range n {
		b := d.begin()
		msg := bodyOf(10 + i%5)
		e := store.Entry{Priority: uint8(i % 2)}
		b.Message(msg, &e.MessageID)
		msg.ID, e.Message = e.MessageID, msg
		d.m.Append(b, e, false)
		b.Commit()
	}
}

func (d *onDisk) sync() {
	if err := d.store.Sync(); err != nil {
		d.t.Fatal(err)
	}
}

// consume takes n entries with one consumer and settles those that keep says no to.
func (d *onDisk) consume(n int, keep func(seq uint64) bool) (seqs []uint64) {
	woken := make(chan struct{}, 1)
	c := &Consumer{Credit: 1000, UnsentMax: 1 << 20, Wake: func() {
		select {
		case woken <- struct{}{}:
		default:
		}
	}}
	b := d.begin()
	d.m.Attach(b, c)
	b.Commit()
	d.m.Wake()
	for len(seqs) < n {
		ds := d.m.Take(c, nil)
		if len(ds) == 0 {
			<-woken
			continue
		}
		var done []uint64
		for _, x := range ds {
			seqs = append(seqs, x.Seq)
			if !keep(x.Seq) {
				done = append(done, x.Key)
			}
		}
		b := d.begin()
		d.m.Settle(b, c, done)
		b.Commit()
	}
	d.m.Detach(c)
	return seqs
}

func byLane(from, to uint64) (seqs []uint64) {
	for _, odd := range []uint64{0, 1} { // even seqs have priority 1
		for seq := from; seq <= to; seq++ {
			if seq%2 == odd {
				seqs = append(seqs, seq)
			}
		}
	}
	return seqs
}

func TestOnTheRealStoreEntriesPassThroughPagesAndRestartsInOrder(t *testing.T) {
	d := &onDisk{t: t, dir: t.TempDir()}
	d.open()
	d.publish(6000)
	d.sync()
	if d.m.Evict(d.store.Flushed(), 0) == 0 {
		t.Fatal("nothing was evicted")
	}
	d.publish(4000)
	got := d.consume(10_000, func(seq uint64) bool { return seq%50 < 2 })
	if !slices.Equal(got, byLane(1, 10_000)) {
		t.Fatal("not in order")
	}
	equal(t, "left", d.m.Status().Ready, 400)
	for _, folded := range []bool{false, true, true} {
		if folded {
			d.sync()
		}
		if err := d.store.Close(); err != nil {
			t.Fatal(err)
		}
		d.open()
		s := d.m.Status()
		equal(t, "ready after a restart", s.Ready, 400)
		equal(t, "next seq", s.NextSeq, 10_001)
	}
	d.publish(100)
	got = d.consume(500, func(uint64) bool { return false })
	want := slices.DeleteFunc(byLane(1, 10_100), func(seq uint64) bool { return seq <= 10_000 && seq%50 >= 2 })
	if !slices.Equal(got, want) {
		t.Fatalf("after the restarts: %v", got)
	}
	b := d.begin()
	b.Put("end", "end", []byte("{}"))
	b.Commit()
	d.sync()
	equal(t, "memory", d.m.Status().Memory, 0)
	if err := d.store.Close(); err != nil {
		t.Fatal(err)
	}
	d.open()
	equal(t, "ready", d.m.Status().Ready, 0)
	equal(t, "next seq", d.m.Status().NextSeq, 10_101)
	if err := d.store.Close(); err != nil {
		t.Fatal(err)
	}
}
