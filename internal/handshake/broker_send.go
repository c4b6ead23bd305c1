package handshake

// pump sends what stands at the cursor: a PUBLISH, or the PUBREL of an entry released on an earlier connection.
func (m *model) pump(s *state) bool {
	attaching := s.lsnOf(func(o op) bool { return o.kind == opAttached }) > 0
	if s.sub.link != linkUp || s.sub.in.full() || attaching && !m.broken(SendBeforeAttached) {
		return false
	}
	mem := m.memory(s)
	seq := s.cursor
	for seq < mem.next && !mem.entry[seq].unsettled() {
		if mem.entry[seq].state == dropped && s.disk.entry[seq].state != dropped && !m.broken(GoneNotAwaited) {
			return false // a crash could bring it back, behind what would be sent now
		}
		seq++
	}
	if seq == mem.next || s.disk.entry[seq].msg == 0 && !m.broken(DeliverBeforeFlush) {
		return false
	}
	if mem.entry[seq].state == released {
		if s.disk.entry[seq].state != released && !m.broken(PubrelOnResumeBeforeFlush) {
			return false
		}
		s.sub.in.push(packet{kind: pPubrel, id: m.id(seq)})
		s.cursor = seq + 1
		return true
	}
	if !m.credit(s, &mem, seq) || !m.idFree(s, &mem, seq) {
		return false
	}
	dup := seq < s.high
	bit := uint8(1) << seq
	switch {
	case m.Lenient:
	case !dup && s.everSent&bit != 0:
		s.bad = badDupMissing
	case dup && (s.everSent|s.maybeSent)&bit == 0:
		s.bad = badDupWrong
	}
	s.everSent |= bit
	s.sub.in.push(packet{kind: pPublish, id: m.id(seq), msg: mem.entry[seq].msg - 1, dup: dup})
	s.cursor = seq + 1
	s.high = max(s.high, s.cursor)
	return true
}

// credit: a PUBLISH may go if it is among the first window entries not settled on disk. That is the mirror of what the
// start takes for sent after a crash.
func (m *model) credit(s *state, mem *durable, seq uint8) bool {
	below := uint8(0)
	for other := range seq {
		holds := s.disk.entry[other].unsettled()
		if m.broken(CreditFreeBeforeFlush) || mem.entry[other].state == dropped {
			holds = mem.entry[other].unsettled()
		}
		if holds {
			below++
		}
	}
	return below < s.window
}

// idFree looks at lower seqs only: after a crash a higher one may count as sent though it waits for this very id.
func (m *model) idFree(s *state, mem *durable, seq uint8) bool {
	if m.broken(IDNotAwaited) {
		return true
	}
	d := &s.disk
	if m.broken(IDFreeBeforeFlush) {
		d = mem
	}
	end := seq
	if m.broken(IDAwaitsHigher) {
		end = s.high
	}
	for other := range end {
		if other != seq && m.id(other) == m.id(seq) && d.entry[other].unsettled() {
			return false
		}
	}
	return true
}

// settle handles one packet of the subscriber; false: it has to wait for room.
func (m *model) settle(s *state, p packet, answers *fifo) bool {
	if s.npend == maxPending || answers.full() {
		return false
	}
	mem := m.memory(s)
	seq := uint8(0)
	for seq < s.cursor && !(mem.entry[seq].unsettled() && m.id(seq) == p.id) {
		seq++
	}
	known := seq < s.cursor // an id means what was sent on this connection
	rel := packet{kind: pPubrel, id: p.id}
	switch {
	case p.kind == pPubrec && !known && m.openAbove(s, &mem, p.id):
		// Ignored: a PUBREL now and the PUBLISH that is still to be resent would deliver twice.
	case p.kind == pPubrec && !known:
		answers.push(s.lsnOf(func(o op) bool { return o.kind == opSettle }), rel)
	case p.kind == pPubrec && mem.entry[seq].state == released && !m.broken(PubrecAgainAnswered):
		// Its PUBREL was sent on this connection or is on its way.
	case p.kind == pPubrec && mem.entry[seq].state == released:
		answers.push(s.lsnOf(func(o op) bool { return o.kind == opRelease && o.a == seq }), rel)
	case p.kind == pPubrec:
		answers.push(unless(m.broken(PubrelBeforeFlush), s.append(op{kind: opRelease, a: seq})), rel)
	case !known:
	case p.kind == pPubcomp && mem.entry[seq].state != released:
		if !m.Lenient {
			s.bad = badProtocol
		}
	default:
		s.append(op{kind: opSettle, a: seq})
	}
	return true
}

// expire settles the first queued entry; false: there is none, or no room.
func (m *model) expire(s *state) bool {
	if s.npend == maxPending {
		return false
	}
	mem := m.memory(s)
	for seq := s.high; seq < mem.next; seq++ {
		if mem.entry[seq].unsettled() {
			s.append(op{kind: opExpire, a: seq})
			return true
		}
	}
	return false
}

// openAbove: an unsettled entry with that id was sent on an earlier connection, perhaps, and not yet on this one.
func (m *model) openAbove(s *state, mem *durable, id uint8) bool {
	for seq := s.cursor; seq < s.high; seq++ {
		if mem.entry[seq].unsettled() && m.id(seq) == id {
			return !m.broken(EarlyPubrecAnswered)
		}
	}
	return false
}
