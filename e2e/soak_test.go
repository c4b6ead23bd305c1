package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	. "emanet/e2e/harness"
)

// Each round: 20 clients of random kinds load the broker, which is killed at random moments, sometimes during its
// recovery. In the end everything on the outside list of acknowledged messages must have come, QoS 2 once, and
// in order per publisher and topic.
//
// EMANET_SOAK_ROUNDS sets the number of rounds; EMANET_SOAK_SEED repeats one. A failing round keeps its data
// folder, with the story of the round in story.txt.
func TestRandomLoadSurvivesKillsAtRandomMoments(t *testing.T) {
	t.Parallel()
	rounds, seeds := 20, []uint64(nil)
	if s := os.Getenv("EMANET_SOAK_ROUNDS"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatalf("EMANET_SOAK_ROUNDS: %v", err)
		}
		rounds = n
	}
	if s := os.Getenv("EMANET_SOAK_SEED"); s != "" {
		seed, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatalf("EMANET_SOAK_SEED: %v", err)
		}
		seeds = append(seeds, seed)
	} else {
		for range rounds {
			seeds = append(seeds, rand.Uint64())
		}
	}
	var kills, acked int
	for i, seed := range seeds {
		t.Run(fmt.Sprintf("round %d seed %d", i+1, seed), func(t *testing.T) {
			k, a := soakRound(t, seed)
			kills, acked = kills+k, acked+a
		})
		if t.Failed() {
			break
		}
	}
	t.Logf("%d rounds, %d kills, %d messages acknowledged", len(seeds), kills, acked)
}

type round struct {
	t        *testing.T
	b        *Broker
	l        *ledger
	rng      *rand.Rand
	loaders  []*loader
	watchers []*watcher
	kills    int
}

func soakRound(t *testing.T, seed uint64) (kills, acked int) {
	dir, err := os.MkdirTemp("", "emanet-soak-")
	if err != nil {
		t.Fatal(err)
	}
	r := &round{t: t, l: newLedger(), rng: rand.New(rand.NewPCG(seed, 1))}
	t.Cleanup(func() {
		if !t.Failed() {
			os.RemoveAll(dir)
			return
		}
		r.l.save(dir)
		t.Logf("repeat with EMANET_SOAK_SEED=%d; the story is %s", seed, filepath.Join(dir, "story.txt"))
	})
	r.b = StartIn(t, dir)
	r.cast()
	errs := make(chan error, 20)
	var loading, watching sync.WaitGroup
	for _, w := range r.watchers {
		watching.Go(func() { errs <- w.run() })
	}
	for _, p := range r.loaders {
		loading.Go(func() { errs <- p.run() })
	}
	for range 1 + r.rng.IntN(3) {
		r.killSomewhere()
	}
	loading.Wait()
	r.waitForAll()
	for _, w := range r.watchers {
		w.stop()
	}
	watching.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			t.Error(err)
		}
	}
	r.checkRetained()
	for _, fault := range r.l.faults {
		t.Error(fault)
	}
	return r.kills, len(r.l.acked)
}

// cast chooses the clients: 10 publishers, 10 subscribers, of both versions and both kinds of session.
func (r *round) cast() {
	for i := range 20 {
		version := byte(4 + r.rng.IntN(2))
		rng := rand.New(rand.NewPCG(r.rng.Uint64(), 2))
		connect := Persistent(version, fmt.Sprintf("c%d", i))
		if i%5 == 4 {
			connect = Clean(version, connect.ClientID)
		}
		if version == 5 && r.rng.IntN(2) == 0 {
			connect.Props = append(connect.Props, Num(ReceiveMaximum, uint32(3+r.rng.IntN(40))))
		}
		if i < 10 {
			r.loaders = append(r.loaders, &loader{t: r.t, l: r.l, rng: rng, addr: r.b.Addr(), number: i, connect: connect,
				name: fmt.Sprintf("publisher %d", i), quota: 100 + r.rng.IntN(200)})
			continue
		}
		w := &watcher{t: r.t, l: r.l, rng: rng, addr: r.b.Addr(), connect: connect, name: fmt.Sprintf("subscriber %d", i),
			topic: r.rng.IntN(topicsEach+1) - 1, granted: byte(1 + r.rng.IntN(2))}
		if !IsEmanet() {
			w.granted = 1 // Mosquitto 2.0.11 sends a PUBLISH again after its PUBREL (section 4.3.3)
		}
		w.subscribe()
		r.watchers = append(r.watchers, w)
	}
}

// killSomewhere kills after some more acknowledgements and a little while, and again during the recovery one time
// in three.
func (r *round) killSomewhere() {
	r.t.Helper()
	select {
	case <-r.l.afterAcks(50 + r.rng.IntN(500)):
	case <-time.After(Patience): // the load is done: a kill while it drains is as good
	}
	randomMoment(r.rng, 5*time.Millisecond)
	for {
		r.b.Kill9()
		r.kills++
		r.l.tell("the broker", "killed")
		if r.rng.IntN(3) > 0 {
			break
		}
		r.b.Spawn()
		randomMoment(r.rng, 60*time.Millisecond)
		r.l.tell("the broker", "to be killed during recovery")
	}
	r.b.Restart()
	r.l.tell("the broker", "up again")
}

// randomMoment is a part of the experiment, not a wait for something.
func randomMoment(rng *rand.Rand, most time.Duration) {
	<-time.After(time.Duration(rng.Int64N(int64(most))))
}

func (r *round) waitForAll() {
	r.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(3 * Patience); ; <-tick.C {
		late := ""
		for _, w := range r.watchers {
			if w.connect.Clean { // a clean session promises nothing across a kill
				continue
			}
			if missing := w.missing(); len(missing) > 0 {
				late = fmt.Sprintf("%s misses %d acknowledged messages, such as %v", w.name, len(missing), missing[0])
			}
		}
		if late == "" {
			return
		}
		if time.Now().After(deadline) {
			Overdue(r.t)
			r.l.fault("the end", "%s", late)
			return
		}
	}
}

// checkRetained expects the last value of each publisher. A clean publisher may have lost its very last ones.
func (r *round) checkRetained() {
	r.t.Helper()
	c := Open(r.t, r.b.Addr(), Clean(4, "historian"))
	c.Subscribe(To(fmt.Sprintf("w/+/%d", topicRetained), 0))
	c.Send(Packet{Type: PINGREQ})
	got := map[int]int{}
	want := 0
	for _, p := range r.loaders {
		if p.next[topicRetained] > 0 {
			want++
		}
	}
	for len(got) < want {
		p := c.Read()
		if p.Type != PUBLISH {
			continue
		}
		s, _ := stampOf(p.Payload)
		got[s.publisher] = s.n
	}
	for _, p := range r.loaders {
		last := -1
		for s := range r.l.acked {
			if s.publisher == p.number && s.topic == topicRetained {
				last = max(last, s.n)
			}
		}
		if n := got[p.number]; n < last || n >= p.next[topicRetained] {
			r.l.fault(p.name, "the retained value is %d, the last acknowledged %d", n, last)
		}
	}
}
