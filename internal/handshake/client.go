package handshake

// cut is the broker's end of the connection vanishing in a crash: what it had sent may still arrive.
func (p *publisher) cut() {
	p.out, p.stale, p.answers = wire{}, wire{}, fifo{}
	p.link = cutLink(p.link, p.in.n)
}

func (c *subscriber) cut() {
	c.out, c.stale, c.answers = wire{}, wire{}, fifo{}
	c.link = cutLink(c.link, c.in.n)
}

func cutLink(l link, underWay uint8) link {
	if l == linkDown || underWay == 0 {
		return linkDown
	}
	return linkDead
}

// publishNext sends the first message not sent yet under the smallest free packet id.
func (m *model) publishNext(s *state) bool {
	p := &s.pub
	next, taken := len(m.QoS), uint8(0)
	for i := range m.QoS {
		switch p.message[i].phase {
		case unsent:
			next = min(next, i)
		case published, releasing:
			taken |= 1 << p.message[i].id
		}
	}
	if next == len(m.QoS) {
		return false
	}
	if m.Direct {
		if s.npend == maxPending {
			return false
		}
		mem := m.memory(s)
		p.message[next].phase = published
		m.route(s, &mem, uint8(next), 0)
		return true
	}
	if p.link != linkUp || p.out.full() {
		return false
	}
	for id := uint8(1); id <= m.PublisherIDs; id++ {
		if taken&(1<<id) == 0 {
			p.message[next].phase, p.message[next].id = published, id
			p.out.push(packet{kind: pPublish, id: id, msg: uint8(next)})
			return true
		}
	}
	return false
}

// connectPublisher is a new connection, over an existing one or not: the publisher resends all that is open, in order.
// False: no room for the Session record.
func (m *model) connectPublisher(s *state) bool {
	p := &s.pub
	if s.npend == maxPending {
		return false
	}
	if m.broken(StalePublisherConnection) {
		p.stale = p.out
	}
	p.out, p.in, p.answers = wire{}, wire{}, fifo{}
	p.link = linkUp
	if m.PublisherRecorded {
		p.answers.push(s.append(op{kind: opConnect}), packet{kind: pConnack})
	}
	for i := range m.QoS {
		switch p.message[i].phase {
		case published:
			p.out.push(packet{kind: pPublish, id: p.message[i].id, msg: uint8(i), dup: true})
		case releasing:
			p.out.push(packet{kind: pPubrel, id: p.message[i].id})
		}
	}
	return true
}

// publisherReads takes the next packet from the broker; false: its answer has to wait for room.
func (m *model) publisherReads(s *state) bool {
	p := &s.pub
	if p.link == linkUp && p.out.full() {
		return false
	}
	in := p.in.pop()
	if in.kind == pConnack {
		return true
	}
	want := published
	if in.kind == pPubcomp {
		want = releasing
	}
	earlier := false
	for i := range m.QoS {
		msg := &p.message[i]
		if msg.phase != want || msg.id != in.id {
			earlier = earlier || msg.phase == published
			continue
		}
		if in.kind == pPubcomp {
			msg.phase, msg.id = done, 0
			return true
		}
		if earlier {
			s.bad = badAckOrder
		}
		s.acked |= 1 << i
		if in.kind == pPuback {
			msg.phase, msg.id = done, 0
			return true
		}
		msg.phase = releasing
		if p.link == linkUp {
			p.out.push(packet{kind: pPubrel, id: in.id})
		}
		return true
	}
	return true
}

// subscriberReads takes the next packet from the broker; false: its answer has to wait for room. What it keeps is kept
// through everything: it hands a message to its application and notes the packet id in one step.
func (m *model) subscriberReads(s *state) bool {
	c := &s.sub
	if c.link == linkUp && c.out.full() {
		return false
	}
	in := c.in.pop()
	var out packet
	switch {
	case in.kind == pPubrel:
		c.held[in.id] = 0
		out = packet{kind: pPubcomp, id: in.id}
	case m.QoS[in.msg] == 1:
		m.deliver(s, in.msg)
		out = packet{kind: pPuback, id: in.id}
	default:
		switch c.held[in.id] {
		case 0:
			if c.delivered&(1<<in.msg) != 0 {
				s.bad = badTwice
			}
			m.deliver(s, in.msg)
			c.held[in.id] = in.msg + 1
		case in.msg + 1:
		default:
			s.bad = badIDReused
		}
		out = packet{kind: pPubrec, id: in.id}
	}
	if c.link == linkUp {
		c.out.push(out)
	}
	return true
}

func (m *model) deliver(s *state, msg uint8) {
	bit := uint8(1) << msg
	if s.sub.delivered&bit == 0 && s.sub.delivered > bit {
		s.bad = badOrder
	}
	s.sub.delivered |= bit
}
