package mailbox

import (
	"sync"
	"sync/atomic"

	"emanet/internal/store"
)

// fakeHost has a clock that the test moves and notes what it is told.
type fakeHost struct {
	clock   atomic.Int64
	dead    func(b *store.Batch, e *store.Entry, r Reason)
	mu      sync.Mutex
	sweepAt int64 // earliest wish since the last sweep, 0 for none
	wishes  int
	dropped [Reasons]uint64
	errs    []error
}

func (h *fakeHost) Now() int64 { return h.clock.Load() }

func (h *fakeHost) SweepAt(_ *Mailbox, at int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wishes++
	if h.sweepAt == 0 || at < h.sweepAt {
		h.sweepAt = at
	}
}

func (h *fakeHost) Dropped(_ *Mailbox, r Reason, n uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dropped[r] += n
}

func (h *fakeHost) DeadLetter(b *store.Batch, _ *Mailbox, e *store.Entry, r Reason) { h.dead(b, e, r) }

func (h *fakeHost) LoadFailed(_ *Mailbox, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.errs = append(h.errs, err)
}

func (h *fakeHost) wish() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sweepAt
}

func (h *fakeHost) drops(r Reason) uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.dropped[r]
}
