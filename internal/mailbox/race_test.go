package mailbox

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"emanet/internal/store"
)

// storm is a mailbox under everything at once.
type storm struct {
	*fixture
	mu      sync.Mutex
	settled map[uint64]int // how often each seq was settled by a consumer
	done    atomic.Bool    // nothing more is appended
}

func TestEverythingAtOnceLosesNothingAndDoublesNothing(t *testing.T) {
	for name, p := range map[string]Policy{"queue": queue, "session": {Durable: true, Identifiers: 50}} {
		t.Run(name, func(t *testing.T) { newStorm(t, p).run(scale(20_000)) })
	}
}

func newStorm(t *testing.T, p Policy) *storm {
	return &storm{fixture: setup(t, p), settled: map[uint64]int{}}
}

func (s *storm) run(n int) {
	var publishers, keepers, consumers sync.WaitGroup
	for range 2 {
		publishers.Go(func() {
			for range n / 2 {
				s.add(0)
			}
		})
	}
	stop := make(chan struct{})
	keeper := func(f func()) {
		keepers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					f()
				}
			}
		})
	}
	keeper(s.store.flush)
	keeper(func() { s.m.Evict(s.store.fold(), 0) })
	keeper(func() { s.sweep(); s.m.Status(); s.m.Sent(); s.m.Admit(nil, nil) })
	many := 3
	if s.policy.Identifiers > 0 {
		many = 1
	}
	for i := range many {
		consumers.Go(func() { s.consume(uint64(i), n) })
	}
	publishers.Wait()
	s.done.Store(true)
	consumers.Wait()
	close(stop)
	keepers.Wait()
	s.waitLoad()
	equal(s.t, "seqs settled", len(s.settled), n)
	for seq, times := range s.settled {
		if times != 1 || seq == 0 || seq > uint64(n) {
			s.t.Fatalf("seq %d was settled %d times", seq, times)
		}
	}
	s.expectEmpty()
}

// consume takes and settles until everything is, detaching now and then.
func (s *storm) consume(seed uint64, n int) {
	r := rand.New(rand.NewPCG(seed, 7))
	for !s.finished(n) {
		woken := make(chan struct{}, 1)
		c := &Consumer{Credit: 1 + r.IntN(40), UnsentMax: int64(r.IntN(2000))}
		c.Wake = func() {
			select {
			case woken <- struct{}{}:
			default:
			}
		}
		b, _ := s.store.Begin(store.Control, 0)
		s.m.Attach(b, c)
		b.Abort()
		s.m.Wake()
		for range r.IntN(200) {
			s.step(r, c)
			if s.finished(n) {
				break
			}
		}
		s.m.Detach(c)
		s.m.Wake()
	}
}

func (s *storm) step(r *rand.Rand, c *Consumer) {
	ds := s.m.Take(c, nil)
	if len(ds) == 0 {
		return
	}
	var settle, requeue []uint64
	for _, d := range ds {
		if r.IntN(8) == 0 {
			requeue = append(requeue, d.Key)
		} else {
			settle = append(settle, d.Key)
		}
	}
	b, _ := s.store.Begin(store.Control, len(ds)*store.SizeSettle)
	s.m.Requeue(b, c, requeue)
	got := s.m.Settle(b, c, settle)
	b.Commit()
	if got != len(settle) {
		s.t.Errorf("settled %d of %d", got, len(settle))
	}
	s.mu.Lock()
	for _, d := range ds {
		for _, k := range settle {
			if d.Key == k {
				s.settled[d.Seq]++
			}
		}
	}
	s.mu.Unlock()
	s.m.Wake()
}

func (s *storm) finished(n int) bool {
	if !s.done.Load() {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.settled) >= n
}
