package storetest

import (
	"fmt"
	"testing"

	"emanet/internal/message"
	"emanet/internal/store"
)

func exerciseEntries(t *testing.T, sub *Subject) {
	s, _ := open(t, sub)
	box := newBox(t, s)
	want := newState()
	want.Mailboxes[box] = newMailbox()
	for i := range 600 {
		m := numbered(i)
		e := store.Entry{Seq: uint64(i + 1), Priority: uint8(i % 3), Attr: uint8(i), Tag: fmt.Sprint("tag", i/10), Deliveries: uint32(i % 2)}
		if i%7 == 0 {
			e.ExpiresAt = int64(i) * 1e9
		}
		id, _ := publish(t, s, m, map[uint64]store.Entry{box: e})
		want.Mailboxes[box].lane(e.Priority)[e.Seq] = Entry{
			Attr: e.Attr, Deliveries: e.Deliveries, ExpiresAt: e.ExpiresAt, Tag: e.Tag, MessageID: id, Message: render(m),
		}
		want.Mailboxes[box].NextSeq = e.Seq + 1
		if i == 300 {
			must(t, s.Sync())
		}
	}
	reopened(t, sub, s, func(t *testing.T, how string, _ store.Store, st *State) {
		if d := difference(want.String(), st.String()); d != "" {
			t.Fatalf("%s:\n%s", how, d)
		}
	})
}

func exerciseNextSeq(t *testing.T, sub *Subject) {
	s, _ := open(t, sub)
	box := newBox(t, s)
	fill(t, s, box, 1, 30)
	control(t, s, func(b *store.Batch) { b.Settle(box, 0, store.SeqRange{From: 1, To: 30}, 30, costOf(0, 29)) })
	reopened(t, sub, s, func(t *testing.T, how string, _ store.Store, st *State) {
		equal(t, how+": next seq", st.Mailboxes[box].NextSeq, 31)
		equal(t, how+": lanes", len(st.Mailboxes[box].Lanes), 0)
	})
}

func exerciseSettle(t *testing.T, sub *Subject) {
	for _, folded := range []bool{false, true} {
		t.Run(fmt.Sprintf("folded first %v", folded), func(t *testing.T) {
			s, _ := open(t, sub)
			box := newBox(t, s)
			fill(t, s, box, 1, 1000)
			if folded {
				must(t, s.Sync())
			}
			control(t, s, func(b *store.Batch) {
				b.Settle(box, 0, store.SeqRange{From: 1, To: 300}, 300, costOf(0, 299))
				b.Settle(box, 0, store.SeqRange{From: 400, To: 400}, 1, costOf(399, 399))
				b.Settle(box, 0, store.SeqRange{From: 399, To: 401}, 2, costOf(398, 398)+costOf(400, 400))
				b.Settle(box, 0, store.SeqRange{From: 1000, To: 1000}, 1, costOf(999, 999))
			})
			reopened(t, sub, s, func(t *testing.T, how string, _ store.Store, st *State) {
				lane := st.Mailboxes[box].Lanes[0]
				equal(t, how+": entries", len(lane), 1000-304)
				for seq := uint64(1); seq <= 1000; seq++ {
					_, there := lane[seq]
					gone := seq <= 300 || seq >= 399 && seq <= 401 || seq == 1000
					equal(t, fmt.Sprintf("%s: entry %d", how, seq), there, !gone)
				}
			})
		})
	}
}

func exerciseRelease(t *testing.T, sub *Subject) {
	s, _ := open(t, sub)
	box := newBox(t, s)
	fill(t, s, box, 1, 10)
	release := func(seq uint64) {
		control(t, s, func(b *store.Batch) { b.Release(box, 0, seq, costOf(int(seq-1), int(seq-1))) })
	}
	release(2)
	must(t, s.Sync())
	release(3)
	release(4)
	control(t, s, func(b *store.Batch) { b.Settle(box, 0, store.SeqRange{From: 2, To: 3}, 2, 0) })
	reopened(t, sub, s, func(t *testing.T, how string, _ store.Store, st *State) {
		lane := st.Mailboxes[box].Lanes[0]
		equal(t, how+": entries", len(lane), 8)
		equal(t, how+": released", lane[4], Entry{Released: true})
		equal(t, how+": its neighbour", lane[5].Message, render(numbered(4)))
	})
}

func exerciseDeliveries(t *testing.T, sub *Subject) {
	s, _ := open(t, sub)
	box := newBox(t, s)
	fill(t, s, box, 1, 3)
	count := func(seq uint64, n uint32) {
		control(t, s, func(b *store.Batch) { b.Deliveries(box, 0, seq, n) })
	}
	count(1, 1)
	must(t, s.Sync())
	count(1, 2)
	count(1, 3)
	count(2, 1)
	reopened(t, sub, s, func(t *testing.T, how string, _ store.Store, st *State) {
		lane := st.Mailboxes[box].Lanes[0]
		equal(t, how, fmt.Sprint(lane[1].Deliveries, lane[2].Deliveries, lane[3].Deliveries), "3 1 0")
	})
}

func exerciseMove(t *testing.T, sub *Subject) {
	s, _ := open(t, sub)
	from, to := newBox(t, s), newBox(t, s)
	move := func(id, seq, toSeq uint64) {
		control(t, s, func(b *store.Batch) {
			b.Entry(to, &store.Entry{Seq: toSeq, MessageID: id})
			b.Settle(from, 0, store.SeqRange{From: seq, To: seq}, 1, costOf(int(seq-1), int(seq-1)))
		})
	}
	var ids []uint64
	for i := range 4 {
		id, _ := publish(t, s, numbered(i), map[uint64]store.Entry{from: {Seq: uint64(i + 1)}})
		ids = append(ids, id)
	}
	move(ids[0], 1, 1)
	must(t, s.Sync())
	move(ids[1], 2, 2)
	move(ids[2], 3, 3)
	control(t, s, func(b *store.Batch) { b.Settle(to, 0, store.SeqRange{From: 3, To: 3}, 1, costOf(2, 2)) })
	reopened(t, sub, s, func(t *testing.T, how string, _ store.Store, st *State) {
		equal(t, how+": left", len(st.Mailboxes[from].Lanes[0]), 1)
		equal(t, how+": moved", len(st.Mailboxes[to].Lanes[0]), 2)
		for seq := range uint64(2) {
			equal(t, how, st.Mailboxes[to].Lanes[0][seq+1].Message, render(numbered(int(seq))))
		}
	})
}

func exerciseFanOut(t *testing.T, sub *Subject) {
	s, _ := open(t, sub)
	m := &message.Message{Topic: "all", Payload: []byte("x"), QoS: 1}
	entries := map[uint64]store.Entry{}
	for range 20 {
		entries[newBox(t, s)] = store.Entry{Seq: 1}
	}
	publish(t, s, m, entries)
	must(t, s.Sync())
	left := uint64(0)
	for box := range entries {
		if left == 0 {
			left = box
			continue
		}
		control(t, s, func(b *store.Batch) { b.Settle(box, 0, store.SeqRange{From: 1, To: 1}, 1, store.Cost(m)) })
	}
	reopened(t, sub, s, func(t *testing.T, how string, s store.Store, st *State) {
		equal(t, how, st.Mailboxes[left].Lanes[0][1].Message, render(m))
	})
}
