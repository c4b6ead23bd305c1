package journal

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"emanet/internal/disk/powercut"
)

// onDisk is small on a power-cut disk whose operations the test can hold or fail.
func onDisk(t *testing.T) (*powercut.FS, Options) {
	t.Helper()
	fsys := powercut.New(1)
	if err := errors.Join(fsys.MkdirAll("/data"), fsys.SyncDir("/")); err != nil {
		t.Fatal(err)
	}
	o := small()
	o.FS = fsys
	return fsys, o
}

// fill appends records of class c until one is refused, and answers how many went.
func fill(t *testing.T, j *Journal, c Class) (n int, last LSN) {
	t.Helper()
	payload := []byte(strings.Repeat("f", 500))
	for {
		lsn, err := appendRecord(j, c, payload)
		if errors.Is(err, ErrFull) {
			return n, last
		}
		if err != nil {
			t.Fatal(err)
		}
		n, last = n+1, lsn
		awaitFlush(j)
	}
}

func TestTheLastQuarterIsReservedForControlRecords(t *testing.T) {
	t.Parallel()
	j := mustStart(t, t.TempDir(), small())
	defer mustClose(t, j)
	published, _ := fill(t, j, Publish)
	s := j.Stats()
	if left := s.Bytes - s.BytesUsed; left < s.Reserve || left > s.Reserve+1200 {
		t.Fatalf("Publish was refused with %d bytes left, the reserve is %d", left, s.Reserve)
	}
	controls, last := fill(t, j, Control)
	if controls < 6 || published < 3*6 {
		t.Fatalf("%d Publish and then %d Control records went in", published, controls)
	}
	if err := j.Release(last); err != nil {
		t.Fatal(err)
	}
	if _, err := appendRecord(j, Publish, []byte("again")); err != nil {
		t.Fatalf("after the release Publish gets %v", err)
	}
}

func TestSegmentsAreRecycledUnderPressureAndTheFilesStayTheSame(t *testing.T) {
	t.Parallel()
	fsys, o := onDisk(t)
	j := mustStart(t, "/data/j", o)
	before := fsys.Tree()
	fsys.SetQuota(1) // nothing may grow
	payload := []byte(strings.Repeat("p", 300))
	var last LSN
	for range 500 {
		lsn, err := appendRecord(j, Publish, payload)
		for errors.Is(err, ErrFull) {
			awaitFlush(j)
			if err := j.Release(j.Flushed()); err != nil {
				t.Fatal(err)
			}
			lsn, err = appendRecord(j, Publish, payload)
		}
		if err != nil {
			t.Fatal(err)
		}
		last = lsn
		awaitFlush(j)
	}
	mustClose(t, j)
	if after := fsys.Tree(); after != before {
		t.Fatalf("files have changed from\n%sto\n%s", before, after)
	}
	j = mustStart(t, "/data/j", o) // with no byte free
	if j.Flushed() != last {
		t.Fatalf("ends at LSN %d, want %d", j.Flushed(), last)
	}
	mustClose(t, j)
}

func TestNothingIsRecycledBeforeItIsReleased(t *testing.T) {
	t.Parallel()
	j := mustStart(t, t.TempDir(), small())
	defer mustClose(t, j)
	n, last := fill(t, j, Control)
	if err := j.Release(1); err != nil {
		t.Fatal(err)
	}
	if _, err := appendRecord(j, Control, make([]byte, 500)); !errors.Is(err, ErrFull) {
		t.Fatalf("a full journal answers %v", err)
	}
	if got := readAll(t, j, 0); len(got) != n || got[n-1].lsn != last {
		t.Fatalf("%d records are left of %d", len(got), n)
	}
}

