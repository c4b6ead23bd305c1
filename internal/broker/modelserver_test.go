package broker

import (
	"errors"
	"fmt"

	"emanet/internal/mailbox"
	"emanet/internal/message"
	"emanet/internal/store"
)

// kind of a packet of the protocol model.
type kind string

const (
	connack kind = "CONNACK"
	publish kind = "PUBLISH"
	puback  kind = "PUBACK"
	pubrec  kind = "PUBREC"
	pubrel  kind = "PUBREL"
	pubcomp kind = "PUBCOMP"
)

type packet struct {
	kind    kind
	id      uint16
	qos     uint8
	dup     bool
	number  int    // of the message
	seq     uint64 // of the entry, for the checks
	unknown bool   // reason code 0x92
}

func (p packet) String() string {
	s := fmt.Sprint(p.kind, " ", p.id)
	if p.kind == publish {
		s += fmt.Sprintf(" message %d QoS %d seq %d", p.number, p.qos, p.seq)
	}
	if p.dup {
		s += " DUP"
	}
	return s
}

// server is the server's end of one connection. It uses its Client as package mqttserver does, but a step
// at a time.
type server struct {
	m        *model
	name     string
	client   *Client
	up, down []packet // on their way to the server and from it
	answers  []serverAnswer
	settled  []uint64
	greeted  bool
	dead     bool // the server has given it up
	lost     bool // the client has
}

type serverAnswer struct {
	lsn store.LSN
	packet
}

func (s *server) Live(*message.Message, uint8, string) bool {
	panic("nothing here is sent at QoS 0")
}
func (s *server) Pace()             {}
func (s *server) TakenOver()        {}
func (s *server) Wake()             {}
func (s *server) Flushed(store.LSN) {}

func (s *server) FlushedAlone(lsn store.LSN) { s.Flushed(lsn) }

func (m *model) accept(name string) *server {
	s := &server{m: m, name: name}
	a, err := m.f.Attach(Connect{ClientID: name, Expiry: Never, Window: 1 + m.rng.IntN(m.windowMax), Receiver: s})
	if err != nil {
		m.tolerate(err)
		s.dead = true
		return s
	}
	s.client = a.Client
	if name == "sub" {
		m.away = 0
	}
	if !a.Present {
		m.f.Fatalf("%s: the session was not there", name)
	}
	s.answer(a.LSN, packet{kind: connack})
	return s
}

// isOver: one of the two ends has given the connection up.
func (s *server) isOver() bool { return s.dead || s.lost }

// tolerate fails the test for an error that a broker may not have here.
func (m *model) tolerate(err error) {
	if isNoRoom(err) || errors.Is(err, ErrGone) || errors.Is(err, store.ErrFailed) {
		return
	}
	m.f.Fatalf("%v", err)
}

func (s *server) answer(lsn store.LSN, p packet) {
	s.answers = append(s.answers, serverAnswer{lsn, p})
}

// read handles the next packet from the client.
func (s *server) read() {
	if s.dead || len(s.up) == 0 {
		return
	}
	p := s.up[0]
	err := s.handle(p)
	if isNoRoom(err) {
		return // held until there is room
	}
	s.up = s.up[1:]
	if err != nil {
		s.m.tolerate(err)
		s.dead = true
	}
}

func (s *server) handle(p packet) error {
	s.m.logf("%s's server reads %v", s.name, p)
	switch p.kind {
	case publish:
		return s.handlePublish(p)
	case puback:
		key := uint64(p.id) - 1
		e, ok := s.client.InFlight(key)
		if !ok {
			return nil
		}
		if e.Attr&AttrQoS != 1 {
			s.m.f.Fatalf("PUBACK for QoS %d, seq %d", e.Attr&AttrQoS, e.Seq)
		}
		s.settled = append(s.settled, key)
		return nil
	case pubrec:
		return s.handlePubrec(p)
	case pubrel:
		lsn, known, err := s.client.Unreceive(p.id)
		if err == nil {
			s.answer(lsn, packet{kind: pubcomp, id: p.id, unknown: !known})
		}
		return err
	case pubcomp:
		key := uint64(p.id) - 1
		if e, ok := s.client.InFlight(key); ok && e.Released {
			s.settled = append(s.settled, key)
		}
		return nil
	}
	panic("no such packet from a client")
}

func (s *server) handlePublish(p packet) error {
	m := &message.Message{Payload: []byte(fmt.Sprint(p.number)), QoS: p.qos, ReceivedAt: s.m.f.Now()}
	var id uint16
	answer := packet{kind: puback, id: p.id}
	if p.qos == 2 {
		id, answer.kind = p.id, pubrec
	}
	out, err := s.client.Publish([]byte("a"), m, id)
	if err != nil {
		return err
	}
	s.answer(out.LSN, answer)
	return nil
}

func (s *server) handlePubrec(p packet) error {
	if err := s.settle(); err != nil {
		return err
	}
	key := uint64(p.id) - 1
	e, ok := s.client.InFlight(key)
	switch {
	case !ok:
		s.unknown(p.id)
		return nil
	case e.Attr&AttrQoS != 2:
		s.m.f.Fatalf("PUBREC for QoS %d, seq %d", e.Attr&AttrQoS, e.Seq)
	case e.Released:
		return nil
	}
	lsn, ok, err := s.client.Release(key)
	switch {
	case err != nil:
		return err
	case !ok:
		s.unknown(p.id)
	default:
		s.answer(lsn, packet{kind: pubrel, id: p.id})
	}
	return nil
}

func (s *server) unknown(id uint16) {
	if !s.client.Unsure() {
		s.answer(s.client.SettledLSN(), packet{kind: pubrel, id: id, unknown: true})
	}
}

func (s *server) settle() error {
	keys := s.settled
	s.settled = nil
	return s.client.Settle(keys)
}

// write sends what may leave now: answers in their turn, then deliveries.
func (s *server) write() {
	if s.dead {
		return
	}
	if err := s.settle(); err != nil {
		s.m.tolerate(err)
		s.dead = true
		return
	}
	flushed := s.m.f.Flushed()
	for len(s.answers) > 0 && s.answers[0].lsn <= flushed {
		s.greeted = s.greeted || s.answers[0].kind == connack
		s.send(s.answers[0].packet)
		s.answers = s.answers[1:]
	}
	if !s.greeted {
		return
	}
	for _, d := range s.client.Take(nil) {
		s.send(s.delivery(&d))
	}
}

func (s *server) delivery(d *mailbox.Delivery) packet {
	p := packet{kind: pubrel, id: uint16(d.Key) + 1, seq: d.Seq}
	if !d.Released {
		p.kind, p.qos, p.dup = publish, d.Attr&AttrQoS, d.Redelivered
		if _, err := fmt.Sscan(string(d.Message.Payload), &p.number); err != nil {
			s.m.f.Fatalf("%q: %v", d.Message.Payload, err)
		}
		s.m.checkSend(p)
	}
	return p
}

func (s *server) send(p packet) {
	s.m.logf("%s's server sends %v", s.name, p)
	s.down = append(s.down, p)
}

// end is the server's noticing that the connection is gone.
func (s *server) end() {
	s.dead = true
	if s.client == nil {
		return
	}
	if err := s.settle(); err != nil {
		s.m.tolerate(err)
	}
	s.client.Detach(Goodbye{})
	if s.name == "sub" && !s.client.displaced.Load() {
		s.m.away = s.m.f.store.Appended()
	}
}
