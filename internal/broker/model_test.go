package broker

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"emanet/internal/journal"
	"emanet/internal/message"
	"emanet/internal/store"
)

// TestEveryHandshakeSurvivesCrashesLossAndTakeover is the protocol model of docs/adr/0002 on the real broker:
// a publisher and a subscriber that keep their sessions and dedupe by packet id alone, and any order of
// steps: a packet read or written, a flush held back or done, a connection lost (noticed by the server at
// once, late, or by a takeover), a kill, a power cut. What is acknowledged must be delivered, QoS 2 exactly
// once, in order, with DUP where it belongs.
//
// EMANET_SOAK_ROUNDS sets the number of rounds, EMANET_SEED the first one's seed, EMANET_STEPS how many steps
// of a failure are shown.
func TestEveryHandshakeSurvivesCrashesLossAndTakeover(t *testing.T) {
	t.Parallel()
	rounds := int(number("EMANET_SOAK_ROUNDS", 24))
	seed := number("EMANET_SEED", uint64(time.Now().UnixNano())%1_000_000)
	t.Logf("EMANET_SEED=%d", seed)
	for i := range rounds {
		runModel(t, seed+uint64(i))
		if t.Failed() {
			return
		}
	}
}

func number(name string, otherwise uint64) uint64 {
	n, err := strconv.ParseUint(os.Getenv(name), 10, 64)
	if err != nil {
		return otherwise
	}
	return n
}

type model struct {
	f         *fixture
	rng       *rand.Rand
	messages  int
	windowMax int
	release   func() // lets held flushes go, nil when none is held
	pub       *publisher
	sub       *reader
	ghosts    []*server      // connections lost that the server has not noticed
	sent      map[uint64]int // entries put on a connection: seq -> message
	doubt     uint64         // entries up to here may count as sent: the session was attached at a crash
	away      store.LSN      // where the subscriber is recorded as detached, 0 while it is attached
	log       []string
	last      bool // no more faults
}

func runModel(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 7))
	opt := Options{identifiers: []uint64{0, 0, 3, 7}[rng.IntN(4)]}
	m := &model{rng: rng, messages: 60, windowMax: 5, sent: map[uint64]int{}}
	m.f = setupOn(t, opt, seed, journal.Options{SegmentBytes: 64 << 10, Segments: 6})
	defer func() {
		if t.Failed() {
			t.Logf("seed %d, identifiers %d, the last steps:", seed, opt.identifiers)
			for _, line := range m.log[max(0, len(m.log)-int(number("EMANET_STEPS", 60))):] {
				t.Log(line)
			}
		}
		m.letGo()
		m.f.stop()
	}()
	m.prepare(opt.identifiers == 0)
	m.pub = &publisher{m: m, acked: map[int]bool{}}
	m.sub = &reader{m: m, got: map[int]int{}, eager: rng.IntN(3) == 0}
	m.pub.connect()
	m.sub.connect()
	for range 1500 {
		m.step()
	}
	m.finish()
	m.check()
}

// prepare makes the sessions; nearWrap has the subscriber's packet ids come to their end before long.
func (m *model) prepare(nearWrap bool) {
	m.f.connect("pub").leave()
	c := m.f.connect("sub")
	c.subscribe(to("a", 2))
	c.leave()
	if !nearWrap {
		return
	}
	b, err := m.f.control(1000)
	if err != nil {
		m.f.Fatal(err)
	}
	id, seq := c.session.mailbox.ID(), 65_535-uint64(m.rng.IntN(40))
	var body uint64
	b.Message(&message.Message{}, &body)
	b.Entry(id, &store.Entry{Seq: seq, MessageID: body, Attr: 1})
	b.Settle(id, 0, store.SeqRange{From: seq, To: seq}, 1, 0)
	m.f.flushed(b.Commit())
	m.f.crash(kill)
}

func (m *model) logf(format string, args ...any) {
	m.log = append(m.log, fmt.Sprintf(format, args...))
}

// step does one thing.
func (m *model) step() {
	select {
	case <-m.f.store.Failed(): // the power went within a write
		m.crash()
	default:
	}
	n := m.rng.IntN(1000)
	if n < 18 && !m.last {
		m.fault(n)
		return
	}
	switch n % 10 {
	case 0, 1:
		m.pub.publish()
	case 2:
		m.pub.read()
	case 3:
		m.pub.link.read()
	case 4:
		m.pub.link.write()
	case 5:
		m.sub.read()
	case 6:
		m.sub.link.read()
	case 7:
		m.sub.link.write()
	case 8:
		m.haunt()
	case 9:
		m.flush(n)
	}
	if m.pub.link.isOver() && m.returns() {
		m.pub.connect()
	}
	if m.sub.link.isOver() && m.returns() {
		m.sub.connect()
	}
}

