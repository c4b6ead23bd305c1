package local_test

import (
	"errors"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"emanet/internal/disk"
	"emanet/internal/store"
)

// TestAFullDiskLetsTheStoreStartSettleAndDrain has not one free byte from before the start on.
func TestAFullDiskLetsTheStoreStartSettleAndDrain(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"close", "kill"} {
		t.Run("after a "+end, func(t *testing.T) {
			t.Parallel()
			b := newRig(t, small())
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

// TestASnapshotThatIsKeptOpenStopsTheFoldAtTheCapOfTheWAL is somebody who forgot a transaction in a tool.
func TestASnapshotThatIsKeptOpenStopsTheFoldAtTheCapOfTheWAL(t *testing.T) {
	t.Parallel()
	opt := small()
	opt.WALMax = 1 << 20
	b := newRig(t, opt)
	b.must(b.publish(100))
	b.must(b.s.Sync())
	reader, err := sqlite3.Open("file:" + simulatedDir + "/broker.db?vfs=" + b.opt.VFS)
	b.must(err)
	b.must(reader.Exec(`BEGIN; SELECT count(*) FROM mailbox`))
	b.eventually("an alarm about the cap", func() bool {
		if err := b.publish(5000); err != nil && !errors.Is(err, store.ErrBusy) && !errors.Is(err, store.ErrFull) {
			t.Fatal(err)
		}
		return b.alarm("cap")
	})
	if size := b.s.Stats().WALBytes; size > opt.WALMax+512<<10 {
		t.Errorf("the WAL has %d bytes, the cap is %d", size, opt.WALMax)
	}
	b.must(reader.Close())
	b.eventually("the end of the alarms", func() bool { return len(b.s.Alarms()) == 0 })
	b.must(b.s.Sync())
	if n := b.read(); n != int(b.seq) {
		t.Fatalf("%d entries, want %d", n, b.seq)
	}
	b.close()
}

// TestADiskThatFillsUpStopsPublishesAndComesBack lets the quota end the growth of broker.db.
func TestADiskThatFillsUpStopsPublishesAndComesBack(t *testing.T) {
	t.Parallel()
	b := newRig(t, small())
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
