package journal

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"emanet/internal/disk/powercut"
)

// keepBusy appends small records as fast as it may until stop is called; one refused waits like anybody else.
func keepBusy(t *testing.T, j *Journal, appenders int) (stop func()) {
	t.Helper()
	quit := make(chan struct{})
	var running sync.WaitGroup
	payload := make([]byte, 100)
	for range appenders {
		running.Go(func() {
			for {
				select {
				case <-quit:
					return
				default:
				}
				_, err := appendRecord(j, Publish, payload)
				if errors.Is(err, ErrBusy) || errors.Is(err, ErrFull) {
					room := make(chan struct{})
					if j.WaitRoom(&RoomWaiter{Class: Publish, Size: len(payload), F: func() { close(room) }}) {
						<-room
					}
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	return func() {
		close(quit)
		running.Wait()
	}
}

// releasing recycles segments after every flush of the journal in o.
func releasing(t *testing.T, j *Journal) (stop func()) {
	t.Helper()
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-quit:
				return
			case <-time.After(100 * time.Microsecond):
			}
			if err := j.Release(j.Flushed()); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	return func() {
		close(quit)
		<-done
	}
}

func TestARecordAboveTheUnflushedCapGetsItsTurnUnderSteadyPublishes(t *testing.T) {
	t.Parallel()
	fsys, o := onDisk(t)
	o.SegmentBytes, o.Segments, o.UnflushedMax = 64<<10, 8, 2000
	j := mustStart(t, "/data/j", o)
	defer mustClose(t, j)
	fsys.SetHook(func(op powercut.Op) error { // as slow as a disk: something always gathers
		if op.Kind == powercut.Sync {
			<-time.After(200 * time.Microsecond)
		}
		return nil
	})
	defer releasing(t, j)()
	defer keepBusy(t, j, 30)()
	giveUp := time.After(20 * time.Second)
	large := make([]byte, 3000)
	const times, most = 20, 5 // groups that go for each, on average: one, but for a told one that is slow to come
	before := j.Stats().Groups
	for range times {
		for {
			_, err := appendRecord(j, Publish, large)
			if err == nil {
				break
			}
			room := make(chan struct{})
			if !j.WaitRoom(&RoomWaiter{Class: Publish, Size: len(large), F: func() { close(room) }}) {
				continue
			}
			select {
			case <-room:
			case <-giveUp:
				t.Fatal("a large record never got its turn")
			}
		}
	}
	if n := j.Stats().Groups - before; n > times*most {
		t.Errorf("%d groups went while %d large records did", n, times)
	}
}

// busy is a journal with a cap of 1000 bytes whose first flush is held with 400 bytes in it.
func busy(t *testing.T) (j *Journal, release func()) {
	t.Helper()
	fsys, o := onDisk(t)
	o.UnflushedMax = 1000
	j = mustStart(t, "/data/j", o)
	t.Cleanup(func() { mustClose(t, j) })
	reached, release := hold(fsys)
	t.Cleanup(release)
	if _, err := appendRecord(j, Publish, make([]byte, 400)); err != nil {
		t.Fatal(err)
	}
	<-reached
	return j, release
}

func TestLaterPublishesGiveWayToALargeOneAndControlDoesNot(t *testing.T) {
	t.Parallel()
	j, release := busy(t)
	told := make(chan struct{})
	if !j.WaitRoom(&RoomWaiter{Class: Publish, Size: 2000, F: func() { close(told) }}) {
		t.Fatal("there is room for 2000 bytes above 400")
	}
	if _, err := appendRecord(j, Publish, make([]byte, 10)); !errors.Is(err, ErrBusy) {
		t.Fatalf("a later publish gets %v", err)
	}
	if _, err := appendRecord(j, Control, make([]byte, 10)); err != nil {
		t.Fatalf("Control gets %v", err)
	}
	release()
	<-told
	if _, err := appendRecord(j, Publish, make([]byte, 10)); !errors.Is(err, ErrBusy) {
		t.Fatalf("a later publish overtakes the one that was told: %v", err)
	}
	if _, err := appendRecord(j, Publish, make([]byte, 2000)); err != nil {
		t.Fatalf("the one that was told gets %v", err)
	}
	awaitFlush(j)
	if _, err := appendRecord(j, Publish, make([]byte, 10)); err != nil {
		t.Fatalf("the later publish gets %v afterwards", err)
	}
}

func TestALargeOneThatIsGoneWhenItsTurnComesKeepsNobodyWaiting(t *testing.T) {
	t.Parallel()
	j, release := busy(t)
	second := make(chan struct{})
	j.WaitRoom(&RoomWaiter{Class: Publish, Size: 2000, F: func() {}})
	if !j.WaitRoom(&RoomWaiter{Class: Publish, Size: 10, F: func() { close(second) }}) {
		t.Fatal("the second was not made to wait")
	}
	release()
	<-second
	if _, err := appendRecord(j, Publish, make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
}

func TestOnlyThoseAreToldWhoHaveRoomBesideEachOtherAndInTheirOrder(t *testing.T) {
	t.Parallel()
	fsys, o := onDisk(t)
	o.UnflushedMax = 1000
	j := mustStart(t, "/data/j", o)
	defer mustClose(t, j)
	gate, at := make(chan struct{}), make(chan struct{})
	fsys.SetHook(func(op powercut.Op) error {
		if op.Kind == powercut.Sync {
			at <- struct{}{}
			<-gate
		}
		return nil
	})
	for i, n := range []int{400, 200} { // one group on its way, one behind it
		if _, err := appendRecord(j, Publish, make([]byte, n)); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			<-at
		}
	}
	told := make(chan int, 10)
	for i := range 10 {
		if !j.WaitRoom(&RoomWaiter{Class: Publish, Size: 300, F: func() { told <- i }}) {
			t.Fatal("there is room")
		}
	}
	gate <- struct{}{}
	<-at // the second group's flush: what the first one's had to tell is decided
	first := []int{<-told, <-told}
	j.mu.Lock()
	left := 0
	for w := j.room[Publish].front; w != nil; w = w.next {
		left++
	}
	j.mu.Unlock()
	if left != 8 {
		t.Errorf("%d still wait, want 8: two of 300 bytes fit above 200 under a cap of 1000", left)
	}
	gate <- struct{}{}
	for range left { // nothing is unflushed now: all of them, though none of the first two came
		first = append(first, <-told)
	}
	if !slices.IsSorted(first) {
		t.Errorf("told in the order %v", first)
	}
	fsys.SetHook(nil)
}

func TestAWaiterForMoreThanAnyRecordWaitsForTheLargest(t *testing.T) {
	t.Parallel()
	j := mustStart(t, t.TempDir(), small())
	defer mustClose(t, j)
	_, last := fill(t, j, Control)
	told := false
	if !j.WaitRoom(&RoomWaiter{Class: Control, Size: 1 << 30, F: func() { told = true }}) {
		t.Fatal("a full journal has room")
	}
	if err := j.Release(last); err != nil || !told {
		t.Fatalf("Release: %v, told: %v", err, told)
	}
	if _, err := appendRecord(j, Control, []byte(strings.Repeat("m", j.MaxRecord()))); err != nil {
		t.Fatal(err)
	}
}
