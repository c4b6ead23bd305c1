package local_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"emanet/internal/disk"
	"emanet/internal/disk/powercut"
	"emanet/internal/message"
	"emanet/internal/store"
	"emanet/internal/store/local"
)

var errInjected = errors.New("injected")

// bench is a started store on a simulated disk with one mailbox.
type bench struct {
	*simulated
	t   *testing.T
	box uint64
	seq uint64 // last entry's
}

func newBench(t *testing.T, opt local.Options) *bench {
	b := &bench{simulated: newSimulated(t, 1, opt), t: t}
	b.start()
	b.control(func(batch *store.Batch) { b.box = batch.MailboxCreate() })
	return b
}

// start opens, loads and starts; it gives the mailboxes Load found.
func (b *bench) start() map[uint64]store.MailboxState {
	b.t.Helper()
	s := b.open(b.t)
	l := &boxes{}
	b.must(s.Load(l))
	b.must(s.Start())
	return l.all
}

type boxes struct{ all map[uint64]store.MailboxState }

func (*boxes) Record(string, string, []byte) error { return nil }
func (*boxes) Retained(*message.Message) error     { return nil }
func (l *boxes) Mailbox(m store.MailboxState) error {
	if l.all == nil {
		l.all = map[uint64]store.MailboxState{}
	}
	l.all[m.ID] = m
	return nil
}

func (b *bench) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatalf("%v\nalarms: %v\n%s", err, b.s.Alarms(), b.fs.Tree())
	}
}

func (b *bench) control(f func(*store.Batch)) {
	b.t.Helper()
	batch, err := b.s.Begin(store.Control, 500)
	b.must(err)
	f(batch)
	batch.Commit()
}

// publish queues one message of size bytes.
func (b *bench) publish(size int) error {
	batch, err := b.s.Begin(store.Publish, size+200)
	if err != nil {
		return err
	}
	b.seq++
	var id uint64
	batch.Message(&message.Message{Topic: "t", Payload: make([]byte, size), QoS: 1}, &id)
	batch.Entry(b.box, &store.Entry{Seq: b.seq, MessageID: id})
	batch.Commit()
	return nil
}

func (b *bench) settle(from, to uint64, size int) {
	b.t.Helper()
	n := to - from + 1
	b.control(func(batch *store.Batch) {
		batch.Settle(b.box, 0, store.SeqRange{From: from, To: to}, n, int64(n)*int64(size+1))
	})
}

// eventually polls: what it waits for happens in another goroutine that tells nobody.
func (b *bench) eventually(what string, f func() bool) {
	b.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			b.t.Fatalf("never: %s; alarms: %v\n%s", what, b.s.Alarms(), b.fs.Tree())
		}
	}
}

// awaitBallast waits for the first idle tick, which sets it aside.
func (b *bench) awaitBallast() {
	b.t.Helper()
	b.eventually("the ballast", func() bool {
		e, err := b.fs.Stat(simulatedDir + "/ballast")
		return err == nil && e.Size >= b.opt.WALBytes
	})
	b.must(b.s.Sync()) // after the tick
}

func (b *bench) alarm(words string) bool {
	return strings.Contains(strings.Join(b.s.Alarms(), "\n"), words)
}

// used is the sum of all file sizes.
func (b *bench) used() int64 {
	b.fs.SetQuota(math.MaxInt64)
	free, err := b.fs.Free(simulatedDir)
	b.must(err)
	return math.MaxInt64 - free
}

// close closes and checks.
func (b *bench) close() {
	b.t.Helper()
	b.must(b.s.Close())
	b.s = nil
	check(b.t, simulatedDir, b.opt)
}

// read gives how many entries the pages show.
func (b *bench) read() int {
	b.t.Helper()
	es, err := b.s.ReadEntries(b.box, 0, 0, math.MaxInt64, math.MaxInt32)
	b.must(err)
	return len(es)
}

