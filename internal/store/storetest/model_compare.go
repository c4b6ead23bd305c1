package storetest

import (
	"slices"
	"strings"

	"emanet/internal/store"
)

// open opens again and finds out which state came back.
func (m *model) open() {
	m.tb.Helper()
	for m.plan.Crash && m.rng.IntN(4) == 0 && len(m.states) > 1 {
		m.crashWhileOpening()
	}
	s, got := open(m.tb, m.sub)
	m.s = s
	m.folded = 0
	s.OnFold(func(lsn store.LSN) {
		if lsn < m.folded || lsn > s.Flushed() {
			m.tb.Errorf("OnFold(%d) after %d with %d flushed", lsn, m.folded, s.Flushed())
		}
		m.folded = lsn
	})
	text := got.String()
	for i, p := range slices.Backward(m.states) {
		if p.lsn < m.flushed && i < len(m.states)-1 && m.states[i+1].lsn <= m.flushed {
			break
		}
		if p.state.String() == text {
			m.states = []point{{p.lsn, p.state}}
			return
		}
	}
	m.fail(text)
}

func (m *model) fail(got string) {
	last := m.now().String()
	m.tb.Fatalf("seed %d: the state that came back is none from LSN %d on (%d candidates). Against the last:\n%s\nlast batches:\n%s",
		m.plan.Seed, m.flushed, len(m.states), difference(last, got), strings.Join(m.log[max(0, len(m.log)-30):], "\n"))
}

// difference lists the lines that only one of two texts has.
func difference(want, got string) string {
	var out []string
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for _, l := range w {
		if !slices.Contains(g, l) {
			out = append(out, "- "+l)
		}
	}
	for _, l := range g {
		if !slices.Contains(w, l) {
			out = append(out, "+ "+l)
		}
	}
	return strings.Join(out[:min(len(out), 40)], "\n")
}

// crashWhileOpening starts and dies again, before or after Start.
func (m *model) crashWhileOpening() {
	s := m.sub.Open(m.tb)
	err := s.Load(&loaded{state: newState()})
	if err == nil && m.rng.IntN(2) == 0 {
		if m.sub.CutSoon != nil && m.rng.IntN(2) == 0 {
			m.sub.CutSoon()
		}
		_ = s.Start()
	}
	if m.rng.IntN(2) == 0 {
		m.sub.Cut(m.tb)
	} else {
		m.sub.Kill(m.tb)
	}
}
