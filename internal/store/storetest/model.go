package storetest

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"emanet/internal/message"
	"emanet/internal/store"
)

// Plan is a run of the model.
type Plan struct {
	Seed uint64
	// Lives is how often the store is opened; Batches at most how many batches each life has.
	Lives, Batches int
	// Crash: most lives end by Kill or Cut, some of them during the start.
	Crash bool
}

// Seed is EMANET_SEED, or one of the moment; it is logged, for a failure to be repeated.
func Seed(tb testing.TB) uint64 {
	if v, err := strconv.ParseUint(os.Getenv("EMANET_SEED"), 10, 64); err == nil {
		return v
	}
	seed := rand.Uint64()
	tb.Logf("EMANET_SEED=%d", seed)
	return seed
}

// Rounds is EMANET_SOAK_ROUNDS, or the given number for a short run.
func Rounds(short int) int {
	if n, err := strconv.Atoi(os.Getenv("EMANET_SOAK_ROUNDS")); err == nil && n > 0 {
		return n
	}
	return short
}

// Model runs random operations on a subject and on a State, through several lives of the store, and
// compares: after every start, the store has the state after some batch that is not older than the last
// flushed one.
func Model(tb testing.TB, f Factory, p Plan) {
	m := &model{tb: tb, rng: rand.New(rand.NewPCG(p.Seed, 1)), sub: f(tb), plan: p}
	m.states = []point{{0, newState()}}
	for range p.Lives {
		m.life()
	}
	// The last words: an orderly end, a check, and one more look.
	m.open()
	must(tb, m.s.Close())
	m.sub.Check(tb)
}

// point is the state after a batch.
type point struct {
	lsn   store.LSN
	state *State
}

type model struct {
	tb   testing.TB
	rng  *rand.Rand
	sub  *Subject
	plan Plan
	s    store.Store
	// states: the last one known to be durable, and those after it.
	states  []point
	flushed store.LSN // seen before the crash
	folded  store.LSN
	lastID  uint64
	lastBox uint64
	log     []string // what the last batches did, for the failure's message
}

func (m *model) now() *State { return m.states[len(m.states)-1].state }

// life opens, compares, does things and ends somehow.
func (m *model) life() {
	m.open()
	if m.plan.Crash && m.sub.CutSoon != nil && m.rng.IntN(3) == 0 {
		m.sub.CutSoon()
	}
	for range 1 + m.rng.IntN(m.plan.Batches) {
		if !m.step() {
			break
		}
		m.flushed = max(m.flushed, m.s.Flushed())
	}
	m.flushed = max(m.flushed, m.s.Flushed())
	m.end()
}

// end closes or crashes.
func (m *model) end() {
	dead := false
	select {
	case <-m.s.Failed():
		dead = true
	default:
	}
	way := m.rng.IntN(6)
	switch {
	case m.plan.Crash && (dead || way >= 3):
		m.sub.Cut(m.tb)
	case m.plan.Crash && way >= 1:
		m.sub.Kill(m.tb)
	default:
		appended := m.s.Appended()
		if err := m.s.Close(); err != nil {
			if m.plan.Crash { // the power ended within Close
				m.sub.Cut(m.tb)
				return
			}
			m.tb.Fatalf("close: %v", err)
		}
		if m.plan.Crash {
			// Whatever comes now, Close has flushed.
			m.sub.Kill(m.tb)
		}
		m.flushed = appended
		m.sub.Check(m.tb)
	}
}

// step is one batch or another thing a broker does. false: the store is dead.
func (m *model) step() bool {
	switch m.rng.IntN(40) {
	case 0:
		return m.alive(m.s.Sync()) && m.compareFolded()
	case 1:
		return m.waitFlushed()
	case 2:
		return m.abort()
	}
	class := store.Publish
	if m.rng.IntN(3) == 0 {
		class = store.Control
	}
	sb, err := m.s.Begin(class, batchMax)
	if errors.Is(err, store.ErrFull) || errors.Is(err, store.ErrBusy) {
		return m.alive(m.s.Sync()) // makes room
	}
	if !m.alive(err) {
		return false
	}
	b := &batch{Batch: sb, m: m, state: m.now().clone(), publish: class == store.Publish}
	for range 1 + m.rng.IntN(4) {
		b.operation()
	}
	lsn := sb.Commit()
	if len(b.notes) == 0 {
		if lsn != 0 {
			m.tb.Fatalf("an empty batch has LSN %d", lsn)
		}
		return true
	}
	if last := m.states[len(m.states)-1].lsn; lsn <= last {
		m.tb.Fatalf("LSN %d after %d", lsn, last)
	}
	m.states = append(m.states, point{lsn, b.state})
	m.log = append(m.log, fmt.Sprintf("%d: %s", lsn, strings.Join(b.notes, ", ")))
	m.trim()
	return true
}

// batchMax bounds what four operations take.
const batchMax = 4 * (bodyMax + 2000)

// trim forgets states that can not come back.
func (m *model) trim() {
	flushed := m.s.Flushed()
	i := 0
	for i+1 < len(m.states) && m.states[i+1].lsn <= flushed {
		i++
	}
	if i > 0 {
		m.flushed = flushed
		m.states = append([]point(nil), m.states[i:]...)
	}
}

// alive tells an error of the simulated disk from one that should not be.
func (m *model) alive(err error) bool {
	if err == nil {
		return true
	}
	if !m.plan.Crash {
		m.tb.Fatalf("%v; failed: %v", err, m.s.Err())
	}
	return false
}

// patience is far more than any wait here takes.
const patience = 30 * time.Second

func (m *model) waitFlushed() bool {
	done := make(chan struct{})
	w := &store.Waiter{F: func(store.LSN) { close(done) }}
	if !m.s.NotifyTail(w) {
		return true
	}
	select {
	case <-done:
		return true
	case <-m.s.Failed():
		return m.alive(m.s.Err())
	case <-time.After(patience):
		m.tb.Fatal("the tail was never flushed")
		return false
	}
}

func (m *model) abort() bool {
	b, err := m.s.Begin(store.Control, 200)
	if !m.alive(err) {
		return false
	}
	var id uint64
	b.Put("session", "aborted", []byte(`{}`))
	b.Message(&message.Message{Topic: "aborted"}, &id)
	b.Abort()
	return true
}

// compareFolded compares what ReadEntries shows, after Sync, with the model.
func (m *model) compareFolded() bool {
	for id, box := range m.now().Mailboxes {
		for p, lane := range box.Lanes {
			es, err := m.s.ReadEntries(id, p, 0, 1<<62, len(lane)+10, math.MaxInt64)
			if !m.alive(err) {
				return false
			}
			got := map[uint64]Entry{}
			for _, e := range es {
				got[e.Seq] = entryOf(e)
			}
			if !maps.Equal(got, lane) {
				m.tb.Fatalf("seed %d: mailbox %d priority %d folded\n got %v\nwant %v", m.plan.Seed, id, p, got, lane)
			}
		}
	}
	return true
}