// returns tells whether a client that is away comes back.
func (m *model) returns() bool { return m.last || m.rng.IntN(40) == 0 }

func (m *model) flush(n int) {
	switch {
	case m.release != nil && (n > 400 || m.last):
		m.letGo()
	case m.release == nil && n < 300 && !m.last:
		m.logf("flushes are held")
		m.release = m.f.holdFlushes()
	case m.release == nil:
		m.f.settled()
	}
}

func (m *model) letGo() {
	if m.release != nil {
		m.logf("flushes go on")
		m.release()
		m.release = nil
	}
}

// fault breaks something.
func (m *model) fault(n int) {
	switch {
	case n < 3:
		m.crash()
	case n < 4:
		m.logf("the power will go before long")
		m.f.fs.CutAfter(1 + m.rng.IntN(30))
	case n < 11:
		m.lose(m.sub.link)
		if m.rng.IntN(2) == 0 {
			m.sub.connect()
		}
	default:
		m.lose(m.pub.link)
		if m.rng.IntN(2) == 0 {
			m.pub.connect()
		}
	}
}

// lose ends a connection. The server notices now, or later, or by the takeover.
func (m *model) lose(s *server) {
	if s.isOver() {
		return
	}
	m.logf("%s's connection is lost", s.name)
	s.down = nil
	s.up = s.up[:m.rng.IntN(len(s.up)+1)]
	s.lost = true
	if m.rng.IntN(2) == 0 {
		s.end()
		return
	}
	m.ghosts = append(m.ghosts, s)
}

// haunt lets a connection that the client has given up do something.
func (m *model) haunt() {
	if len(m.ghosts) == 0 {
		return
	}
	i := m.rng.IntN(len(m.ghosts))
	g := m.ghosts[i]
	switch n := m.rng.IntN(30); {
	case n < 10:
		g.read()
	case n < 15:
		g.write()
		g.down = nil
	case n == 15:
		g.end()
		m.ghosts = slices.Delete(m.ghosts, i, i+1)
	}
}

func (m *model) crash() {
	how := kill
	if m.rng.IntN(2) == 0 {
		how = cut
	}
	m.logf("CRASH")
	m.f.fs = how(m.f.fs)
	m.letGo()
	m.f.end()
	m.ghosts = nil
	wasAway := m.away != 0 && m.away <= m.f.lastFlushed
	m.f.open()
	if !wasAway {
		m.doubt = max(m.doubt, m.f.sessions.byID["sub"].mailbox.Status().NextSeq-1)
	}
	m.away = 1 // the start records it as detached, before anything else
	m.pub.link.dead, m.sub.link.dead = true, true
	if m.rng.IntN(2) == 0 {
		m.pub.connect()
		m.sub.connect()
	}
}

// checkSend is asked of every PUBLISH that is put on a connection.
func (m *model) checkSend(p packet) {
	before, again := m.sent[p.seq]
	switch {
	case again && before != p.number:
		m.f.Fatalf("seq %d was message %d and is %d now", p.seq, before, p.number)
	case again && !p.dup:
		m.f.Fatalf("message %d, seq %d, was sent before and goes out with DUP=0", p.number, p.seq)
	case !again && p.dup && p.seq > m.doubt:
		m.f.Fatalf("message %d, seq %d, was never sent and goes out with DUP=1", p.number, p.seq)
	}
	m.sent[p.seq] = p.number
}

// finish lets everything run to its end without further faults.
func (m *model) finish() {
	m.last = true
	giveUp := time.Now().Add(20 * time.Second) // by the clock: what is flushed and read is told by other goroutines
	for time.Now().Before(giveUp) {
		if m.pub.next == m.messages && len(m.pub.inFlight) == 0 && len(m.sub.got) == m.messages && len(m.sub.held) == 0 {
			return
		}
		m.step()
	}
	st := m.f.store.Stats()
	m.f.Fatalf("it hangs: %d of %d messages published, %d in flight; %d received, %v held; link %+v; mailbox %+v; store %v, appended %d, flushed %d, folded %d, used %d of %d",
		m.pub.next, m.messages, len(m.pub.inFlight), len(m.sub.got), m.sub.held, *m.sub.link, m.f.mailboxOf("sub"),
		m.f.store.Alarms(), st.Appended, st.Flushed, st.Folded, st.JournalUsed, st.JournalTotal)
}

func (m *model) check() {
	for number := range m.messages {
		if m.pub.acked[number] && m.sub.got[number] == 0 {
			m.f.Errorf("message %d was acknowledged and is lost", number)
		}
	}
	if !slices.IsSorted(m.sub.order) {
		m.f.Errorf("first deliveries out of order: %v", m.sub.order)
	}
}
