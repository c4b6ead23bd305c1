package auth

import (
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
)

// hashing checks passwords on as many goroutines as leave a processor to
// everything else. A storm of first logins then takes as long as it takes, and
// delays nobody but itself: of each address first come is first served, and the
// addresses take turns, so that a guesser with thousands of connections keeps
// nobody else waiting. There are no goroutines while nothing is to be checked.
type hashing struct {
	workersMax int

	mu      sync.Mutex
	queues  map[netip.Addr]*queue
	turns   []*queue // none is empty
	queued  int
	workers int
}

// queue are the checks of one address.
type queue struct {
	from   netip.Addr
	checks []*check
}

type check struct {
	verifier verifier
	password []byte
	given    atomic.Bool // up: nobody waits any more
	right    chan bool   // takes one value without anybody there
}

func newHashing() *hashing { return &hashing{workersMax: max(1, runtime.GOMAXPROCS(0)-1)} }

// check returns whether the password is right; done is false when gone was closed before.
func (h *hashing) check(from netip.Addr, v verifier, password []byte, gone <-chan struct{}) (right, done bool) {
	c := &check{verifier: v, password: password, right: make(chan bool, 1)}
	h.mu.Lock()
	h.addLocked(Network(from), c)
	if h.workers < h.workersMax {
		h.workers++
		go h.work()
	}
	h.mu.Unlock()
	select {
	case right = <-c.right:
		return right, true
	case <-gone:
		c.given.Store(true)
		return false, false
	}
}

func (h *hashing) addLocked(from netip.Addr, c *check) {
	q := h.queues[from]
	if q == nil {
		if h.queues == nil {
			h.queues = make(map[netip.Addr]*queue)
		}
		q = &queue{from: from}
		h.queues[from] = q
		h.turns = append(h.turns, q)
	}
	q.checks = append(q.checks, c)
	h.queued++
}

// nextLocked takes the check whose turn it is; nil: there is none.
func (h *hashing) nextLocked() *check {
	if len(h.turns) == 0 {
		h.queues, h.turns = nil, nil // grew by a storm
		return nil
	}
	q := h.turns[0]
	h.turns[0] = nil
	h.turns = h.turns[1:]
	c := q.checks[0]
	q.checks[0] = nil
	if q.checks = q.checks[1:]; len(q.checks) > 0 {
		h.turns = append(h.turns, q)
	} else {
		delete(h.queues, q.from)
	}
	h.queued--
	return c
}

func (h *hashing) work() {
	for {
		h.mu.Lock()
		c := h.nextLocked()
		if c == nil {
			h.workers--
			h.mu.Unlock()
			return
		}
		h.mu.Unlock()
		if !c.given.Load() {
			c.right <- c.verifier.check(c.password)
			runtime.Gosched() // whoever became ready on this processor meanwhile goes first
		}
	}
}

func (h *hashing) waiting() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.queued + h.workers
}
