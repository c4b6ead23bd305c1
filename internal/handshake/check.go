package handshake

import (
	"errors"
	"fmt"
	"strings"
)

// Result is what an exploration found.
type Result struct {
	States int // distinct states
	Steps  int // edges of the graph
	Depth  int // steps on the longest shortest path
	Final  int // states in which nothing but a fault can happen; each is whole, or there is a counterexample
	// Counterexample is the shortest path to a broken promise, or nil.
	Counterexample *Trace
}

// Trace is a path from the initial state to a broken promise.
type Trace struct {
	Promise string
	Steps   []string
}

func (t *Trace) String() string {
	var b strings.Builder
	for i, step := range t.Steps {
		fmt.Fprintf(&b, "%2d  %s\n", i+1, step)
	}
	fmt.Fprintf(&b, "=>  %s\n", t.Promise)
	return b.String()
}

// ErrTooLarge is returned when a scenario has more states than it allows.
var ErrTooLarge = errors.New("handshake: more states than the scenario allows")

type node struct {
	parent int32
	depth  uint16
	step   step
}

// Check visits every state of the scenario. Safety is checked on every step. Liveness: a state in which nothing but a
// fault can happen must have everything delivered and every id free, and the steps without faults must form no circle.
// So every continuation without further faults, from every state, ends well, under any scheduling at all.
func Check(sc Scenario) (Result, error) {
	if err := sc.valid(); err != nil {
		return Result{}, err
	}
	limit := sc.MaxStates
	if limit == 0 {
		limit = 20_000_000
	}
	x := explorer{model: model{sc}, seen: newVisited()}
	first := x.initial()
	x.add(&first, node{parent: -1})
	for at := 0; at < x.seen.n; at++ {
		if x.seen.n > limit {
			return x.result, fmt.Errorf("scenario %q, limit %d: %w", sc.Name, limit, ErrTooLarge)
		}
		if bad := x.expand(int32(at)); bad >= 0 {
			x.result.Counterexample = x.trace(bad)
			break
		}
	}
	x.result.States = x.seen.n
	x.result.Depth = int(x.nodes[len(x.nodes)-1].depth)
	if x.result.Counterexample == nil {
		if at := circle(x.edges, x.ends); at >= 0 {
			x.seen.at(at).bad = badCycle
			x.result.Counterexample = x.trace(at)
		}
	}
	return x.result, nil
}

type explorer struct {
	model
	seen  visited
	nodes []node // by index of the state
	// Edges without faults, states in order of expansion: those of state i end at ends[i].
	edges  []int32
	ends   []int
	result Result
}

func (x *explorer) add(s *state, n node) int32 {
	x.nodes = append(x.nodes, n)
	return x.seen.add(s)
}

// expand visits the successors of a state and returns the index of a bad one, or -1.
func (x *explorer) expand(at int32) int32 {
	from := x.seen.at(at)
	bad, final := int32(-1), true
	x.successors(from, func(st step, to state) bool {
		x.result.Steps++
		i := x.seen.find(&to)
		if i < 0 {
			i = x.add(&to, node{parent: at, depth: x.nodes[at].depth + 1, step: st})
		}
		if !st.fault {
			final = false
			x.edges = append(x.edges, i)
		}
		if to.bad != fine {
			bad = i
		}
		return bad < 0
	})
	x.ends = append(x.ends, len(x.edges))
	if final && bad < 0 {
		x.result.Final++
		if v := x.whole(from); v != fine {
			x.seen.at(at).bad = v
			bad = at
		}
	}
	return bad
}

// circle returns a node on or behind a circle of the graph, or -1. The edges of node i are edges[ends[i-1]:ends[i]].
// It removes nodes with no way in until none is left (Kahn, "Topological sorting of large networks", 1962).
func circle(edges []int32, ends []int) int32 {
	in := make([]int32, len(ends))
	for _, to := range edges {
		in[to]++
	}
	var open []int32
	for i, n := range in {
		if n == 0 {
			open = append(open, int32(i))
		}
	}
	for len(open) > 0 {
		at := open[len(open)-1]
		open = open[:len(open)-1]
		begin := 0
		if at > 0 {
			begin = ends[at-1]
		}
		for _, to := range edges[begin:ends[at]] {
			if in[to]--; in[to] == 0 {
				open = append(open, to)
			}
		}
	}
	for i, n := range in {
		if n > 0 {
			return int32(i)
		}
	}
	return -1
}

// whole judges a state in which nothing but a fault can happen.
func (m *model) whole(s *state) verdict {
	var gone, queued uint8 // by message
	for _, e := range s.disk.entry[:s.disk.next] {
		if e.state == dropped {
			gone |= 1 << (e.msg - 1)
		}
		if e.unsettled() {
			queued |= 1 << (e.msg - 1)
		}
	}
	for i := range m.QoS {
		if s.pub.message[i].phase != done {
			return badStuck
		}
	}
	delivered := s.sub.delivered
	if m.NoSubscriber {
		delivered, queued = queued, 0
	}
	if s.acked&^(delivered|gone) != 0 {
		return badLost
	}
	if queued != 0 || s.npend != 0 || s.disk.received != 0 || s.sub.held != [maxIDs + 1]uint8{} {
		return badLeft
	}
	return fine
}

func (x *explorer) trace(bad int32) *Trace {
	t := &Trace{Promise: x.seen.at(bad).bad.String()}
	for at := bad; x.nodes[at].parent >= 0; at = x.nodes[at].parent {
		parent := x.nodes[at].parent
		t.Steps = append(t.Steps, x.describe(x.seen.at(parent), x.nodes[at].step, x.seen.at(at)))
	}
	for i, j := 0, len(t.Steps)-1; i < j; i, j = i+1, j-1 {
		t.Steps[i], t.Steps[j] = t.Steps[j], t.Steps[i]
	}
	return t
}

func (sc *Scenario) valid() error {
	switch {
	case len(sc.QoS) == 0 || len(sc.QoS) > maxMessages:
		return fmt.Errorf("handshake: scenario %q has %d messages, 1 to %d are possible", sc.Name, len(sc.QoS), maxMessages)
	case sc.Modulus < 1 || sc.Modulus > maxIDs || sc.PublisherIDs > maxIDs:
		return fmt.Errorf("handshake: scenario %q: at most %d packet ids are possible", sc.Name, maxIDs)
	case !sc.NoSubscriber && len(sc.Windows) == 0:
		return fmt.Errorf("handshake: scenario %q: the subscriber needs a window", sc.Name)
	case !sc.Direct && sc.PublisherIDs == 0:
		return fmt.Errorf("handshake: scenario %q: the publisher needs a packet id", sc.Name)
	}
	resends := 0 // of QoS 1; at QoS 2 a resend takes no seq
	if !sc.Direct {
		for _, qos := range sc.QoS {
			if qos == 1 {
				resends++
			}
		}
		resends = int(sc.Crashes+sc.PublisherDrops) * min(resends, int(sc.PublisherIDs))
	}
	if seqs := len(sc.QoS) + resends; seqs > maxSeqs {
		return fmt.Errorf("handshake: scenario %q may need %d seqs, %d are possible", sc.Name, seqs, maxSeqs)
	}
	return nil
}
