package journal

// A Waiter is told when a group is flushed. One Waiter belongs to one journal; it may be
// registered again at any time.
type Waiter struct {
	// F gets the LSN up to which everything is flushed. It must not block: the next group's
	// news waits for it. Calls come one at a time, in order of LSN.
	F func(flushed LSN)
	// Alone, if set, is called instead when nobody else waits for the group. It must not block either, but may
	// spend a system call: for a lone publisher that is sooner than another goroutine could.
	Alone func(flushed LSN)

	group uint64 // latest group it was registered with, so that it is there only once
}

// notice is what a flushed group has to tell.
type notice struct {
	waiters []*Waiter
	flushed LSN
	alone   bool // nothing has gathered meanwhile
	room    *RoomWaiter
}

// Notify registers w with the group being built: between Begin and Commit (or Abort). However
// often w is registered with one group, it is called once.
func (j *Journal) Notify(w *Waiter) { register(j.gather, w) }

func register(g *group, w *Waiter) {
	if w.group == g.number {
		return
	}
	w.group = g.number
	g.waiters = append(g.waiters, w)
}

// NotifyTail registers w with whatever was appended last, for an answer that rests on
// another's record. false: all of it is flushed already, and w is not called. Not between
// Begin and Commit: Notify is for that.
func (j *Journal) NotifyTail(w *Waiter) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.flushed.Load() == j.appended.Load():
		return false
	case len(j.gather.parts) > 0:
		register(j.gather, w)
	default:
		register(j.flight, w)
	}
	return true
}

// announce tells a group's waiters. When nothing else is waiting the committer does it
// itself, the fewest goroutine switches for the lone publisher; else the notifier does, and
// the next write starts at once.
func (j *Journal) announce(n notice) {
	if n.alone && j.pending.Load() == 0 {
		j.deliver(n)
		return
	}
	j.pending.Add(1)
	j.notices <- n
}

// notify is the notifier.
func (j *Journal) notify() {
	defer close(j.notified)
	for n := range j.notices {
		j.deliver(n)
		j.pending.Add(-1)
	}
}

func (j *Journal) deliver(n notice) {
	if len(n.waiters) == 1 && n.waiters[0].Alone != nil {
		n.waiters[0].Alone(n.flushed)
	} else {
		for _, w := range n.waiters {
			w.F(n.flushed)
		}
	}
	tell(n.room)
	if n.waiters == nil {
		return
	}
	clear(n.waiters)
	j.mu.Lock()
	j.lists = append(j.lists, n.waiters[:0])
	j.mu.Unlock()
}
