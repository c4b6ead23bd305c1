package storetest

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"emanet/internal/message"
	"emanet/internal/store"
)

// do commits one batch of at most size bytes.
func do(tb testing.TB, s store.Store, c store.Class, size int, f func(b *store.Batch)) store.LSN {
	tb.Helper()
	b, err := s.Begin(c, size)
	must(tb, err)
	f(b)
	return b.Commit()
}

// control commits one small control batch.
func control(tb testing.TB, s store.Store, f func(b *store.Batch)) store.LSN {
	tb.Helper()
	return do(tb, s, store.Control, 4096, f)
}

// publish puts one message into each of the mailboxes, which have the given next seqs.
func publish(tb testing.TB, s store.Store, m *message.Message, entries map[uint64]store.Entry) (id uint64, lsn store.LSN) {
	tb.Helper()
	lsn = do(tb, s, store.Publish, store.SizeMessage+m.EncodedMax()+len(entries)*100, func(b *store.Batch) {
		b.Message(m, &id)
		for box, e := range entries {
			e.MessageID = id
			b.Entry(box, &e)
		}
	})
	return id, lsn
}

func newBox(tb testing.TB, s store.Store) (id uint64) {
	tb.Helper()
	control(tb, s, func(b *store.Batch) { id = b.MailboxCreate() })
	return id
}

// fill publishes n messages "0", "1", … to a mailbox, from seq first on, ten to a batch.
func fill(tb testing.TB, s store.Store, box, first uint64, n int) {
	tb.Helper()
	for i := 0; i < n; i += 10 {
		do(tb, s, store.Publish, 10*300, func(b *store.Batch) {
			for k := i; k < min(i+10, n); k++ {
				var id uint64
				b.Message(numbered(k), &id)
				b.Entry(box, &store.Entry{Seq: first + uint64(k), MessageID: id})
			}
		})
	}
}

func numbered(k int) *message.Message {
	return &message.Message{Topic: "n", Payload: fmt.Append(nil, k), ReceivedAt: 1, QoS: 1}
}

// costOf is the Cost of numbered messages from..to.
func costOf(from, to int) (cost int64) {
	for k := from; k <= to; k++ {
		cost += store.Cost(numbered(k))
	}
	return cost
}

// reopened looks at the state as it is unfolded, folded, and after a start, and ends with the check.
func reopened(t *testing.T, sub *Subject, s store.Store, look func(t *testing.T, how string, s store.Store, st *State)) {
	t.Helper()
	if sub.Kill != nil {
		waitFlushed(t, s)
		sub.Kill(t)
		var st *State
		s, st = open(t, sub)
		look(t, "after a kill", s, st)
	}
	must(t, s.Sync())
	must(t, s.Close())
	sub.Check(t)
	s, st := open(t, sub)
	look(t, "after a close", s, st)
	must(t, s.Close())
	sub.Check(t)
}

func waitFlushed(tb testing.TB, s store.Store) {
	tb.Helper()
	done := make(chan struct{})
	if s.NotifyTail(&store.Waiter{F: func(store.LSN) { close(done) }}) {
		await(tb, s, done, "the flush of the tail")
	}
}

func await(tb testing.TB, s store.Store, done <-chan struct{}, what string) {
	tb.Helper()
	select {
	case <-done:
	case <-s.Failed():
		tb.Fatalf("%s: the store failed: %v", what, s.Err())
	case <-time.After(patience):
		tb.Fatalf("%s never came; alarms: %v", what, s.Alarms())
	}
}

func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Fatalf("%s: got %v, want %v", what, got, want)
	}
}

func exerciseBatch(t *testing.T, sub *Subject) {
	s, st := open(t, sub)
	equal(t, "an empty directory", st.String(), "")
	m := &message.Message{Topic: "plant/7", Payload: []byte("hot"), ReceivedAt: 7, QoS: 1}
	var box, id uint64
	lsn := do(t, s, store.Publish, 4096, func(b *store.Batch) {
		box = b.MailboxCreate()
		b.Put("session", "c", []byte(`{"mailbox":1}`))
		b.Message(m, &id)
		b.Entry(box, &store.Entry{Seq: 1, MessageID: id})
		b.Retain(m, true)
		b.Received(box, 9)
	})
	if lsn == 0 || lsn != s.Appended() {
		t.Fatalf("LSN %d, appended %d", lsn, s.Appended())
	}
	waitFlushed(t, s)
	if s.Flushed() < lsn {
		t.Fatalf("flushed %d, want %d", s.Flushed(), lsn)
	}
	reopened(t, sub, s, func(t *testing.T, how string, _ store.Store, st *State) {
		equal(t, how+": entry", st.Mailboxes[box].Lanes[0][1].Message, render(m))
		equal(t, how+": retained", st.Retained["plant/7"], render(m))
		equal(t, how+": record", st.Records[[2]string{"session", "c"}], `{"mailbox":1}`)
		equal(t, how+": received", st.Mailboxes[box].Received[9], true)
	})
}

