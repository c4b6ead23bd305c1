package journal

import (
	"errors"
	"sync/atomic"
	"testing"

	"emanet/internal/disk"
	"emanet/internal/disk/powercut"
)

func TestAFailedWriteOrFlushEndsTheJournalForGood(t *testing.T) {
	t.Parallel()
	for kind, fault := range map[powercut.Kind]error{
		powercut.Sync:  errors.New("input/output error"),
		powercut.Write: disk.ErrNoSpace,
	} {
		t.Run(string(kind), func(t *testing.T) {
			fsys, o := onDisk(t)
			var failures atomic.Int32
			failed := make(chan error, 10)
			o.OnFail = func(err error) { failures.Add(1); failed <- err }
			j := mustStart(t, "/data/j", o)
			good := mustAppend(t, j, "good")

			tries := atomic.Int32{}
			fsys.SetHook(func(op powercut.Op) error {
				if op.Kind != kind {
					return nil
				}
				tries.Add(1)
				return fault
			})
			told := false
			buf, err := j.Begin(Publish, 10)
			if err != nil {
				t.Fatal(err)
			}
			j.Notify(&Waiter{F: func(LSN) { told = true }})
			j.Commit(append(buf, "doomed"...))
			if err := <-failed; !errors.Is(err, fault) {
				t.Fatalf("OnFail gets %v", err)
			}
			fsys.SetHook(nil) // a retry would succeed now
			if _, err := j.Begin(Control, 10); !errors.Is(err, ErrFailed) || !errors.Is(err, fault) {
				t.Fatalf("Begin gets %v, want ErrFailed with the cause", err)
			}
			if j.WaitRoom(&RoomWaiter{Size: 1}) {
				t.Fatal("a failed journal lets one wait for room")
			}
			if err := j.Release(good); !errors.Is(err, ErrFailed) {
				t.Fatalf("Release gets %v", err)
			}
			if err := j.Close(); !errors.Is(err, fault) {
				t.Fatalf("Close gets %v", err)
			}
			if told || failures.Load() != 1 || tries.Load() != 1 || j.Flushed() != good {
				t.Fatalf("waiter told: %v, OnFail calls: %d, tries: %d, flushed: %d", told, failures.Load(), tries.Load(), j.Flushed())
			}
		})
	}
}

func TestGroupsBehindAFailedFlushGetNoNotificationEither(t *testing.T) {
	t.Parallel()
	fsys, o := onDisk(t)
	failed := make(chan struct{})
	o.OnFail = func(error) { close(failed) }
	j := mustStart(t, "/data/j", o)
	at, gate := make(chan struct{}), make(chan struct{})
	boom := errors.New("boom")
	fsys.SetHook(func(op powercut.Op) error {
		if op.Kind != powercut.Sync {
			return nil
		}
		close(at)
		<-gate
		return boom
	})
	var told atomic.Int32
	appendAndNotify := func() {
		record := make([]byte, 300)
		buf, err := j.Begin(Publish, len(record))
		if err != nil {
			t.Fatal(err)
		}
		j.Notify(&Waiter{F: func(LSN) { told.Add(1) }})
		j.Commit(append(buf, record...))
	}
	appendAndNotify()
	<-at
	appendAndNotify() // gathers behind the flush that will fail
	room := make(chan struct{})
	if !j.WaitRoom(&RoomWaiter{Class: Publish, Size: 3000, F: func() { close(room) }}) {
		t.Fatal("no need to wait for room")
	}
	close(gate)
	<-failed
	<-room // comes back to be refused
	if err := j.Close(); !errors.Is(err, boom) {
		t.Fatalf("Close gets %v", err)
	}
	if told.Load() != 0 {
		t.Fatalf("%d waiters were told", told.Load())
	}
}

func TestAFailedHeadWriteAtAReleaseFailsTheJournal(t *testing.T) {
	t.Parallel()
	fsys, o := onDisk(t)
	failures := 0
	o.OnFail = func(error) { failures++ }
	j := mustStart(t, "/data/j", o)
	_, last := fill(t, j, Control)
	boom := errors.New("boom")
	fsys.SetHook(func(op powercut.Op) error {
		if op.Kind == powercut.Sync {
			return boom
		}
		return nil
	})
	if err := j.Release(last); !errors.Is(err, boom) {
		t.Fatalf("Release gets %v", err)
	}
	if _, err := j.Begin(Control, 1); !errors.Is(err, ErrFailed) || failures != 1 {
		t.Fatalf("Begin gets %v after %d failures", err, failures)
	}
	if err := j.Close(); !errors.Is(err, boom) {
		t.Fatalf("Close gets %v", err)
	}
}

func TestAFullDiskAtTheFirstStartIsToldAndLeavesADirectoryThatOpensLater(t *testing.T) {
	t.Parallel()
	fsys, o := onDisk(t)
	fsys.SetQuota(20_000) // the head and two segments of four
	if _, err := Open("/data/j", o); !errors.Is(err, disk.ErrNoSpace) {
		t.Fatalf("Open gets %v", err)
	}
	fsys.SetQuota(0)
	j := mustStart(t, "/data/j", o)
	mustAppend(t, j, "x")
	mustClose(t, j)

	o.Segments = 100 // growing is not worth a refused start
	fsys.SetQuota(40_000)
	j = mustStart(t, "/data/j", o)
	if s := j.Stats(); s.Segments < 4 || s.Segments > 9 {
		t.Fatalf("%d segments", s.Segments)
	}
	mustAppend(t, j, "y")
	mustClose(t, j)
}

