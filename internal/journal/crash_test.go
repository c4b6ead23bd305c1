package journal

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"emanet/internal/disk"
	"emanet/internal/disk/powercut"
)

// The power is cut, or the process killed, at random moments of random appenders' work, of
// Start and of Release, several times in a row. Beside the journal runs a plain list of what
// was appended; what the next Open finds must be a whole first part of that list, at least up
// to the LSN that was reported as flushed.
//
// EMANET_TEST_POWERCUTS sets the number of rounds.
func TestNothingFlushedIsLostAndNothingIsInventedByPowerCutsAndKills(t *testing.T) {
	t.Parallel()
	rounds := 200
	if s := os.Getenv("EMANET_TEST_POWERCUTS"); s != "" {
		var err error
		if rounds, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	var total crashCounts
	for seed := range rounds {
		c := newCrash(t, uint64(seed))
		for range 6 {
			c.life()
		}
		total.add(c.counts)
	}
	t.Logf("%+v", total)
	if total.Started == 0 || total.CutInStart == 0 || total.Torn == 0 || total.Recycled == 0 || total.Acked == 0 {
		t.Fatalf("the rounds did not reach everything: %+v", total)
	}
}

// crashCounts says what the rounds met, so that a test which tests nothing is seen.
type crashCounts struct{ Started, CutInStart, Torn, Recycled, Acked, Kills, Cuts, FailedFlushes int }

func (c *crashCounts) add(o crashCounts) {
	c.Started += o.Started
	c.CutInStart += o.CutInStart
	c.Torn += o.Torn
	c.Recycled += o.Recycled
	c.Acked += o.Acked
	c.Kills += o.Kills
	c.Cuts += o.Cuts
	c.FailedFlushes += o.FailedFlushes
}

// crash is one disk through several lives.
type crash struct {
	t       *testing.T
	seed    uint64
	rng     *rand.Rand
	fs      *powercut.FS
	opt     Options
	list    []record // appended and, as far as known, on disk, above folded
	durable LSN      // reported as flushed
	folding sync.Mutex
	folded  LSN // released
	top     LSN // highest LSN ever given out
	counts  crashCounts
}

func newCrash(t *testing.T, seed uint64) *crash {
	c := &crash{t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 1)), fs: powercut.New(seed)}
	if err := errors.Join(c.fs.MkdirAll("/data"), c.fs.SyncDir("/")); err != nil {
		t.Fatal(err)
	}
	c.opt = Options{
		SegmentBytes: 4096 << c.rng.IntN(2),
		Segments:     4 + c.rng.IntN(3),
		UnflushedMax: 500 + c.rng.IntN(4000),
	}
	return c
}

func (c *crash) fatalf(format string, args ...any) {
	c.t.Helper()
	c.t.Fatalf("seed %d: %s\n%s", c.seed, fmt.Sprintf(format, args...), c.fs.Tree())
}

// life is one start of the process and its end.
func (c *crash) life() {
	c.t.Helper()
	o := c.opt
	o.FS = c.fs
	o.Segments += c.rng.IntN(3) // grows and shrinks
	o.Salvage = c.rng.IntN(2) == 0
	if c.rng.IntN(3) == 0 {
		c.fs.CutAfter(1 + c.rng.IntN(25)) // within Open, Start or the first appends
	}
	j, err := Open("/data/journal", o)
	if err != nil {
		c.powerEnded(err)
		c.counts.CutInStart++
		c.end()
		return
	}
	if len(j.Lost()) > 0 {
		c.fatalf("salvage of a disk without damage: %+v", j.Lost())
	}
	c.checkFound(j)
	if err := j.Start(c.folded); err != nil {
		c.powerEnded(err)
		c.counts.CutInStart++
		_ = j.Close()
		c.end()
		return
	}
	c.counts.Started++
	c.durable = max(c.durable, j.Flushed()) // Start has made it so
	if n := int32(1 + c.rng.IntN(60)); c.rng.IntN(4) == 0 {
		c.failFlushes(n)
	} else {
		c.fs.CutAfter(int(n))
	}
	c.work(j)
	c.durable = max(c.durable, j.Flushed())
	for _, r := range c.list {
		if r.lsn <= c.durable {
			c.counts.Acked++
		}
	}
	if err := j.Close(); err != nil {
		c.powerEnded(err)
	}
	c.end()
}

var errFlush = errors.New("flush fails")

