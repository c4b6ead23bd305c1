package auth

import (
	"net/netip"
	"sync"
	"time"
)

// Failed logins slow their address down: the first by delayFirst, each further
// one by twice as much, up to the most the operator allows. Every delayDecay
// without one takes one back. Whoever else comes from that address with a
// password that is not known to be right yet waits as long, and no longer: a
// guesser behind the same router delays, but never locks out.
const (
	delayFirst = 250 * time.Millisecond
	delayDecay = 30 * time.Second
	// delayAddresses bounds the table. When it is full, who failed longest ago
	// among some makes room.
	delayAddresses = 10_000
	delaySome      = 16
)

type delays struct {
	most time.Duration // 0: nobody is slowed

	mu sync.Mutex
	by map[netip.Addr]failures
}

type failures struct {
	count int
	last  time.Time // when the count was right
	until time.Time // no attempt is looked at before
}

// due is how long an attempt has to wait.
func (d *delays) due(from netip.Addr) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	f, ok := d.by[Network(from)]
	if !ok {
		return 0
	}
	return min(max(0, time.Until(f.until)), d.most)
}

// fail notes a failed attempt and returns how long its refusal is held back.
func (d *delays) fail(from netip.Addr) time.Duration {
	if d.most <= 0 {
		return 0
	}
	from = Network(from)
	now := time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.by[from]
	f = f.after(now)
	f.count++
	delay := d.most
	if shift := f.count - 1; shift < 20 {
		delay = min(delayFirst<<shift, d.most)
	}
	f.until = now.Add(delay)
	if f.count == 1 {
		d.makeRoom()
	}
	d.by[from] = f
	return delay
}

// after is what time has left of it.
func (f failures) after(now time.Time) failures {
	if n := int(now.Sub(f.last) / delayDecay); n < f.count {
		f.count -= n
	} else {
		f.count = 0
	}
	f.last = now
	return f
}

func (d *delays) makeRoom() {
	if d.by == nil {
		d.by = make(map[netip.Addr]failures)
	}
	for len(d.by) >= delayAddresses {
		var oldest netip.Addr
		var since time.Time
		seen := 0
		for address, f := range d.by {
			if seen == 0 || f.last.Before(since) {
				oldest, since = address, f.last
			}
			if seen++; seen == delaySome {
				break
			}
		}
		delete(d.by, oldest)
	}
}

// Network is what one client can have many addresses of: with IPv6 a /64, else the address.
func Network(a netip.Addr) netip.Addr {
	if a = a.Unmap(); a.Is6() {
		if p, err := a.WithZone("").Prefix(64); err == nil {
			return p.Addr()
		}
	}
	return a
}

// sleep waits, unless gone is closed before.
func (u *Users) sleep(d time.Duration, gone <-chan struct{}) bool {
	if d <= 0 {
		return true
	}
	u.counters.Delayed.Add(1)
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-gone:
		u.counters.Gone.Add(1)
		return false
	}
}
