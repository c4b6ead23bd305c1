package broker

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"emanet/internal/journal"
	"emanet/internal/mailbox"
	"emanet/internal/message"
	"emanet/internal/store"
)

// TestASharedSubscriptionLosesNothingAndDoublesNoQoS2 has members of every kind come and go, take, acknowledge or
// not, unsubscribe, be taken over and begin anew, between kills, power cuts and restarts, while messages come at QoS 1 and
// 2. What was acknowledged is delivered to some member; at QoS 2 no two deliveries are made of it. What may be
// lost is what a crash found on its way, at QoS 2, to a member that then comes without its session.
//
// EMANET_SOAK_ROUNDS, EMANET_SEED and EMANET_STEPS are as for the handshakes.
func TestASharedSubscriptionLosesNothingAndDoublesNoQoS2(t *testing.T) {
	t.Parallel()
	rounds := int(number("EMANET_SOAK_ROUNDS", 24))
	seed := number("EMANET_SEED", uint64(time.Now().UnixNano())%1_000_000)
	t.Logf("EMANET_SEED=%d", seed)
	for i := range rounds {
		runSharedModel(t, seed+uint64(i))
		if t.Failed() {
			return
		}
	}
}

const sharedFilter = "$share/g/a"

type sharedModel struct {
	f         *fixture
	rng       *rand.Rand
	pub       *conn
	members   []*sharer
	published int
	waiting   map[int]store.LSN // message -> what its acknowledgement waits for
	acked     map[int]bool
	qos       map[int]uint8
	got       map[int]int // deliveries, by whichever member, after its client has removed doubles
	gotTwo    map[int]int // of those at QoS 2
	risk      int         // QoS 2 messages that crashes may have taken
	faithful  bool        // all members at QoS 2 keep their sessions: no risk
	log       []string
}

// sharer is a member: a client that dedupes QoS 2 by packet id alone.
type sharer struct {
	m          *sharedModel
	name       string
	persistent bool
	stays      bool // never leaves the group
	qos        uint8
	window     int
	c          *conn
	joined     bool
	held       map[uint64]int // QoS 2, key -> message, between PUBLISH and PUBREL
	open       []mailbox.Delivery
}

func runSharedModel(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 11))
	opt := Options{identifiers: []uint64{0, 0, 7, 11}[rng.IntN(4)], UnsentMax: []int64{0, 300}[rng.IntN(2)]}
	if rng.IntN(3) == 0 {
		opt.MemoryBudget = 1
	}
	m := &sharedModel{
		rng: rng, waiting: map[int]store.LSN{}, acked: map[int]bool{}, qos: map[int]uint8{},
		got: map[int]int{}, gotTwo: map[int]int{},
	}
	m.faithful = rng.IntN(2) == 0
	m.f = setupOn(t, opt, seed, journal.Options{SegmentBytes: 64 << 10, Segments: 6})
	defer func() {
		if t.Failed() {
			t.Logf("seed %d, the last steps:", seed)
			for _, line := range m.log[max(0, len(m.log)-int(number("EMANET_STEPS", 60))):] {
				t.Log(line)
			}
		}
		m.f.stop()
	}()
	for i := range 2 + rng.IntN(3) {
		s := &sharer{m: m, name: fmt.Sprint("member", i), stays: i == 0, held: map[uint64]int{}}
		s.persistent, s.qos, s.window = i == 0 || rng.IntN(2) == 0, uint8(1+rng.IntN(2)), 1+rng.IntN(6)
		s.persistent = s.persistent || m.faithful && s.qos == 2
		m.members = append(m.members, s)
		s.connect(false)
	}
	m.pub = m.f.connect("pub")
	for range 1200 {
		m.step()
	}
	m.finish()
}

func (m *sharedModel) logf(format string, args ...any) {
	m.log = append(m.log, fmt.Sprintf(format, args...))
}

