package mailbox

import "slices"

// Room is how many entries the member may be lent now: as many as its own consumer's credit leaves, and none
// while what it was lent before is not taken, or some of what waits for it is only on disk. At 0 its owner is told
// when that changes.
func (mb *Member) Room() int {
	m := mb.borrower
	m.mu.Lock()
	defer m.mu.Unlock()
	if mb.left {
		return 0
	}
	room := m.roomLocked()
	if room == 0 && !mb.waiting && !m.closed {
		mb.waiting = true
		m.waiters++
	}
	return room
}

func (m *Mailbox) roomLocked() int {
	if m.closed || len(m.consumers) == 0 || m.pagedLocked() {
		return 0
	}
	c := m.consumers[0]
	if c.UnsentMax > 0 && m.untakenBytes >= c.UnsentMax {
		return 0
	}
	if c.Credit == 0 {
		return lendMax
	}
	return max(0, c.Credit-len(m.flights)-int(min(m.ready, uint64(c.Credit))))
}

// pagedLocked: some of what is ready is only on disk. What was lent or moved, and not sent, is to be in memory, where it
// can be given back. So it is put neither behind a gap nor into one.
func (m *Mailbox) pagedLocked() bool {
	return slices.ContainsFunc(m.lanes, func(l *lane) bool { return l.gap.count > 0 })
}

// takeWaitersLocked lists the members to be told of room, if there is some.
func (m *Mailbox) takeWaitersLocked() []*Member {
	if m.waiters == 0 || m.roomLocked() == 0 {
		return nil
	}
	var told []*Member
	for _, mb := range m.members {
		if mb.waiting {
			mb.waiting = false
			told = append(told, mb)
		}
	}
	m.waiters = 0
	return told
}

func tellRoom(members []*Member) {
	for _, mb := range members {
		mb.owner.RoomCame()
	}
}
