package broker

import (
	"container/heap"
	"sync"
	"time"
)

// deadline is something to be done at a time of the broker's clock: a session expires, a will is due, a
// mailbox sheds its head. It belongs to one deadlines and is set and cleared any number of times.
type deadline struct {
	run   func() // on the goroutine of deadlines, no locks held
	at    int64  // Unix ms
	index int    // in the heap, plus 1; 0: not set
}

// deadlines runs them in order on one goroutine: one timer for the whole broker.
type deadlines struct {
	now  func() int64
	mu   sync.Mutex
	heap deadlineHeap
	kick chan struct{} // capacity 1: the front has changed
	stop chan struct{}
	done chan struct{}
}

func newDeadlines(now func() int64) *deadlines {
	return &deadlines{now: now, kick: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{})}
}

// set gives d a new time.
func (s *deadlines) set(d *deadline, at int64) { s.change(d, at, false) }

// setEarlier is set unless d is due before at already.
func (s *deadlines) setEarlier(d *deadline, at int64) { s.change(d, at, true) }

func (s *deadlines) change(d *deadline, at int64, onlyEarlier bool) {
	s.mu.Lock()
	if onlyEarlier && d.index != 0 && d.at <= at {
		s.mu.Unlock()
		return
	}
	d.at = at
	if d.index == 0 {
		heap.Push(&s.heap, d)
	} else {
		heap.Fix(&s.heap, d.index-1)
	}
	front := s.heap[0] == d
	s.mu.Unlock()
	if front {
		select {
		case s.kick <- struct{}{}:
		default:
		}
	}
}

// clear forgets d. It may be running right now.
func (s *deadlines) clear(d *deadline) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d.index != 0 {
		heap.Remove(&s.heap, d.index-1)
	}
}

func (s *deadlines) loop() {
	defer close(s.done)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		d, wait := s.due()
		if d != nil {
			d.run()
			continue
		}
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-s.kick:
		case <-s.stop:
			return
		}
	}
}

// due takes the first deadline if its time has come, else says how long to wait.
func (s *deadlines) due() (*deadline, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.heap) == 0 {
		return nil, time.Hour
	}
	left := s.heap[0].at - s.now()
	if left > 0 {
		// An hour at most: far deadlines must not overflow a Duration.
		return nil, min(time.Duration(min(left, 3_600_000))*time.Millisecond, time.Hour)
	}
	return heap.Pop(&s.heap).(*deadline), 0
}

func (s *deadlines) close() {
	close(s.stop)
	<-s.done
}

type deadlineHeap []*deadline

func (h deadlineHeap) Len() int           { return len(h) }
func (h deadlineHeap) Less(i, j int) bool { return h[i].at < h[j].at }
func (h deadlineHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i+1, j+1
}
func (h *deadlineHeap) Push(x any) {
	d := x.(*deadline)
	*h = append(*h, d)
	d.index = len(*h)
}
func (h *deadlineHeap) Pop() any {
	old := *h
	d := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	d.index = 0
	return d
}
