package storetest

import (
	"fmt"
	"math"
	"sync"
	"testing"

	"emanet/internal/store"
)

func exerciseMailboxDelete(t *testing.T, sub *Subject) {
	s, _ := open(t, sub)
	old, kept := newBox(t, s), newBox(t, s)
	fill(t, s, old, 1, 600)
	fill(t, s, kept, 1, 5)
	must(t, s.Sync())
	fill(t, s, old, 601, 5)
	control(t, s, func(b *store.Batch) { b.Received(old, 4); b.MailboxDelete(old) })
	var brief uint64
	control(t, s, func(b *store.Batch) { brief = b.MailboxCreate(); b.MailboxDelete(brief) })
	last := brief
	reopened(t, sub, s, func(t *testing.T, how string, s store.Store, st *State) {
		if st.Mailboxes[old] != nil || st.Mailboxes[brief] != nil || len(st.Mailboxes[kept].Lanes[0]) != 5 {
			t.Fatalf("%s: %s", how, st)
		}
		must(t, s.Sync())
		es, err := s.ReadEntries(old, 0, 0, math.MaxInt64, 10, math.MaxInt64)
		if err != nil || len(es) != 0 {
			t.Fatalf("%s: %d entries of the deleted mailbox, %v", how, len(es), err)
		}
		next := newBox(t, s)
		if next <= last {
			t.Fatalf("%s: mailbox %d after %d was given", how, next, last)
		}
		last = next
		control(t, s, func(b *store.Batch) { b.MailboxDelete(next) })
	})
}

func exercisePurge(t *testing.T, sub *Subject) {
	const n = 20_000
	s, _ := open(t, sub)
	box := newBox(t, s)
	for i := 0; i < n; i += 500 {
		fillRoom(t, s, box, uint64(i+1), 500)
	}
	must(t, s.Sync())
	control(t, s, func(b *store.Batch) {
		b.Settle(box, 0, store.SeqRange{From: 11, To: n - 10}, n-20, 2*(n-20))
	})
	reopened(t, sub, s, func(t *testing.T, how string, s store.Store, st *State) {
		equal(t, how+": entries", len(st.Mailboxes[box].Lanes[0]), 20)
		must(t, s.Sync())
		equal(t, how+": read", len(readAll(t, s, box, 0, 0, math.MaxInt64)), 20)
	})
}

// fillRoom publishes n messages of Cost 2 in one batch, when there is room for it.
func fillRoom(t *testing.T, s store.Store, box, first uint64, n int) {
	t.Helper()
	m := numbered(0)
	size := n * (store.SizeMessage + store.SizeEntry + m.EncodedMax())
	room := make(chan struct{})
	s.NotifyRoom(&store.RoomWaiter{Class: store.Publish, Size: size, F: func() { close(room) }})
	await(t, s, room, "room")
	do(t, s, store.Publish, size, func(b *store.Batch) {
		for k := range n {
			var id uint64
			b.Message(m, &id)
			b.Entry(box, &store.Entry{Seq: first + uint64(k), MessageID: id})
		}
	})
}

func exerciseReadEntries(t *testing.T, sub *Subject) {
	s, _ := open(t, sub)
	box := newBox(t, s)
	fill(t, s, box, 1, 1200)
	must(t, s.Sync())
	control(t, s, func(b *store.Batch) { b.Settle(box, 0, store.SeqRange{From: 500, To: 899}, 400, costOf(499, 898)) })
	must(t, s.Sync())
	for _, c := range []struct {
		after, before uint64
		limit         int
		first, last   uint64
		count         int
	}{
		{0, math.MaxInt64, 10, 1, 10, 10},
		{0, math.MaxUint64, 5000, 1, 1200, 800},
		{255, 258, 10, 256, 257, 2},
		{498, 902, 100, 499, 901, 3},
		{600, 700, 100, 0, 0, 0},
		{1199, math.MaxInt64, 100, 1200, 1200, 1},
		{1200, math.MaxInt64, 100, 0, 0, 0},
		{math.MaxUint64, math.MaxUint64, 100, 0, 0, 0},
		{5, 6, 100, 0, 0, 0},
		{6, 5, 100, 0, 0, 0},
		{0, 10, 0, 0, 0, 0},
	} {
		es, err := s.ReadEntries(box, 0, c.after, c.before, c.limit, math.MaxInt64)
		must(t, err)
		var first, last uint64
		for i, e := range es {
			if i > 0 && e.Seq <= last {
				t.Fatalf("entry %d after %d", e.Seq, last)
			}
			if i == 0 {
				first = e.Seq
			}
			last = e.Seq
			equal(t, fmt.Sprint("body of ", e.Seq), render(e.Message), render(numbered(int(e.Seq-1))))
		}
		if len(es) != c.count || first != c.first || last != c.last {
			t.Errorf("ReadEntries(%d, %d, %d): %d entries %d to %d, want %d from %d to %d", c.after, c.before, c.limit, len(es), first, last, c.count, c.first, c.last)
		}
	}
	es, err := s.ReadEntries(box, 1, 0, 100, 10, math.MaxInt64)
	if err != nil || len(es) != 0 {
		t.Errorf("another priority: %d entries, %v", len(es), err)
	}
	must(t, s.Close())
	sub.Check(t)
}

