package broker

// publisher is a client that keeps its session: it sends again, in order, what was not answered
// (as a client must, 4.4 and 4.6), and gives the lowest free packet id, so that ids come again soon.
type publisher struct {
	m        *model
	link     *server
	online   bool // CONNACK is there
	next     int  // message
	inFlight []*sending
	acked    map[int]bool
}

type sending struct {
	packet
	received bool // PUBREC came
}

func (p *publisher) connect() {
	p.link, p.online = p.m.accept("pub"), false
}

// publish sends the next message.
func (p *publisher) publish() {
	if !p.online || p.link.isOver() || p.next == p.m.messages || len(p.inFlight) >= 4 {
		return
	}
	id := uint16(1)
	for p.find(id) != nil {
		id++
	}
	s := &sending{packet: packet{kind: publish, id: id, qos: uint8(1 + p.m.rng.IntN(2)), number: p.next}}
	p.next++
	p.inFlight = append(p.inFlight, s)
	p.send(s.packet)
}

func (p *publisher) send(k packet) {
	p.m.logf("publisher sends %v", k)
	p.link.up = append(p.link.up, k)
}

func (p *publisher) find(id uint16) *sending {
	for _, s := range p.inFlight {
		if s.id == id {
			return s
		}
	}
	return nil
}

func (p *publisher) read() {
	if p.link.lost || len(p.link.down) == 0 {
		return
	}
	k := p.link.down[0]
	p.link.down = p.link.down[1:]
	if k.kind == connack {
		p.online = true
		for _, s := range p.inFlight {
			if s.received {
				p.send(packet{kind: pubrel, id: s.id})
			} else {
				again := s.packet
				again.dup = true
				p.send(again)
			}
		}
		return
	}
	s := p.find(k.id)
	if s == nil {
		return
	}
	switch k.kind {
	case puback:
		p.checkOrder(s, 1)
		p.acked[s.number] = true
		p.forget(s)
	case pubrec:
		if !s.received {
			p.checkOrder(s, 2)
		}
		p.acked[s.number], s.received = true, true
		p.send(packet{kind: pubrel, id: s.id})
	case pubcomp:
		p.forget(s)
	}
}

// checkOrder: nothing of this QoS that was sent earlier still waits for its answer (4.6).
func (p *publisher) checkOrder(s *sending, qos uint8) {
	for _, before := range p.inFlight {
		if before == s {
			return
		}
		if before.qos == qos && !before.received {
			p.m.f.Fatalf("message %d is answered before message %d", s.number, before.number)
		}
	}
}

func (p *publisher) forget(s *sending) {
	for i := range p.inFlight {
		if p.inFlight[i] == s {
			p.inFlight = append(p.inFlight[:i:i], p.inFlight[i+1:]...)
			return
		}
	}
}

// reader is a client that keeps its session and dedupes QoS 2 by packet id alone (4.3.3).
type reader struct {
	m      *model
	link   *server
	online bool
	held   []uint16    // QoS 2 ids between PUBLISH and PUBREL, in order
	got    map[int]int // message -> how often delivered
	order  []int       // first deliveries
	eager  bool        // it repeats PUBREC for all it holds on CONNECT, as some clients do
}

func (r *reader) connect() {
	r.link, r.online = r.m.accept("sub"), false
}

func (r *reader) holds(id uint16) int {
	for i := range r.held {
		if r.held[i] == id {
			return i
		}
	}
	return -1
}

func (r *reader) deliver(number int) {
	if r.got[number] == 0 {
		r.order = append(r.order, number)
	}
	r.got[number]++
}

func (r *reader) send(k packet) {
	r.m.logf("subscriber sends %v", k)
	r.link.up = append(r.link.up, k)
}

func (r *reader) read() {
	if r.link.lost || len(r.link.down) == 0 {
		return
	}
	k := r.link.down[0]
	r.link.down = r.link.down[1:]
	switch k.kind {
	case connack:
		r.online = true
		if r.eager {
			for _, id := range r.held {
				r.send(packet{kind: pubrec, id: id})
			}
		}
	case publish:
		if k.qos == 1 {
			r.deliver(k.number)
			r.send(packet{kind: puback, id: k.id})
			return
		}
		if r.holds(k.id) < 0 {
			r.held = append(r.held, k.id)
			r.deliver(k.number)
			if r.got[k.number] > 1 {
				r.m.f.Fatalf("message %d at QoS 2 is delivered twice", k.number)
			}
		}
		r.send(packet{kind: pubrec, id: k.id})
	case pubrel:
		i := r.holds(k.id)
		if i >= 0 {
			r.held = append(r.held[:i:i], r.held[i+1:]...)
		}
		r.send(packet{kind: pubcomp, id: k.id, unknown: i < 0})
	}
}
