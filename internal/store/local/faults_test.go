package local_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"emanet/internal/disk/powercut"
	"emanet/internal/store"
	"emanet/internal/store/local"
)

var errInjected = errors.New("injected")

func TestAJournalThatCannotBeWrittenOrFlushedEndsTheStore(t *testing.T) {
	t.Parallel()
	for _, kind := range []powercut.Kind{powercut.Write, powercut.Sync} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			b := newRig(t, small())
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
	b := newRig(t, small())
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
	b := newRig(t, small())
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

// TestFlushesOfSQLitesFilesThatFailNowAndThenLoseNothing: a failed flush drops what was written, as Linux does.
func TestFlushesOfSQLitesFilesThatFailNowAndThenLoseNothing(t *testing.T) {
	t.Parallel()
	b := newRig(t, small())
	b.awaitBallast()
	var flushes atomic.Int32
	var broken atomic.Bool
	broken.Store(true)
	b.fs.SetHook(func(op powercut.Op) error {
		if broken.Load() && op.Kind == powercut.Sync && strings.Contains(op.Name, "broker.db") && flushes.Add(1)%3 != 0 {
			return errInjected
		}
		return nil
	})
	failed := 0
	for range 300 {
		b.eventually("room", func() bool { return b.publish(4000) == nil })
		if b.s.Sync() != nil {
			failed++
		}
	}
	if failed == 0 {
		t.Fatal("no fold failed: the test tests nothing")
	}
	broken.Store(false)
	b.must(b.s.Sync())
	if n := b.read(); n != int(b.seq) {
		t.Fatalf("%d entries, want %d", n, b.seq)
	}
	b.end(b.fs.Cut)
	b.start()
	if n := b.read(); n != int(b.seq) {
		t.Fatalf("%d entries after a cut, want %d", n, b.seq)
	}
	b.close()
}

// TestTwoStoresOnOneDirectory: the second is refused by name.
func TestTwoStoresOnOneDirectory(t *testing.T) {
	t.Parallel()
	b := newRig(t, small())
	_, err := local.Open(simulatedDir, b.opt)
	if !errors.Is(err, store.ErrLocked) {
		t.Fatalf("second open: %v, want ErrLocked", err)
	}
	if n := strings.Count(err.Error(), "in use"); n != 1 {
		t.Errorf("%q says %d times what is wrong", err, n)
	}
	b.close()
}

func TestDamageIsRefusedAndNamed(t *testing.T) {
	t.Parallel()
	b := newRig(t, small())
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