func TestAJournalThatCannotBeWrittenOrFlushedEndsTheStore(t *testing.T) {
	t.Parallel()
	for _, kind := range []powercut.Kind{powercut.Write, powercut.Sync} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			b := newBench(t, small())
			b.must(b.s.Sync())
			var syncs atomic.Int32
			b.fs.SetHook(func(op powercut.Op) error {
				if op.Kind == kind && strings.HasSuffix(op.Name, ".seg") {
					syncs.Add(1)
					return errInjected
				}
				return nil
			})
			flushed := b.s.Flushed()
			batch, err := b.s.Begin(store.Control, 100)
			b.must(err)
			batch.Put("k", "k", []byte("1"))
			b.s.Notify(&store.Waiter{F: func(store.LSN) { t.Error("a waiter was told though the flush failed") }})
			batch.Commit()
			select {
			case <-b.s.Failed():
			case <-time.After(30 * time.Second):
				t.Fatal("the store did not fail")
			}
			if err := b.s.Err(); !errors.Is(err, store.ErrFailed) || !errors.Is(err, errInjected) {
				t.Errorf("Err: %v, want ErrFailed and its cause", err)
			}
			if _, err := b.s.Begin(store.Control, 100); !errors.Is(err, store.ErrFailed) {
				t.Errorf("Begin: %v, want ErrFailed", err)
			}
			if err := b.s.Sync(); !errors.Is(err, store.ErrFailed) {
				t.Errorf("Sync: %v, want ErrFailed", err)
			}
			if b.s.Flushed() != flushed {
				t.Errorf("flushed %d, was %d", b.s.Flushed(), flushed)
			}
			if n := syncs.Load(); n != 1 {
				t.Errorf("%d attempts, want 1: a failed flush is never tried again", n)
			}
			b.end(b.fs.Cut)
			b.start()
			b.close()
		})
	}
}

func TestAFoldThatFailsIsAnAlarmAndPublishesGoOnUntilTheJournalIsFull(t *testing.T) {
	t.Parallel()
	b := newBench(t, small())
	b.must(b.publish(100))
	b.must(b.s.Sync())
	var broken atomic.Bool
	broken.Store(true)
	b.fs.SetHook(func(op powercut.Op) error {
		if broken.Load() && op.Kind == powercut.Write && strings.HasSuffix(op.Name, "broker.db-wal") {
			return errInjected
		}
		return nil
	})
	var err error
	for err == nil || errors.Is(err, store.ErrBusy) {
		err = b.publish(5000)
	}
	if !errors.Is(err, store.ErrFull) {
		t.Fatalf("publish: %v, want ErrFull", err)
	}
	b.eventually("an alarm about folding", func() bool { return b.alarm("folding") })
	// Consumers go on: what is on pages can be read, and settled with what is reserved for it.
	if n := b.read(); n != 1 {
		t.Fatalf("%d entries on pages, want 1", n)
	}
	b.settle(1, 1, 100)
	select {
	case <-b.s.Failed():
		t.Fatal("the store failed")
	default:
	}
	broken.Store(false)
	b.eventually("room", func() bool { return b.publish(5000) == nil })
	b.must(b.s.Sync())
	b.eventually("the end of the alarm", func() bool { return len(b.s.Alarms()) == 0 })
	if n := b.read(); n != int(b.seq)-1 {
		t.Fatalf("%d entries, want %d", n, b.seq-1)
	}
	b.close()
}

func TestACheckpointThatFailsIsAnAlarmAndFoldingGoesOn(t *testing.T) {
	t.Parallel()
	b := newBench(t, small())
	b.awaitBallast()
	var broken atomic.Bool
	broken.Store(true)
	b.fs.SetHook(func(op powercut.Op) error {
		if broken.Load() && (op.Kind == powercut.Write || op.Kind == powercut.Sync) && strings.HasSuffix(op.Name, "broker.db") {
			return errInjected
		}
		return nil
	})
	for !b.alarm("checkpoint") {
		if err := b.publish(5000); err != nil && !errors.Is(err, store.ErrBusy) {
			t.Fatal(err)
		}
		b.must(b.s.Sync())
	}
	b.must(b.publish(1))
	b.must(b.s.Sync())
	if n := b.read(); n != int(b.seq) {
		t.Fatalf("%d entries, want %d", n, b.seq)
	}
	broken.Store(false)
	b.eventually("the end of the alarm", func() bool {
		b.must(b.publish(5000))
		b.must(b.s.Sync())
		return len(b.s.Alarms()) == 0
	})
	b.end(b.fs.Cut)
	b.start()
	if n := b.read(); n != int(b.seq) {
		t.Fatalf("%d entries after a cut, want %d", n, b.seq)
	}
	b.close()
}

