package doctor

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"emanet/internal/disk"
)

const (
	flushFile  = 1 << 20 // bytes, preallocated as a segment of the journal is
	flushWrite = 4 << 10
	// fasterThanAnyDisk is less than the way to a disk and back takes.
	fasterThanAnyDisk = 20 * time.Microsecond
	slowMedian        = 20 * time.Millisecond
	slowTail          = 100 * time.Millisecond
)

// flush measures what every acknowledgement waits for: a write into a preallocated file, and its flush.
func flush(dir string, opt *Options) Finding {
	times, err := measure(dir, opt)
	if err != nil {
		return problem("flush", "use a disk that works", "%v", err)
	}
	return judge(times)
}

func judge(times []time.Duration) Finding {
	slices.Sort(times)
	median, tail := times[len(times)/2], times[len(times)*99/100]
	found := fmt.Sprintf("%v in the median, %v at the 99th percentile of %d; a lone publisher gets at most %.0f acknowledgements a second",
		round(median), round(tail), len(times), 1/median.Seconds())
	switch {
	case median < fasterThanAnyDisk:
		return warning("flush", "use a disk that flushes: acknowledged messages are lost with the power. On a virtual machine, its disk's cache "+
			"must not be one that ignores flushes (cache=unsafe)", "%s. No disk is that fast: the flush does not reach one", found)
	case median > slowMedian:
		return warning("flush", "use an SSD, best one with a capacitor; on a network disk, one with more operations a second", "%s: slow", found)
	case tail > slowTail:
		return warning("flush", "look for who else uses the disk", "%s: now and then slow", found)
	}
	return ok("flush", "%s", found)
}

func round(d time.Duration) time.Duration {
	if d > time.Millisecond {
		return d.Round(10 * time.Microsecond)
	}
	return d.Round(time.Microsecond)
}

func measure(dir string, opt *Options) (times []time.Duration, err error) {
	temp, err := os.CreateTemp(dir, tempName)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.Remove(temp.Name())) }()
	if err := temp.Close(); err != nil {
		return nil, err
	}
	f, err := disk.Preallocate(disk.OS(), temp.Name(), flushFile)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	block := make([]byte, flushWrite)
	began := time.Now()
	for i := 0; i < opt.Flushes && (i < 10 || time.Since(began) < opt.FlushTime); i++ {
		block[i%flushWrite]++ // something new each time
		start := time.Now()
		if _, err := f.WriteAt(block, int64(i)*flushWrite%flushFile); err != nil {
			return nil, err
		}
		if err := f.Sync(); err != nil {
			return nil, err
		}
		times = append(times, time.Since(start))
	}
	return times, nil
}