func TestAReaderOfReleasedRecordsIsToldSo(t *testing.T) {
	t.Parallel()
	j := mustStart(t, t.TempDir(), small())
	defer mustClose(t, j)
	_, last := fill(t, j, Control)
	r := j.NewReader(0)
	if err := j.Release(last); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Next(nil, 1000); !errors.Is(err, ErrReleased) {
		t.Fatalf("the reader gets %v, want ErrReleased", err)
	}
	if _, err := j.NewReader(last).Next(nil, 1000); err != nil {
		t.Fatalf("a reader from the last LSN gets %v", err)
	}
}

func TestAReaderWhoseSegmentIsRecycledWhileItReadsIsToldSo(t *testing.T) {
	t.Parallel()
	fsys, o := onDisk(t)
	j := mustStart(t, "/data/j", o)
	defer mustClose(t, j)
	_, last := fill(t, j, Control)
	r := j.NewReader(0)
	recycle := sync.OnceFunc(func() {
		if err := j.Release(last); err != nil {
			t.Error(err)
		}
		mustAppend(t, j, "new, whole, and at the place the reader is about to read")
	})
	fsys.SetHook(func(op powercut.Op) error {
		if op.Kind == powercut.Read && op.Len > 0 {
			recycle()
		}
		return nil
	})
	c, err := r.Next(nil, 1000)
	if !errors.Is(err, ErrReleased) {
		t.Fatalf("the reader gets %d records and %v, want ErrReleased", c.Len(), err)
	}
}

func TestAReaderFollowsTheFlushesWhileSegmentsAreRecycled(t *testing.T) {
	t.Parallel()
	j := mustStart(t, t.TempDir(), small())
	defer mustClose(t, j)
	var want, got []record
	r := j.NewReader(0)
	var c Chunk
	for i := range 300 {
		payload := strings.Repeat("r", 1+i%400)
		want = append(want, record{mustAppend(t, j, payload), payload})
		var err error
		if c, err = r.Next(c.Buf(), 600); err != nil {
			t.Fatal(err)
		}
		for lsn, payload := range c.All() {
			got = append(got, record{lsn, string(payload)})
		}
		if err := j.Release(c.Last()); err != nil {
			t.Fatal(err)
		}
	}
	wantRecords(t, got, want)
}

// hold makes every flush wait until the returned function is called.
func hold(fsys *powercut.FS) (reached <-chan struct{}, release func()) {
	gate, at := make(chan struct{}), make(chan struct{}, 100)
	fsys.SetHook(func(op powercut.Op) error {
		if op.Kind == powercut.Sync {
			at <- struct{}{}
			<-gate
		}
		return nil
	})
	return at, sync.OnceFunc(func() { close(gate) })
}

func TestPublishIsRefusedAtTheUnflushedCapAndToldWhenThereIsRoom(t *testing.T) {
	t.Parallel()
	fsys, o := onDisk(t)
	o.UnflushedMax = 1000
	j := mustStart(t, "/data/j", o)
	defer mustClose(t, j)
	reached, release := hold(fsys)
	defer release()
	payload := make([]byte, 300)
	n := 0
	var err error
	for ; err == nil; n++ {
		if _, err = appendRecord(j, Publish, payload); n == 0 {
			<-reached
		}
	}
	if !errors.Is(err, ErrBusy) || n != 3 {
		t.Fatalf("attempt %d of 300 bytes got %v under a cap of 1000", n, err)
	}
	if _, err := appendRecord(j, Control, payload); err != nil {
		t.Fatalf("Control gets %v where Publish was refused", err)
	}
	room := make(chan struct{})
	w := &RoomWaiter{Class: Publish, Size: len(payload), F: func() { close(room) }}
	for range 2 { // once is as good as twice
		if !j.WaitRoom(w) {
			t.Fatal("WaitRoom says there is room")
		}
	}
	select {
	case <-room:
		t.Fatal("told of room while the flush was held")
	default:
	}
	release()
	<-room
	awaitFlush(j)
	if j.WaitRoom(w) {
		t.Fatal("WaitRoom says there is none with nothing unflushed")
	}
	if _, err := appendRecord(j, Publish, make([]byte, 2000)); err != nil {
		t.Fatalf("a record above the cap, with nothing unflushed, gets %v", err)
	}
}

