package local_test

import (
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"emanet/internal/disk/powercut"
	"emanet/internal/disk/sqlitevfs"
	"emanet/internal/journal"
	"emanet/internal/store"
	"emanet/internal/store/local"
	"emanet/internal/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// small keeps a test's directory small and its folds frequent.
func small() local.Options {
	return local.Options{
		Journal:  journal.Options{SegmentBytes: 256 << 10, Segments: 8},
		WALBytes: 512 << 10, FoldEvery: 20 * time.Millisecond,
	}
}

// tiny makes the journal go round several times in a short test.
func tiny() local.Options {
	o := small()
	o.Journal.SegmentBytes, o.Journal.Segments = 64<<10, 4
	o.TinyPages()
	return o
}

// check closes the tests of every store: what is on disk must fit together.
func check(tb testing.TB, dir string, opt local.Options) {
	tb.Helper()
	r, err := local.Check(dir, opt)
	if err != nil {
		tb.Fatal(err)
	}
	for _, p := range r.Problems {
		tb.Errorf("check: %s", p)
	}
	if tb.Failed() {
		tb.FailNow()
	}
}

// onDisk is a subject in a directory of the operating system.
func onDisk(opt local.Options) storetest.Factory {
	return func(tb testing.TB) *storetest.Subject { return inDirectory(tb, opt) }
}

func inDirectory(tb testing.TB, opt local.Options) *storetest.Subject {
	dir := filepath.Join(tb.TempDir(), "data")
	var s *local.Store
	tb.Cleanup(func() {
		if s != nil {
			_ = s.Close()
		}
	})
	return &storetest.Subject{
		Open: func(tb testing.TB) store.Store {
			tb.Helper()
			var err error
			if s, err = local.Open(dir, opt); err != nil {
				tb.Fatal(err)
			}
			return s
		},
		Check: func(tb testing.TB) { tb.Helper(); check(tb, dir, opt) },
	}
}

// simulated is a store on a disk that can lose its power.
type simulated struct {
	fs   *powercut.FS
	opt  local.Options
	shm  string
	s    *local.Store
	free func()
}

var vfsNumber atomic.Int64

const simulatedDir = "/data"

func newSimulated(tb testing.TB, seed uint64, opt local.Options) *simulated {
	d := &simulated{fs: powercut.New(seed), shm: tb.TempDir(), opt: opt}
	d.plug()
	tb.Cleanup(func() {
		if d.s != nil {
			_ = d.s.Close()
		}
		d.free()
	})
	return d
}

// plug makes the disk as it is now known to SQLite.
func (d *simulated) plug() {
	d.opt.FS = d.fs
	d.opt.VFS = fmt.Sprintf("powercut-%d", vfsNumber.Add(1))
	d.free = sqlitevfs.Register(d.opt.VFS, d.fs, d.shm)
}

// end takes the disk over with how and lets the old store die.
func (d *simulated) end(how func() *powercut.FS) {
	d.fs = how()
	if d.s != nil {
		_ = d.s.Close()
		d.s = nil
	}
	d.free()
	d.plug()
}

func (d *simulated) open(tb testing.TB) *local.Store {
	tb.Helper()
	s, err := local.Open(simulatedDir, d.opt)
	if err != nil {
		tb.Fatalf("%v\n%s", err, d.fs.Tree())
	}
	d.s = s
	return s
}

func (d *simulated) subject(cutWithin func() int) *storetest.Subject {
	return &storetest.Subject{
		Open:    func(tb testing.TB) store.Store { tb.Helper(); return d.open(tb) },
		Check:   func(tb testing.TB) { tb.Helper(); check(tb, simulatedDir, d.opt) },
		Kill:    func(testing.TB) { d.end(d.fs.Kill) },
		Cut:     func(testing.TB) { d.end(d.fs.Cut) },
		CutSoon: func() { d.fs.CutAfter(cutWithin()) },
	}
}

func TestTheEmbeddedStoreOnTheOperatingSystem(t *testing.T) {
	t.Parallel()
	storetest.Run(t, onDisk(small()))
}

func TestTheEmbeddedStoreWithPagesOfAFewEntries(t *testing.T) {
	t.Parallel()
	opt := small()
	opt.TinyPages()
	storetest.Run(t, onDisk(opt))
}

func TestTheEmbeddedStoreOnADiskThatCanLosePower(t *testing.T) {
	t.Parallel()
	seed := storetest.Seed(t)
	storetest.Run(t, func(tb testing.TB) *storetest.Subject {
		return newSimulated(tb, seed, small()).subject(func() int { return 1 })
	})
}
