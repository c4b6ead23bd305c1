package local

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"emanet/internal/message"
	"emanet/internal/store"
)

// counter is a Loader that only counts.
type counter struct{ tail, pages int }

func (*counter) Record(string, string, []byte) error { return nil }
func (*counter) Retained(*message.Message) error     { return nil }
func (c *counter) Mailbox(m store.MailboxState) error {
	for _, l := range m.Lanes {
		c.tail += len(l.Tail)
		c.pages += int(l.Count)
	}
	return nil
}

func openBench(b *testing.B, dir string, opt Options) (*Store, *counter) {
	s, err := Open(dir, opt)
	must(b, err)
	c := &counter{}
	must(b, s.Load(c))
	return s, c
}

// publisher puts 100-byte messages into one mailbox, a batch each, as fast as the store takes them.
type publisher struct {
	b    *testing.B
	s    *Store
	m    message.Message
	seq  uint64
	room chan struct{}
}

func newPublisher(b *testing.B, s *Store) *publisher {
	p := &publisher{b: b, s: s, room: make(chan struct{}, 1),
		m: message.Message{Topic: "plant/7/temperature", Payload: make([]byte, 100), ReceivedAt: 1_790_000_000_000, QoS: 1}}
	batch, err := s.Begin(store.Control, 100)
	must(b, err)
	batch.MailboxCreate()
	batch.Commit()
	return p
}

// one publishes, waiting for room unless it should not. false: the journal is full.
func (p *publisher) one(wait bool) bool {
	for {
		batch, err := p.s.Begin(store.Publish, 250)
		if err == nil {
			p.seq++
			var id uint64
			batch.Message(&p.m, &id)
			batch.Entry(1, &store.Entry{Seq: p.seq, Attr: 1, MessageID: id})
			batch.Commit()
			return true
		}
		if !wait && errors.Is(err, store.ErrFull) {
			return false
		}
		if !errors.Is(err, store.ErrFull) && !errors.Is(err, store.ErrBusy) {
			p.b.Fatal(err)
		}
		p.s.NotifyRoom(&store.RoomWaiter{Class: store.Publish, Size: 250, F: func() { p.room <- struct{}{} }})
		<-p.room
	}
}

// BenchmarkBacklog queues b.N messages for one mailbox, reads them back in pages and settles them. Run with
// -benchtime=5000000x.
func BenchmarkBacklog(b *testing.B) {
	resetPeak()
	dir := filepath.Join(b.TempDir(), "data")
	s, _ := openBench(b, dir, Options{})
	must(b, s.Start())
	p := newPublisher(b, s)
	b.ResetTimer()
	start, used := time.Now(), cpu()
	for range b.N {
		p.one(true)
	}
	must(b, s.Sync())
	wall := time.Since(start)
	used = cpu() - used
	per := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 / float64(b.N) }
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(per(used), "us-cpu/msg")
	b.ReportMetric(float64(b.N)/wall.Seconds(), "stored/s")
	b.ReportMetric(s.Stats().FoldSeconds*1e6/float64(b.N), "us-fold/msg")
	b.ReportMetric(float64(s.Stats().DatabaseBytes)/float64(b.N), "B-file/msg")
	b.ReportMetric(peakRSS(), "MiB-peak")

	start, used = time.Now(), cpu()
	read := 0
	for after := uint64(0); ; {
		es, err := s.ReadEntries(1, 0, after, maxSeq, 256, math.MaxInt64)
		must(b, err)
		if len(es) == 0 {
			break
		}
		read += len(es)
		after = es[len(es)-1].Seq
	}
	b.ReportMetric(float64(read)/time.Since(start).Seconds(), "paged/s")
	b.ReportMetric(per(cpu()-used), "us-page/msg")
	must(b, s.Close())

	start = time.Now()
	s, _ = openBench(b, dir, Options{})
	b.ReportMetric(float64(time.Since(start).Microseconds())/1000, "ms-open")
	must(b, s.Start())
	p.s = s

	start, used = time.Now(), cpu()
	for seq := uint64(1); seq <= p.seq; seq += 100 {
		batch, err := s.Begin(store.Control, 100)
		must(b, err)
		to := min(seq+99, p.seq)
		batch.Settle(1, 0, store.SeqRange{From: seq, To: to}, to-seq+1, int64(to-seq+1)*119)
		batch.Commit()
	}
	must(b, s.Sync())
	b.ReportMetric(per(cpu()-used), "us-settle/msg")
	for deadline := time.Now().Add(time.Minute); s.Stats().DatabaseBytes > 4<<20 && time.Now().Before(deadline); {
		time.Sleep(50 * time.Millisecond)
	}
	b.ReportMetric(time.Since(start).Seconds(), "s-to-baseline")
	b.ReportMetric(float64(s.Stats().DatabaseBytes)/1e6, "MB-baseline")
	must(b, s.Close())
}