func TestAGroupIsOneWriteAndOneFlush(t *testing.T) {
	t.Parallel()
	fsys, o := onDisk(t)
	j := mustStart(t, "/data/j", o)
	defer mustClose(t, j)
	var writes, syncs atomic.Int32
	fsys.SetHook(func(op powercut.Op) error {
		switch op.Kind {
		case powercut.Write:
			writes.Add(1)
		case powercut.Sync:
			syncs.Add(1)
		}
		return nil
	})
	before := j.Stats().Groups
	for range 30 {
		mustAppend(t, j, "a record of some length, so that more than one segment is used: more than one segment is used, is used ..............................................")
	}
	groups := int32(j.Stats().Groups - before)
	if groups < 30 || writes.Load() != groups || syncs.Load() != groups {
		t.Fatalf("%d groups, %d writes, %d flushes", groups, writes.Load(), syncs.Load())
	}
}

func TestTheNextGroupIsNotWrittenBeforeTheFlushHasReturned(t *testing.T) {
	t.Parallel()
	fsys, o := onDisk(t)
	j := mustStart(t, "/data/j", o)
	var flushing, overlaps atomic.Int32
	reached := make(chan struct{}, 1000)
	gates := make(chan struct{}, 1000)
	fsys.SetHook(func(op powercut.Op) error {
		switch op.Kind {
		case powercut.Write:
			overlaps.Add(flushing.Load())
		case powercut.Sync:
			flushing.Add(1)
			reached <- struct{}{}
			<-gates
			flushing.Add(-1)
		}
		return nil
	})
	for range 20 {
		if _, err := appendRecord(j, Control, []byte("first")); err != nil {
			t.Fatal(err)
		}
		<-reached
		if _, err := appendRecord(j, Control, []byte("second, while the first is flushed")); err != nil {
			t.Fatal(err)
		}
		gates <- struct{}{}
		<-reached
		gates <- struct{}{}
		awaitFlush(j)
	}
	close(gates)
	mustClose(t, j)
	if overlaps.Load() != 0 {
		t.Fatalf("%d writes began while a flush was running", overlaps.Load())
	}
}

func TestAWaiterIsCalledOncePerGroupInOrderOfLSN(t *testing.T) {
	t.Parallel()
	fsys, o := onDisk(t)
	j := mustStart(t, "/data/j", o)
	reached, release := hold(fsys)
	var calls []LSN
	w := &Waiter{}
	w.F = func(flushed LSN) { calls = append(calls, flushed) }
	var lsns []LSN
	for i := range 4 {
		buf, err := j.Begin(Control, 10)
		if err != nil {
			t.Fatal(err)
		}
		j.Notify(w)
		j.Notify(w)
		lsns = append(lsns, j.Commit(append(buf, "record"...)))
		if i == 0 {
			<-reached // the first is a group of its own, the others share one
		}
	}
	if !j.NotifyTail(w) {
		t.Fatal("NotifyTail says that everything is flushed")
	}
	release()
	mustClose(t, j)
	if len(calls) != 2 || calls[0] != lsns[0] || calls[1] != lsns[3] {
		t.Fatalf("called with %v, LSNs are %v", calls, lsns)
	}
}

func TestCloseFlushesWhatWasAppendedAndRefusesMore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := mustStart(t, dir, small())
	told := false
	buf, err := j.Begin(Publish, 10)
	if err != nil {
		t.Fatal(err)
	}
	j.Notify(&Waiter{F: func(LSN) { told = true }})
	lsn := j.Commit(append(buf, "last"...))
	mustClose(t, j)
	mustClose(t, j)
	if !told {
		t.Fatal("the waiter of the last group was not told")
	}
	if _, err := j.Begin(Publish, 10); !errors.Is(err, ErrClosed) {
		t.Fatalf("Begin gets %v", err)
	}
	j = mustOpen(t, dir, small())
	defer mustClose(t, j)
	wantRecords(t, readAll(t, j, 0), []record{{lsn, "last"}})
}

func TestAFailedFlushDoesNotComeBackAsAFlushedRecord(t *testing.T) {
	t.Parallel()
	// The page cache may still show the group whose flush failed. The next process finds it, and
	// must write it again before it counts: the medium never had it.
	for seed := range uint64(40) {
		fsys := powercut.New(seed)
		if err := errors.Join(fsys.MkdirAll("/data"), fsys.SyncDir("/")); err != nil {
			t.Fatal(err)
		}
		o := small()
		o.FS = fsys
		failed := make(chan struct{})
		o.OnFail = func(error) { close(failed) }
		j := mustStart(t, "/data/j", o)
		fsys.SetHook(func(op powercut.Op) error {
			if op.Kind == powercut.Sync {
				return errors.New("boom")
			}
			return nil
		})
		if _, err := appendRecord(j, Publish, []byte("doomed")); err != nil {
			t.Fatal(err)
		}
		<-failed
		_ = j.Close() // answers the failure, tested elsewhere
		o.FS, o.OnFail = fsys.Kill(), nil
		j = mustStart(t, "/data/j", o)
		found := j.Flushed()
		mustClose(t, j)
		o.FS = o.FS.(*powercut.FS).Cut()
		j = mustOpen(t, "/data/j", o)
		if j.Flushed() != found {
			t.Fatalf("seed %d: LSN %d counted as flushed after the start, the medium has %d", seed, found, j.Flushed())
		}
		mustClose(t, j)
	}
}
