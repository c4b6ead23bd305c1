package local

import (
	"strings"
	"sync/atomic"
	"time"

	"emanet/internal/disk"
	"emanet/internal/store"
)

// flushBounds are upper bounds in seconds: from a fast SSD to a disk in trouble.
var flushBounds = []float64{0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10}

// flushTimes counts how long flushes of journal segments take.
type flushTimes struct {
	counts [16]atomic.Uint64 // the last: beyond all bounds
	sum    atomic.Int64      // ns
}

func (f *flushTimes) add(d time.Duration) {
	i, s := 0, d.Seconds()
	for i < len(flushBounds) && s > flushBounds[i] {
		i++
	}
	f.counts[i].Add(1)
	f.sum.Add(int64(d))
}

func (f *flushTimes) histogram() store.Histogram {
	h := store.Histogram{Bounds: flushBounds, Counts: make([]uint64, len(flushBounds)), Sum: time.Duration(f.sum.Load()).Seconds()}
	for i := range f.counts {
		h.Count += f.counts[i].Load()
		if i < len(h.Counts) {
			h.Counts[i] = h.Count
		}
	}
	return h
}

// timedFS measures the flushes of the files it opens.
type timedFS struct {
	disk.FS
	times *flushTimes
}

func (t timedFS) OpenFile(name string, mode disk.Mode) (disk.File, error) {
	f, err := t.FS.OpenFile(name, mode)
	if err != nil || !strings.HasSuffix(name, ".seg") {
		return f, err
	}
	return &timedFile{f, t.times}, nil
}

type timedFile struct {
	disk.File
	times *flushTimes
}

func (t *timedFile) Sync() error {
	start := time.Now()
	err := t.File.Sync()
	t.times.add(time.Since(start))
	return err
}