// BenchmarkPassThrough is a consumer that keeps up: every message is settled 200 messages later.
func BenchmarkPassThrough(b *testing.B) {
	resetPeak()
	s, _ := openBench(b, filepath.Join(b.TempDir(), "data"), Options{})
	must(b, s.Start())
	p := newPublisher(b, s)
	b.ResetTimer()
	start, used := time.Now(), cpu()
	for i := range b.N {
		p.one(true)
		if i%100 == 99 && i >= 300 {
			s.settleRun(b, uint64(i-299), uint64(i-200))
		}
	}
	must(b, s.Sync())
	wall := time.Since(start)
	used = cpu() - used
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(used.Nanoseconds())/1000/float64(b.N), "us-cpu/msg")
	b.ReportMetric(s.Stats().FoldSeconds*1e6/float64(b.N), "us-fold/msg")
	b.ReportMetric(float64(b.N)/wall.Seconds(), "msg/s")
	b.ReportMetric(float64(s.Stats().DatabaseBytes)/1e6, "MB-file")
	b.ReportMetric(peakRSS(), "MiB-peak")
	must(b, s.Close())
}

func (s *Store) settleRun(b *testing.B, from, to uint64) {
	batch, err := s.Begin(store.Control, 100)
	must(b, err)
	batch.Settle(1, 0, store.SeqRange{From: from, To: to}, to-from+1, int64(to-from+1)*119)
	batch.Commit()
}

// BenchmarkReplay fills the journal without folding and opens a copy of the directory, as after a kill.
func BenchmarkReplay(b *testing.B) {
	never := Options{FoldEvery: time.Hour, FoldBytes: math.MaxInt32}
	dir := filepath.Join(b.TempDir(), "data")
	s, _ := openBench(b, dir, never)
	must(b, s.Start())
	p := newPublisher(b, s)
	for p.one(false) {
	}
	must(b, s.fold.waitFlushed())
	image := filepath.Join(b.TempDir(), "image")
	must(b, os.CopyFS(image, os.DirFS(dir)))
	b.ResetTimer()
	for range b.N {
		resetPeak()
		start := time.Now()
		o, c := openBench(b, image, never)
		loaded := time.Since(start)
		must(b, o.Start())
		started := time.Since(start)
		if c.tail != int(p.seq) {
			b.Fatalf("%d of %d came back", c.tail, p.seq)
		}
		b.ReportMetric(float64(loaded.Milliseconds()), "ms-load")
		b.ReportMetric(float64(started.Milliseconds()), "ms-start")
		b.ReportMetric(float64(c.tail), "messages")
		b.ReportMetric(peakRSS(), "MiB-peak")
		// Its end is a crash as well: nothing is folded.
		o.state.Store(stateClosed)
		close(o.fold.quit)
		<-o.fold.stopped
		must(b, o.release())
	}
	must(b, s.Close())
}

func resetPeak() {
	runtime.GC()
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0)
}

// BenchmarkManyLanes folds one message for each of 10,000 mailboxes, b.N times: consumed at once, or kept.
func BenchmarkManyLanes(b *testing.B) {
	for _, kept := range []bool{false, true} {
		b.Run(map[bool]string{false: "consumed", true: "kept"}[kept], func(b *testing.B) {
			conn, write := openLayout(b, filepath.Join(b.TempDir(), "broker.db"), layout{geo: defaultGeometry(), sqlite: sqlitePage})
			defer disconnect(conn)
			const boxes = 10_000
			id := uint64(1)
			var spent time.Duration
			for round := range b.N {
				r := &recorder{}
				r.batch = store.NewBatch(r, id, 1)
				m := message.Message{Topic: "t", Payload: make([]byte, 100), QoS: 1}
				for box := range uint64(boxes) {
					batch := r.begin()
					batch.Message(&m, &id)
					batch.Entry(box+1, &store.Entry{Seq: uint64(round + 1), MessageID: id})
					batch.Commit()
					if !kept {
						batch = r.begin()
						batch.Settle(box+1, 0, store.SeqRange{From: uint64(round + 1), To: uint64(round + 1)}, 1, 101)
						batch.Commit()
					}
				}
				id++
				spent += takes(b, conn, newNet(), r.records, write)
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(spent.Nanoseconds())/1000/float64(b.N)/boxes, "us-fold/lane")
		})
	}
}