func (m *sharedModel) step() {
	s := m.members[m.rng.IntN(len(m.members))]
	switch n := m.rng.IntN(1000); {
	case n < 4:
		m.crash()
	case n < 7:
		m.restart()
	case n < 260:
		m.publish()
	case n < 560:
		s.take()
	case n < 880:
		s.answer()
	case n < 920:
		s.leave()
	case n < 970:
		s.connect(m.rng.IntN(4) == 0)
	case n < 980:
		s.unsubscribe()
	case n < 990:
		s.subscribe()
	default:
		m.f.settled()
	}
	m.note()
}

func (m *sharedModel) publish() {
	if m.published == 400 {
		return
	}
	number := m.published
	qos := uint8(1 + m.rng.IntN(2))
	msg := &message.Message{Payload: []byte(fmt.Sprint(number)), QoS: qos, ReceivedAt: m.f.Now()}
	out, err := m.pub.Publish([]byte("a"), msg, uint16(number+1)*uint16(qos/2))
	if err != nil {
		return // no room
	}
	m.pub.Flush()
	m.published++
	if qos == 2 {
		_, _, _ = m.pub.Unreceive(uint16(number + 1))
	}
	m.qos[number], m.waiting[number] = qos, out.LSN
	m.logf("published %d at QoS %d", number, qos)
}

// note acknowledges what is on disk.
func (m *sharedModel) note() {
	flushed := m.f.Flushed()
	for number, lsn := range m.waiting {
		if lsn <= flushed {
			m.acked[number] = true
			delete(m.waiting, number)
		}
	}
}

func (m *sharedModel) crash() {
	how := kill
	if m.rng.IntN(2) == 0 {
		how = cut
	}
	m.note()
	m.logf("CRASH")
	m.f.crash(how)
	m.begin(func(s *sharer) bool { return true })
}

// restart is an end in good order. Of a member without a persistent session nothing is lost.
func (m *sharedModel) restart() {
	m.logf("RESTART")
	m.f.stop()
	m.f.open()
	for number, lsn := range m.waiting {
		m.acked[number] = m.acked[number] || lsn <= m.f.lastFlushed
	}
	m.begin(func(s *sharer) bool { return s.persistent })
}

// begin begins a life. risks tells of a member whether it may have had something on its way to it.
func (m *sharedModel) begin(risks func(*sharer) bool) {
	m.waiting = map[int]store.LSN{}
	m.pub = m.f.connect("pub")
	for _, s := range m.members {
		if s.qos == 2 && !s.stays && !(s.persistent && m.faithful) && risks(s) { // it may come back without its session
			m.risk += s.window
		}
		s.lost()
	}
}

// lost: the connection is gone. A session that ends with it leaves nothing with its client.
func (s *sharer) lost() {
	s.c, s.open = nil, nil
	if !s.persistent {
		s.joined = false
		clear(s.held)
	}
}

func (s *sharer) connect(anew bool) {
	if !s.persistent {
		anew = true
	}
	if s.stays || s.persistent && s.m.faithful {
		anew = false
	}
	s.m.logf("%s connects, anew %v", s.name, anew)
	edit := func(w *Connect) {
		w.Window = s.window
		w.CleanStart = anew
		if !s.persistent {
			w.Expiry = 0
		}
	}
	s.lost()
	c, err := s.m.f.tryConnect(s.name, edit)
	if err != nil {
		return
	}
	s.m.f.flushed(c.lsn)
	s.c = c
	if !c.present {
		clear(s.held)
		s.joined = false
	}
	s.subscribe()
}

func (s *sharer) subscribe() {
	if s.c == nil || s.joined {
		return
	}
	s.m.logf("%s subscribes at QoS %d", s.name, s.qos)
	if _, _, err := s.c.Subscribe([]Subscription{to(sharedFilter, s.qos)}); err == nil {
		s.joined = true
	}
}