// failFlushes lets the n-th flush from now fail. What becomes of it is for the next life to find
// out, perhaps in the page cache only.
func (c *crash) failFlushes(n int32) {
	var left atomic.Int32
	left.Store(n)
	c.fs.SetHook(func(op powercut.Op) error {
		if op.Kind == powercut.Sync && left.Add(-1) == 0 {
			return errFlush
		}
		return nil
	})
	c.counts.FailedFlushes++
}

func (c *crash) powerEnded(err error) {
	c.t.Helper()
	if !errors.Is(err, disk.ErrPowerLost) && !errors.Is(err, errFlush) || errors.Is(err, ErrCorrupt) {
		c.fatalf("%v", err)
	}
}

func (c *crash) end() {
	if c.rng.IntN(3) == 0 {
		c.fs = c.fs.Kill()
		c.counts.Kills++
		return
	}
	c.fs = c.fs.Cut()
	c.counts.Cuts++
}

// checkFound compares what is on the disk with the list, and forgets what is not.
func (c *crash) checkFound(j *Journal) {
	c.t.Helper()
	for len(c.list) > 0 && c.list[0].lsn <= c.folded {
		c.list = c.list[1:]
	}
	got, err := tryReadAll(j, c.folded)
	if err != nil {
		if errors.Is(err, disk.ErrPowerLost) {
			return
		}
		c.fatalf("read: %v", err)
	}
	if len(got) > len(c.list) {
		c.fatalf("%d records found, %d were appended: (%d, %.30q) is invented", len(got), len(c.list), got[len(c.list)].lsn, got[len(c.list)].payload)
	}
	for i := range got {
		if got[i] != c.list[i] {
			c.fatalf("record %d is (%d, %.30q), appended was (%d, %.30q)", i, got[i].lsn, got[i].payload, c.list[i].lsn, c.list[i].payload)
		}
	}
	if len(got) < len(c.list) {
		c.counts.Torn++
		if first := c.list[len(got)]; first.lsn <= c.durable {
			c.fatalf("record %d is missing, flushed was up to %d", first.lsn, c.durable)
		}
	}
	c.list = c.list[:len(got)]
}

// work appends and releases until the power ends.
func (c *crash) work(j *Journal) {
	var wg sync.WaitGroup
	for a := range 1 + c.rng.IntN(3) {
		rng := rand.New(rand.NewPCG(c.seed, uint64(a)+c.rng.Uint64()))
		wg.Go(func() {
			for n := 0; c.append(j, rng, fmt.Sprint(a, " ", n, " ")); n++ {
				if rng.IntN(4) == 0 {
					awaitFlushOrFailure(j)
				}
				if rng.IntN(6) == 0 {
					c.release(j, j.Flushed())
				}
			}
		})
	}
	wg.Wait()
}

func (c *crash) release(j *Journal, upTo LSN) {
	c.folding.Lock()
	defer c.folding.Unlock()
	before := j.Stats().SegmentsFree
	if j.Release(upTo) == nil && j.Stats().SegmentsFree > before {
		c.counts.Recycled++
	}
	// What the caller has folded does not come back, whatever became of the release.
	c.folded = max(c.folded, upTo)
}

// append answers false when the journal has failed. A refused record releases and tries again.
func (c *crash) append(j *Journal, rng *rand.Rand, name string) bool {
	class, size := Control, len(name)+rng.IntN(120)
	if rng.IntN(20) == 0 {
		size = len(name) + rng.IntN(j.MaxRecord()-len(name))
	}
	payload := name + strings.Repeat("x", size-len(name))
	for {
		buf, err := j.Begin(class, size)
		switch {
		case err == nil:
			lsn := j.NextLocked()
			if rng.IntN(10) == 0 {
				j.Abort()
				continue
			}
			if lsn <= c.top {
				c.t.Errorf("seed %d: LSN %d again, %d was given out before", c.seed, lsn, c.top)
			}
			c.top = lsn
			c.list = append(c.list, record{lsn, payload})
			j.Commit(append(buf, payload...))
			return true
		case errors.Is(err, ErrFull) || errors.Is(err, ErrBusy):
			if awaitFlushOrFailure(j) != nil {
				return false
			}
			c.release(j, j.Flushed())
		default:
			return false
		}
	}
}

// awaitFlushOrFailure waits until what is appended is flushed, or the journal has failed.
func awaitFlushOrFailure(j *Journal) error {
	done := make(chan struct{}, 1)
	if !j.NotifyTail(&Waiter{F: func(LSN) { done <- struct{}{} }}) {
		return nil
	}
	select {
	case <-done:
		return nil
	case <-j.done: // the committer has ended
		return ErrFailed
	}
}
