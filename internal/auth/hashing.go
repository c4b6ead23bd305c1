package auth

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// hashing checks passwords, first come first served, on as many goroutines as
// leave a processor to everything else. A storm of first logins then takes as
// long as it takes, and delays nobody but itself. There are no goroutines while
// nothing is to be checked.
type hashing struct {
	workersMax int

	mu      sync.Mutex
	queue   []*check
	workers int
}

type check struct {
	verifier verifier
	password []byte
	given    atomic.Bool // up: nobody waits any more
	right    chan bool   // takes one value without anybody there
}

func newHashing() *hashing { return &hashing{workersMax: max(1, runtime.GOMAXPROCS(0)-1)} }

// check returns whether the password is right; done is false when gone was closed before.
func (h *hashing) check(v verifier, password []byte, gone <-chan struct{}) (right, done bool) {
	c := &check{verifier: v, password: password, right: make(chan bool, 1)}
	h.mu.Lock()
	h.queue = append(h.queue, c)
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

func (h *hashing) work() {
	for {
		h.mu.Lock()
		if len(h.queue) == 0 {
			h.queue = nil // grew by a storm
			h.workers--
			h.mu.Unlock()
			return
		}
		c := h.queue[0]
		h.queue[0] = nil
		h.queue = h.queue[1:]
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
	return len(h.queue) + h.workers
}