func (s *sharer) unsubscribe() {
	if s.c == nil || s.stays || !s.joined {
		return
	}
	s.m.logf("%s unsubscribes", s.name)
	if _, _, err := s.c.Unsubscribe([]string{sharedFilter}); err == nil {
		s.joined = false
	}
}

func (s *sharer) leave() {
	if s.c == nil {
		return
	}
	s.m.logf("%s leaves", s.name)
	s.c.fail()
	s.lost()
}

func (s *sharer) take() {
	if s.c == nil {
		return
	}
	for _, d := range s.c.take() {
		s.open = append(s.open, d)
		if d.Released {
			s.m.logf("%s gets PUBREL %d", s.name, d.Key)
			continue
		}
		var number int
		_, _ = fmt.Sscan(string(d.Message.Payload), &number)
		s.m.logf("%s gets %d at QoS %d, key %d, again %v", s.name, number, d.Attr&AttrQoS, d.Key, d.Redelivered)
		if d.Attr&AttrQoS == 1 {
			s.m.got[number]++
			continue
		}
		if before, held := s.held[d.Key]; held {
			if before != number {
				s.m.f.Fatalf("%s holds %d under key %d and gets %d", s.name, before, d.Key, number)
			}
			if !d.Redelivered {
				s.m.f.Fatalf("%s gets %d again without DUP", s.name, number)
			}
			continue
		}
		s.held[d.Key] = number
		s.m.got[number]++
		if s.m.gotTwo[number]++; s.m.gotTwo[number] > 1 {
			s.m.f.Fatalf("%d is delivered twice at QoS 2", number)
		}
	}
}

// answer acknowledges some of what is open, in order, one half of a QoS 2 handshake at a time.
func (s *sharer) answer() {
	if s.c == nil || len(s.open) == 0 {
		return
	}
	n := 1 + s.m.rng.IntN(len(s.open))
	var keys []uint64
	var rest []mailbox.Delivery
	for _, d := range s.open[:n] {
		refused := s.m.rng.IntN(10) == 0 // a reason code of 0x80 and above ends it as well
		if number, held := s.held[d.Key]; held && refused && !d.Released {
			s.m.gotTwo[number]-- // it was not taken, and a crash may bring it again
		}
		switch {
		case d.Attr&AttrQoS == 1, d.Released, refused:
			keys = append(keys, d.Key)
			delete(s.held, d.Key)
			s.m.logf("%s settles %d", s.name, d.Key)
		default:
			lsn, ok, err := s.c.Release(d.Key)
			if err != nil {
				return
			}
			if !ok {
				s.m.f.Fatalf("%s: no delivery under %d", s.name, d.Key)
			}
			s.m.f.flushed(lsn)
			s.m.logf("%s releases %d", s.name, d.Key)
			d.Released = true
			rest = append(rest, d)
		}
	}
	if err := s.c.Settle(keys); err != nil {
		s.m.f.Fatalf("settle: %v", err)
	}
	s.open = append(rest, s.open[n:]...)
}

// finish lets the members take and answer all there is.
func (m *sharedModel) finish() {
	m.logf("the end begins")
	for _, s := range m.members {
		s.connect(false)
	}
	m.f.settled()
	m.note()
	m.f.eventually("all to be delivered", func() bool {
		idle := true
		for _, s := range m.members {
			s.take()
			for len(s.open) > 0 {
				idle = false
				s.answer()
			}
		}
		m.f.settled()
		return idle && m.pending() == 0
	})
	var lost []int
	for number := range m.published {
		if m.acked[number] && m.got[number] == 0 {
			lost = append(lost, number)
		}
	}
	if i := slices.IndexFunc(lost, func(number int) bool { return m.qos[number] == 1 }); i >= 0 || len(lost) > m.risk {
		m.f.Fatalf("lost: %v; %d may be", lost, m.risk)
	}
}

// pending is what is left in the group and with its members.
func (m *sharedModel) pending() uint64 {
	g := m.f.Gauges()
	return g.Pending + g.GroupsPending
}