// TestAFullDiskLetsTheStoreStartSettleAndDrain has not one free byte from before the start on.
func TestAFullDiskLetsTheStoreStartSettleAndDrain(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"close", "kill"} {
		t.Run("after a "+end, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, small())
			const size, n = 500, 1000
			for range n {
				b.eventually("room", func() bool { return b.publish(size) == nil })
			}
			b.must(b.s.Sync())
			b.awaitBallast()
			// Something that is only in the journal, too.
			b.must(b.publish(size))
			b.eventually("its flush", func() bool { return b.s.Flushed() == b.s.Appended() })
			if end == "kill" {
				b.end(b.fs.Kill)
			} else {
				b.must(b.s.Close())
			}
			b.fs.SetQuota(b.used())
			found := b.start()
			total := 0
			for _, l := range found[b.box].Lanes {
				total += int(l.Count) + len(l.Tail)
			}
			if total != n+1 {
				t.Fatalf("%d entries, want %d", total, n+1)
			}
			for from := uint64(1); from <= n; from += 100 {
				b.settle(from, from+99, size)
				b.must(b.s.Sync())
			}
			if left := b.read(); left != 1 {
				t.Fatalf("%d entries are left, want 1", left)
			}
			// The room that the settlements made takes new messages.
			for range 50 {
				b.eventually("room", func() bool { return b.publish(size) == nil })
			}
			b.must(b.s.Sync())
			if left := b.read(); left != 51 {
				t.Fatalf("%d entries, want 51", left)
			}
			b.fs.SetQuota(0)
			b.close()
		})
	}
}

// TestADiskThatFillsUpStopsPublishesAndComesBack lets the quota end the growth of broker.db.
func TestADiskThatFillsUpStopsPublishesAndComesBack(t *testing.T) {
	t.Parallel()
	b := newBench(t, small())
	b.must(b.publish(100))
	b.must(b.s.Sync())
	b.awaitBallast()
	b.fs.SetQuota(b.used() + 50<<10)
	var err error
	for err == nil || errors.Is(err, store.ErrBusy) {
		err = b.publish(3000)
		if errors.Is(err, store.ErrFull) && len(b.s.Alarms()) == 0 {
			err = nil // it was full before the fold came to it; not yet the disk
		}
	}
	if !errors.Is(err, store.ErrFull) {
		t.Fatalf("publish: %v, want ErrFull", err)
	}
	b.eventually("an alarm about space", func() bool { return b.alarm("space") })
	if _, err := b.fs.Stat(simulatedDir + "/ballast"); !errors.Is(err, disk.ErrNotExist) {
		t.Fatalf("the ballast is still there: %v", err)
	}
	// Consumers drain everything; some of it is on pages and the rest in memory, so they need no reads.
	for from := uint64(1); from <= b.seq; from++ {
		size := 3000
		if from == 1 {
			size = 100
		}
		b.settle(from, from, size)
	}
	b.eventually("room after the drain", func() bool { return b.publish(3000) == nil })
	b.must(b.s.Sync())
	if n := b.read(); n != 1 {
		t.Fatalf("%d entries, want 1", n)
	}
	b.fs.SetQuota(0)
	b.eventually("the end of the alarms", func() bool { _ = b.publish(10); return len(b.s.Alarms()) == 0 })
	b.end(b.fs.Cut)
	b.start()
	b.close()
}

// TestTwoStoresOnOneDirectory: the second is refused by name.
func TestTwoStoresOnOneDirectory(t *testing.T) {
	t.Parallel()
	b := newBench(t, small())
	_, err := local.Open(simulatedDir, b.opt)
	if !errors.Is(err, store.ErrLocked) {
		t.Fatalf("second open: %v, want ErrLocked", err)
	}
	b.close()
}

func TestDamageIsRefusedAndNamed(t *testing.T) {
	t.Parallel()
	b := newBench(t, small())
	for range 300 {
		b.eventually("room", func() bool { return b.publish(500) == nil })
	}
	b.must(b.s.Sync())
	b.must(b.s.Close())
	// In the WAL as well, which still has the pages of its last round.
	for _, name := range []string{"/broker.db", "/broker.db-wal"} {
		b.must(b.fs.Damage(simulatedDir+name, func(c []byte) {
			for i := len(c) / 4; i < len(c); i++ {
				c[i] ^= 0x5a
			}
		}))
	}
	r, err := local.Check(simulatedDir, b.opt)
	if err == nil && len(r.Problems) == 0 {
		t.Fatal("Check found nothing in a damaged broker.db")
	}
	t.Log(fmt.Sprint(r.Problems, err)[:200])
}