func TestOneRefusedForAFullJournalIsToldOfTheRelease(t *testing.T) {
	t.Parallel()
	j := mustStart(t, t.TempDir(), small())
	defer mustClose(t, j)
	_, last := fill(t, j, Publish)
	told := 0
	w := &RoomWaiter{Class: Publish, Size: 500, F: func() { told++ }}
	if !j.WaitRoom(w) {
		t.Fatal("WaitRoom says there is room")
	}
	if err := j.Release(last); err != nil {
		t.Fatal(err)
	}
	if told != 1 {
		t.Fatalf("told %d times", told)
	}
}

func TestARecordLargerThanASegmentIsRefusedByItsSize(t *testing.T) {
	t.Parallel()
	j := mustStart(t, t.TempDir(), small())
	defer mustClose(t, j)
	if _, err := j.Begin(Control, j.MaxRecord()+1); !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), "3977 bytes, at most 3976") {
		t.Fatalf("got %v", err)
	}
	lsn := mustAppend(t, j, strings.Repeat("m", j.MaxRecord()))
	if got := readAll(t, j, lsn-1); len(got) != 1 || len(got[0].payload) != j.MaxRecord() {
		t.Fatalf("read %d records", len(got))
	}
}

func TestAnAbortedRecordLeavesNothing(t *testing.T) {
	t.Parallel()
	j := mustStart(t, t.TempDir(), small())
	defer mustClose(t, j)
	var want []record
	for i := range 40 {
		// Now and then the aborted one is the first of a segment.
		buf, err := j.Begin(Control, 3000)
		if errors.Is(err, ErrFull) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		_ = append(buf, "aborted"...)
		j.Abort()
		payload := strings.Repeat("k", 10*i+1)
		want = append(want, record{mustAppend(t, j, payload), payload})
	}
	wantRecords(t, readAll(t, j, 0), want)
}

func TestTheNumberOfSegmentsGrowsAndShrinksAndTheirSizeStays(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := mustStart(t, dir, small())
	mustAppend(t, j, "one")
	mustClose(t, j)
	o := small()
	o.Segments = 7
	j = mustStart(t, dir, o)
	if s := j.Stats(); s.Segments != 7 || s.SegmentsFree != 6 {
		t.Fatalf("%d segments, %d free", s.Segments, s.SegmentsFree)
	}
	_, last := fill(t, j, Control)
	mustClose(t, j)

	j = mustStart(t, dir, small()) // all seven are in use
	if s := j.Stats(); s.Segments != 7 {
		t.Fatalf("%d segments are left of 7 in use", s.Segments)
	}
	if err := j.Release(last); err != nil {
		t.Fatal(err)
	}
	last = mustAppend(t, j, strings.Repeat("n", 3000)) // begins slot 0, as the current one is full
	if err := j.Release(last); err != nil {
		t.Fatal(err)
	}
	mustClose(t, j)
	j = mustStart(t, dir, small())
	if s := j.Stats(); s.Segments != 4 {
		t.Fatalf("%d segments, want 4: %+v", s.Segments, j.ring.free)
	}
	if got := readAll(t, j, last-1); len(got) != 1 {
		t.Fatalf("%d records", len(got))
	}
	mustClose(t, j)

	o.SegmentBytes = 8192
	if _, err := Open(dir, o); !errors.Is(err, ErrSegmentSize) || !strings.Contains(err.Error(), "4096") {
		t.Fatalf("another segment size gets %v", err)
	}
}

func TestOptionsOutOfRangeAreRefusedByName(t *testing.T) {
	t.Parallel()
	for _, o := range []Options{{Segments: 3}, {SegmentBytes: 4097}, {SegmentBytes: 1 << 40}, {UnflushedMax: -1}} {
		if _, err := Open(t.TempDir(), o); err == nil || !strings.Contains(err.Error(), "journal") {
			t.Errorf("%+v gets %v", o, err)
		}
	}
}