func exerciseReadBytes(t *testing.T, sub *Subject) {
	s, _ := open(t, sub)
	box := newBox(t, s)
	fill(t, s, box, 1, 300)
	control(t, s, func(b *store.Batch) { b.Release(box, 0, 2, costOf(1, 1)) }) // it has no body that counts
	must(t, s.Sync())
	one := numbered(0).Cost()
	for _, c := range []struct {
		after uint64
		bytes int64
		last  uint64
	}{
		{0, math.MinInt64, 1},
		{0, 0, 1},
		{0, one, 1},
		{0, one + 1, 3},
		{1, 1, 3},
		{3, 5 * one, 8},
		{200, 1 << 20, 300},
	} {
		es, err := s.ReadEntries(box, 0, c.after, math.MaxInt64, 1000, c.bytes)
		must(t, err)
		if len(es) == 0 || es[0].Seq != c.after+1 || es[len(es)-1].Seq != c.last || uint64(len(es)) != c.last-c.after {
			t.Errorf("%d bytes after %d: %d entries, want those up to %d", c.bytes, c.after, len(es), c.last)
		}
	}
	must(t, s.Close())
	sub.Check(t)
}

// exerciseReadWhileFolding reads from several goroutines while entries come and go: what is read is a run of
// seqs without a gap, for they are settled in order.
func exerciseReadWhileFolding(t *testing.T, sub *Subject) {
	s, _ := open(t, sub)
	box := newBox(t, s)
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				es, err := s.ReadEntries(box, 0, 0, math.MaxInt64, 700, math.MaxInt64)
				if err != nil {
					t.Error(err)
					return
				}
				for i := 1; i < len(es); i++ {
					if es[i].Seq != es[i-1].Seq+1 {
						t.Errorf("entry %d after %d", es[i].Seq, es[i-1].Seq)
						return
					}
				}
			}
		})
	}
	settled := uint64(0)
	for round := range 40 {
		fill(t, s, box, uint64(round*100+1), 100)
		to := uint64(round * 80)
		if to > settled {
			control(t, s, func(b *store.Batch) {
				// The k-th hundred has the payloads 0 to 99.
				var cost int64
				for seq := settled + 1; seq <= to; seq++ {
					cost += store.Cost(numbered(int((seq - 1) % 100)))
				}
				b.Settle(box, 0, store.SeqRange{From: settled + 1, To: to}, to-settled, cost)
			})
			settled = to
		}
		must(t, s.Sync())
	}
	close(stop)
	readers.Wait()
	must(t, s.Close())
	sub.Check(t)
}

func exerciseOnFold(t *testing.T, sub *Subject) {
	s, _ := open(t, sub)
	box := newBox(t, s)
	folded := make(chan store.LSN, 1000)
	s.OnFold(func(lsn store.LSN) { folded <- lsn })
	var last store.LSN
	for i := range 50 {
		_, last = publish(t, s, numbered(i), map[uint64]store.Entry{box: {Seq: uint64(i + 1)}})
	}
	for lsn := store.LSN(0); lsn < last; {
		done := make(chan struct{})
		go func() { lsn = <-folded; close(done) }()
		await(t, s, done, "the fold of the last batch")
	}
	equal(t, "entries", len(readAll(t, s, box, 0, 0, math.MaxInt64)), 50)
	must(t, s.Close())
	sub.Check(t)
}
