package handshake

// receive handles one packet of the publisher; false: it has to wait for room.
func (m *model) receive(s *state, p packet, answers *fifo) bool {
	if s.npend+1 >= maxPending || answers.full() {
		return false
	}
	mem := m.memory(s)
	recorded := mem.received&(1<<p.id) != 0
	switch p.kind {
	case pPublish:
		if m.QoS[p.msg] == 1 {
			lsn := m.route(s, &mem, p.msg, 0)
			answers.push(unless(m.broken(PubackBeforeFlush), lsn), packet{kind: pPuback, id: p.id})
			return true
		}
		lsn := s.lsnOf(func(o op) bool {
			return o.kind == opPublish && o.b == p.id || o.kind == opReceived && o.a == p.id
		})
		if !recorded {
			lsn = m.routeOnce(s, &mem, p)
			lsn = unless(m.broken(PubrecBeforeFlush), lsn)
		} else {
			lsn = unless(m.broken(DuplicateBeforeOriginal), lsn)
		}
		answers.push(lsn, packet{kind: pPubrec, id: p.id})
	case pPubrel:
		lsn := uint8(0)
		if recorded {
			lsn = unless(m.broken(PubcompBeforeFlush), s.append(op{kind: opUnreceived, a: p.id}))
		} else if !m.broken(PubcompAgainBeforeFlush) {
			lsn = s.lsnOf(func(o op) bool { return o.kind == opUnreceived })
		}
		answers.push(lsn, packet{kind: pPubcomp, id: p.id})
	}
	return true
}

func unless(broken bool, lsn uint8) uint8 {
	if broken {
		return 0
	}
	return lsn
}

func (m *model) routeOnce(s *state, mem *durable, p packet) (lsn uint8) {
	switch {
	case m.broken(ReceivedAfterMessage):
		m.route(s, mem, p.msg, 0)
		return s.append(op{kind: opReceived, a: p.id})
	case m.broken(ReceivedBeforeMessage):
		s.append(op{kind: opReceived, a: p.id})
		return m.route(s, mem, p.msg, 0)
	}
	return m.route(s, mem, p.msg, p.id)
}

// route appends the message and its entry in one batch, with the packet id and with what the bound drops for it.
func (m *model) route(s *state, mem *durable, msg, id uint8) (lsn uint8) {
	queued, drop, rank := uint8(1), uint8(0), uint8(0)
	for seq := range mem.next {
		e := mem.entry[seq]
		if e.msg == msg+1 && m.QoS[msg] == 2 {
			s.bad = badRoutedTwice
		}
		if !e.unsettled() {
			continue
		}
		if m.mayDrop(s, seq, rank) {
			queued++
			if drop == 0 {
				drop = seq + 1
			}
		}
		rank++
	}
	if m.Bound == 0 || queued <= m.Bound {
		drop = 0
	}
	return s.append(op{kind: opPublish, a: msg, b: id, c: drop})
}

// mayDrop says whether the entry, the rank-th unsettled one, is queued only: never sent and not within the window.
func (m *model) mayDrop(s *state, seq, rank uint8) bool {
	inWindow := rank < s.window && !m.broken(WindowDropped)
	switch {
	case m.broken(InFlightDropped):
		return true
	case m.broken(RecoveredDropped):
		return seq >= s.cursor && !inWindow
	}
	return seq >= s.high && !inWindow
}
