package handshake

type model struct{ Scenario }

func (m *model) broken(r Rule) bool { return m.Broken&r != 0 }

func (m *model) id(seq uint8) uint8 { return seq%m.Modulus + 1 }

// flush puts the oldest pending batch on disk.
func (m *model) flush(s *state) {
	o := s.pend[0]
	s.disk.apply(o, m.Broken)
	copy(s.pend[:], s.pend[1:])
	s.npend--
	s.pend[maxPending-1] = op{}
	s.pub.answers.flushed()
	s.sub.answers.flushed()
	m.landed(s, o)
}

// landed notes that a message of a publisher outside the model is acknowledged.
func (m *model) landed(s *state, o op) {
	if m.Direct && o.kind == opPublish {
		s.acked |= 1 << o.a
		s.pub.message[o.a].phase = done
	}
}

// crash keeps the first k pending batches, loses the rest and all of memory, and starts again.
func (m *model) crash(s *state, k uint8) {
	for i := range s.npend {
		if i < k {
			s.disk.apply(s.pend[i], m.Broken)
			m.landed(s, s.pend[i])
		} else if m.Direct && s.pend[i].kind == opPublish {
			s.pub.message[s.pend[i].a].phase = done // lost, and nobody was told otherwise
		}
	}
	s.pend, s.npend = [maxPending]op{}, 0
	s.crashes++
	s.pub.cut()
	s.sub.cut()
	m.start(s)
}

// start finds out what may have been sent and records the session as detached.
func (m *model) start(s *state) {
	d := &s.disk
	if m.broken(NextSeqLost) {
		m.loseNextSeq(s)
	}
	window, inWindow := uint8(0), uint8(0)
	for seq := range d.next {
		if d.entry[seq].unsettled() && window < d.window {
			window++
			inWindow = seq + 1
			if d.wasAttached {
				s.maybeSent |= 1 << seq
			}
		}
	}
	d.wasAttached = false
	s.cursor, s.window, s.high = 0, 0, d.high
	if d.attached {
		if !m.broken(AttachedIgnored) {
			s.high = max(s.high, inWindow)
		}
		if !m.broken(StartWithoutDetach) {
			s.append(op{kind: opDetached, a: s.high})
		}
	}
	if m.broken(DupForgotten) {
		s.high = 0
	}
}

func (m *model) loseNextSeq(s *state) {
	d := &s.disk
	for seq := range d.next {
		if d.entry[seq].unsettled() {
			return
		}
	}
	d.entry, d.next, s.everSent, s.maybeSent = [maxSeqs]entry{}, 0, 0, 0
}

// attach is CONNECT of the subscriber, over an existing connection or not.
func (m *model) attach(s *state) bool {
	if s.npend == maxPending {
		return false
	}
	if m.broken(StaleSubscriberConnection) {
		s.sub.stale = s.sub.out
	}
	s.window = m.Windows[s.connects]
	s.connects = (s.connects + 1) % uint8(len(m.Windows))
	s.cursor = 0
	s.append(op{kind: opAttached, a: s.high, b: s.window})
	s.sub.out, s.sub.in, s.sub.answers = wire{}, wire{}, fifo{}
	s.sub.link = linkUp
	if m.SubscriberRepeats {
		for id, msg := range s.sub.held {
			if msg != 0 {
				s.sub.out.push(packet{kind: pPubrec, id: uint8(id)})
			}
		}
	}
	return true
}

// detach is the end of the subscriber's connection, noticed by both ends.
func (m *model) detach(s *state) bool {
	if s.npend == maxPending {
		return false
	}
	o := op{kind: opDetached, a: s.high}
	if m.broken(DetachNotRecorded) {
		o.b = 1
	}
	s.append(o)
	s.sub.out, s.sub.in, s.sub.answers = wire{}, wire{}, fifo{}
	s.sub.link = linkDown
	s.cursor, s.window = 0, 0
	return true
}

// drain moves the answers that may go onto the wire. It runs after every step: an answer held back a little longer and
// lost in a crash looks to everyone like one that was sent and lost on the way.
func (m *model) drain(s *state) {
	drain(&s.pub.answers, &s.pub.in, m.broken(AnswersOvertake))
	drain(&s.sub.answers, &s.sub.in, m.broken(AnswersOvertake))
}

func drain(f *fifo, w *wire, overtake bool) {
	for i := uint8(0); i < f.n && !w.full(); {
		switch {
		case f.a[i].wait == 0:
			w.push(f.a[i].p)
			f.remove(i)
		case overtake:
			i++
		default:
			return
		}
	}
}
