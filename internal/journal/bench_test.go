package journal

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"emanet/internal/disk"
	"emanet/internal/disk/powercut"
)

// BenchmarkLoneRecord appends one 100-byte record and waits for its flush, beside a bare
// write and flush of the same number of bytes into a preallocated file, in turns.
// ratio-p50 is ours over the bare one.
func BenchmarkLoneRecord(b *testing.B) {
	dir := benchDir(b)
	j := mustStart(b, filepath.Join(dir, "journal"), Options{})
	defer mustClose(b, j)
	bare, err := disk.Preallocate(disk.OS(), filepath.Join(dir, "bare"), 16<<20)
	if err != nil {
		b.Fatal(err)
	}
	defer bare.Close()
	payload := bytes.Repeat([]byte{'r'}, 100)
	frame := bytes.Repeat([]byte{'f'}, alignUp(groupHeaderLen+recordHeaderLen+len(payload)))
	done := make(chan struct{}, 1)
	w := &Waiter{F: func(LSN) { done <- struct{}{} }}
	var ours, raw []time.Duration
	off := int64(0)
	for b.Loop() {
		t := time.Now()
		buf, err := j.Begin(Publish, len(payload))
		if err != nil {
			b.Fatal(err)
		}
		j.Notify(w)
		lsn := j.Commit(append(buf, payload...))
		<-done
		ours = append(ours, time.Since(t))
		if len(ours)%10_000 == 0 {
			if err := j.Release(lsn); err != nil {
				b.Fatal(err)
			}
		}
		t = time.Now()
		if _, err := bare.WriteAt(frame, off); err != nil {
			b.Fatal(err)
		}
		if err := bare.Sync(); err != nil {
			b.Fatal(err)
		}
		raw = append(raw, time.Since(t))
		off = (off + int64(len(frame))) % (16<<20 - 1000)
	}
	slices.Sort(ours)
	slices.Sort(raw)
	p50, rawP50 := ours[len(ours)/2], raw[len(raw)/2]
	b.ReportMetric(float64(p50.Microseconds()), "p50-us")
	b.ReportMetric(float64(rawP50.Microseconds()), "bare-p50-us")
	b.ReportMetric(float64(ours[len(ours)*99/100].Microseconds()), "p99-us")
	b.ReportMetric(float64(raw[len(raw)*99/100].Microseconds()), "bare-p99-us")
	b.ReportMetric(float64(p50)/float64(rawP50), "ratio-p50")
}

// BenchmarkManyAppenders appends 100-byte records from several goroutines that wait for
// room only, while a folder releases what is flushed.
func BenchmarkManyAppenders(b *testing.B) {
	for _, appenders := range []int{1, 8} {
		b.Run(fmt.Sprint("appenders=", appenders), func(b *testing.B) {
			j := mustStart(b, filepath.Join(benchDir(b), "journal"), Options{})
			defer mustClose(b, j)
			payload := bytes.Repeat([]byte{'r'}, 100)
			stop := make(chan struct{})
			var folder sync.WaitGroup
			folder.Go(func() {
				tick := time.NewTicker(5 * time.Millisecond)
				defer tick.Stop()
				for {
					select {
					case <-stop:
						return
					case <-tick.C:
						if err := j.Release(j.Flushed()); err != nil {
							b.Error(err)
						}
					}
				}
			})
			b.SetBytes(int64(len(payload)))
			b.ReportAllocs()
			b.ResetTimer()
			var left atomic.Int64
			left.Store(int64(b.N))
			var wg sync.WaitGroup
			for range appenders {
				wg.Go(func() {
					room := make(chan struct{}, 1)
					w := &RoomWaiter{Class: Publish, Size: len(payload), F: func() { room <- struct{}{} }}
					for left.Add(-1) >= 0 {
						buf, err := j.Begin(Publish, len(payload))
						for err != nil {
							if j.WaitRoom(w) {
								<-room
							}
							buf, err = j.Begin(Publish, len(payload))
						}
						j.Commit(append(buf, payload...))
					}
				})
			}
			wg.Wait()
			awaitFlush(j)
			b.StopTimer()
			close(stop)
			folder.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rec/s")
			s := j.Stats()
			b.ReportMetric(float64(s.Records)/float64(s.Groups), "rec/flush")
		})
	}
}

// BenchmarkAppend is what one record costs under the append lock: the flush is held meanwhile.
func BenchmarkAppend(b *testing.B) {
	fsys := powercut.New(1)
	if err := fsys.MkdirAll("/data"); err != nil {
		b.Fatal(err)
	}
	j := mustStart(b, "/data/j", Options{FS: fsys, SegmentBytes: 32 << 20, Segments: 4, UnflushedMax: 30 << 20})
	defer mustClose(b, j)
	payload := bytes.Repeat([]byte{'r'}, 100)
	b.ReportAllocs()
	b.ResetTimer()
	for left := b.N; left > 0; left -= 50_000 {
		b.StopTimer()
		reached, release := hold(fsys)
		mustAppendOnly(b, j, payload)
		<-reached
		b.StartTimer()
		for range min(left, 50_000) {
			mustAppendOnly(b, j, payload)
		}
		b.StopTimer()
		release()
		awaitFlush(j)
		fsys.SetHook(nil)
		if err := j.Release(j.Flushed()); err != nil {
			b.Fatal(err)
		}
	}
}

func mustAppendOnly(b *testing.B, j *Journal, payload []byte) {
	if _, err := appendRecord(j, Publish, payload); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkFirstStart creates the default journal: 16 segments of 16 MiB, written and flushed.
func BenchmarkFirstStart(b *testing.B) {
	for b.Loop() {
		dir := benchDir(b)
		mustClose(b, mustStart(b, filepath.Join(dir, "journal"), Options{}))
		os.RemoveAll(dir)
	}
}

func benchDir(b *testing.B) string {
	b.Helper()
	return b.TempDir()
}