func exerciseAbort(t *testing.T, sub *Subject) {
	s, _ := open(t, sub)
	before := s.Appended()
	b, err := s.Begin(store.Control, 1000)
	must(t, err)
	b.Put("session", "never", []byte(`{}`))
	b.MailboxCreate()
	b.Abort()
	equal(t, "LSN of an empty batch", control(t, s, func(*store.Batch) {}), 0)
	equal(t, "appended", s.Appended(), before)
	must(t, s.Close())
	s, st := open(t, sub)
	equal(t, "state", st.String(), "")
	must(t, s.Close())
	sub.Check(t)
}

func exerciseLSN(t *testing.T, sub *Subject) {
	var last store.LSN
	for range 3 {
		s, _ := open(t, sub)
		for range 10 {
			var want store.LSN
			lsn := control(t, s, func(b *store.Batch) { want = b.LSN(); b.Put("k", "k", []byte("1")) })
			equal(t, "LSN that the batch announced", want, lsn)
			if lsn <= last {
				t.Fatalf("LSN %d after %d", lsn, last)
			}
			last = lsn
		}
		must(t, s.Close())
	}
	sub.Check(t)
}

func exerciseNotify(t *testing.T, sub *Subject) {
	s, _ := open(t, sub)
	if s.NotifyTail(&store.Waiter{F: func(store.LSN) { t.Error("told though nothing was appended") }}) {
		t.Fatal("NotifyTail with nothing appended")
	}
	var mu sync.Mutex
	var told []store.LSN
	done := make(chan struct{})
	w := &store.Waiter{F: func(lsn store.LSN) {
		mu.Lock()
		told = append(told, lsn)
		mu.Unlock()
		close(done)
	}}
	b, err := s.Begin(store.Control, 1000)
	must(t, err)
	b.Put("k", "k", []byte("1"))
	s.Notify(w)
	s.Notify(w)
	lsn := b.Commit()
	await(t, s, done, "the waiter")
	if s.Flushed() < lsn {
		t.Fatalf("told with %d flushed, want %d", s.Flushed(), lsn)
	}
	must(t, s.Sync())
	mu.Lock()
	if len(told) != 1 || told[0] < lsn {
		t.Fatalf("told %v, want once with %d or more", told, lsn)
	}
	mu.Unlock()
	must(t, s.Close())
}

func exerciseTooLarge(t *testing.T, sub *Subject) {
	s, _ := open(t, sub)
	if _, err := s.Begin(store.Control, 1<<30); !errors.Is(err, store.ErrTooLarge) {
		t.Fatalf("a batch of 1 GiB: %v, want ErrTooLarge", err)
	}
	box := newBox(t, s)
	m := &message.Message{Topic: "big", Payload: make([]byte, 100<<10)}
	for i := range m.Payload {
		m.Payload[i] = byte(i * 7)
	}
	publish(t, s, m, map[uint64]store.Entry{box: {Seq: 1}})
	reopened(t, sub, s, func(t *testing.T, how string, _ store.Store, st *State) {
		equal(t, how, st.Mailboxes[box].Lanes[0][1].Message, render(m))
	})
}

// exerciseFull fills the store behind the back of the fold, which cannot keep up with a publisher that
// never waits, until a publish is refused; controls still pass, and room comes back.
func exerciseFull(t *testing.T, sub *Subject) {
	s, _ := open(t, sub)
	box := newBox(t, s)
	m := &message.Message{Topic: "t", Payload: make([]byte, 20<<10)}
	refused, seq := 0, uint64(1)
	for refused < 3 {
		b, err := s.Begin(store.Publish, 21<<10)
		if err == nil {
			var id uint64
			b.Message(m, &id)
			b.Entry(box, &store.Entry{Seq: seq, MessageID: id})
			b.Commit()
			seq++
			continue
		}
		if !errors.Is(err, store.ErrFull) && !errors.Is(err, store.ErrBusy) {
			t.Fatal(err)
		}
		refused++
		control(t, s, func(b *store.Batch) { b.Put("k", "k", []byte("1")) })
		room := make(chan struct{})
		s.NotifyRoom(&store.RoomWaiter{Class: store.Publish, Size: 21 << 10, F: func() { close(room) }})
		await(t, s, room, "room")
	}
	reopened(t, sub, s, func(t *testing.T, how string, _ store.Store, st *State) {
		equal(t, how+": entries", uint64(len(st.Mailboxes[box].Lanes[0])), seq-1)
	})
}

func exerciseClosed(t *testing.T, sub *Subject) {
	s, _ := open(t, sub)
	box := newBox(t, s)
	must(t, s.Close())
	must(t, s.Close())
	if _, err := s.Begin(store.Control, 100); !errors.Is(err, store.ErrClosed) {
		t.Errorf("Begin: %v, want ErrClosed", err)
	}
	if err := s.Sync(); !errors.Is(err, store.ErrClosed) {
		t.Errorf("Sync: %v, want ErrClosed", err)
	}
	if _, err := s.ReadEntries(box, 0, 0, 10, 10, 0); !errors.Is(err, store.ErrClosed) {
		t.Errorf("ReadEntries: %v, want ErrClosed", err)
	}
	sub.Check(t)
}
