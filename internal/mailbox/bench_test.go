package mailbox

import (
	"runtime"
	"testing"

	"emanet/internal/message"
	"emanet/internal/store"
)

// benchStore takes batches and forgets them: what is measured is the mailbox.
type benchStore struct {
	store.Store
	batch   *store.Batch
	buf     []byte
	last    store.LSN
	waiters []*store.Waiter
}

func newBenchStore() *benchStore {
	s := &benchStore{buf: make([]byte, 0, 1<<20)}
	s.batch = store.NewBatch(s, 1, 2)
	return s
}

func (s *benchStore) begin() *store.Batch {
	s.batch.Reset(s.buf[:0], s.last+1)
	return s.batch
}
func (s *benchStore) Commit([]byte) store.LSN { s.last++; return s.last }
func (s *benchStore) Abort()                  {}
func (s *benchStore) Flushed() store.LSN      { return s.last }
func (s *benchStore) Notify(w *store.Waiter) {
	if len(s.waiters) == 0 {
		s.waiters = append(s.waiters, w)
	}
}
func (s *benchStore) flush() {
	for _, w := range s.waiters {
		w.F(s.last)
	}
	s.waiters = s.waiters[:0]
}

// BenchmarkAppendOffline is a message queued for a session that is away; B/entry is what it then holds
// beside the message, which its recipients share.
func BenchmarkAppendOffline(b *testing.B) {
	st := newBenchStore()
	m := New(st, &fakeHost{}, 1, session)
	msg := bodyOf(100)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	b.ReportAllocs()
	for b.Loop() {
		batch := st.begin()
		m.Append(batch, store.Entry{Message: msg, MessageID: 1}, false)
		batch.Commit()
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(m.Status().Ready), "B/entry")
	runtime.KeepAlive(m)
}

// BenchmarkAppendBounded is the same at the bound: each entry drops the oldest.
func BenchmarkAppendBounded(b *testing.B) {
	st := newBenchStore()
	p := session
	p.MaxEntries = 1000
	m := New(st, &fakeHost{}, 1, p)
	msg := bodyOf(100)
	b.ReportAllocs()
	for b.Loop() {
		batch := st.begin()
		m.Append(batch, store.Entry{Message: msg, MessageID: 1}, false)
		batch.Commit()
	}
}

// BenchmarkOnline is the whole way of a message to a consumer and back, in groups of this many.
func BenchmarkOnline(b *testing.B) {
	for _, group := range []int{1, 20} {
		b.Run(map[int]string{1: "lone", 20: "groups of 20"}[group], func(b *testing.B) { benchOnline(b, group) })
	}
}

func benchOnline(b *testing.B, group int) {
	st := newBenchStore()
	m := New(st, &fakeHost{}, 1, session)
	c := &Consumer{Credit: 100, UnsentMax: 1 << 20, Wake: func() {}}
	m.Attach(st.begin(), c)
	msg := &message.Message{Topic: "t", Payload: make([]byte, 100)}
	var ds []Delivery
	var ks []uint64
	b.ReportAllocs()
	for b.Loop() {
		for range group {
			batch := st.begin()
			m.Append(batch, store.Entry{Message: msg, MessageID: 1}, false)
			batch.Commit()
		}
		st.flush()
		ds, ks = m.Take(c, ds[:0]), ks[:0]
		for i := range ds {
			ks = append(ks, ds[i].Key)
		}
		batch := st.begin()
		if m.Settle(batch, c, ks) != group {
			b.Fatal("not all were delivered")
		}
		batch.Commit()
		st.flush()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*group), "ns/message")
}
