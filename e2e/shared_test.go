package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	v5 "github.com/eclipse/paho.golang/paho"

	. "emanet/e2e/harness"
)

// crew is the members of a shared subscription, and what they have got together.
type crew struct {
	l       *ledger
	filter  string
	mu      sync.Mutex
	total   map[stamp]int // by whichever member
	twice   map[stamp]int // of these at QoS 2
	stopped bool
	current []*Client
}

// sharer is a member. It leaves at random, owing answers or not, and comes back.
type sharer struct {
	t       *testing.T
	crew    *crew
	rng     *rand.Rand
	addr    string
	name    string
	number  int
	connect Connect
	granted byte
	steady  bool            // does not leave of its own will any more
	moody   bool            // unsubscribes and subscribes again
	known   map[uint16]bool // QoS 2 ids whose PUBREL has not come
}

func (c *crew) missing() []stamp {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.l.missing(func(stamp) bool { return true }, c.total)
}

// begin makes the subscription.
func (m *sharer) begin() {
	m.t.Helper()
	m.known = map[uint16]bool{}
	if m.connect.Clean {
		return
	}
	c := Open(m.t, m.addr, m.connect)
	if got := c.Subscribe(To(m.crew.filter, m.granted)); got[0] != m.granted {
		m.t.Fatalf("%s was granted %x", m.name, got)
	}
	c.Disconnect()
}

func (m *sharer) run() error {
	for {
		c, err := dialUntilUp(m.t, m.addr, m.connect)
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		if !m.adopt(c) {
			return nil
		}
		m.crew.l.tell(m.name, "connected, session present %t", c.Connack.SessionPresent)
		if m.connect.Clean {
			m.known = map[uint16]bool{}
			c.Write(SubscribeBytes(c.Version, 1, nil, To(m.crew.filter, m.granted)))
		} else if !c.Connack.SessionPresent {
			m.crew.l.fault(m.name, "the session is lost")
		}
		m.crew.l.tell(m.name, "left: %v", m.session(c))
		c.Drop()
	}
}

func (m *sharer) adopt(c *Client) bool {
	m.crew.mu.Lock()
	defer m.crew.mu.Unlock()
	if m.crew.stopped {
		c.Drop()
		return false
	}
	m.crew.current[m.number] = c
	return true
}

func (c *crew) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
	for _, client := range c.current {
		if client != nil {
			client.Drop()
		}
	}
}

func (m *sharer) session(c *Client) error {
	var owed []Packet
	for packets := 20 + m.rng.IntN(400); ; packets-- {
		p, err := c.TryRead(3 * Patience)
		if err != nil {
			return err
		}
		switch p.Type {
		case PUBLISH:
			m.take(p)
			switch p.QoS {
			case 1:
				owed = append(owed, Packet{Type: PUBACK, ID: p.ID})
			case 2:
				owed = append(owed, Packet{Type: PUBREC, ID: p.ID})
			}
		case PUBREL:
			delete(m.known, p.ID)
			owed = append(owed, Packet{Type: PUBCOMP, ID: p.ID})
		case SUBACK, UNSUBACK:
		case DISCONNECT:
			return fmt.Errorf("told to leave: %v", p)
		default:
			m.crew.l.fault(m.name, "unexpected %v", p)
		}
		if packets <= 0 && !m.isSteady() {
			if m.rng.IntN(2) == 0 {
				c.Send(Packet{Type: DISCONNECT})
			}
			return fmt.Errorf("of its own will, owing %d", len(owed))
		}
		if m.moody && m.rng.IntN(40) == 0 {
			c.Write(UnsubscribeBytes(c.Version, 2, m.crew.filter))
			c.Write(SubscribeBytes(c.Version, 3, nil, To(m.crew.filter, m.granted)))
		}
		if m.rng.IntN(3) > 0 || c.Buffered() == 0 {
			for _, ack := range owed {
				c.Send(ack)
			}
			owed = owed[:0]
		}
	}
}

func (m *sharer) isSteady() bool {
	m.crew.mu.Lock()
	defer m.crew.mu.Unlock()
	return m.steady
}

func (m *sharer) take(p Packet) {
	if p.QoS == 2 {
		if m.known[p.ID] {
			return
		}
		m.known[p.ID] = true
	}
	s, ok := stampOf(p.Payload)
	if !ok || p.Topic != topicName(s.publisher, s.topic) {
		m.crew.l.fault(m.name, "nobody has published %v", p)
		return
	}
	m.crew.mu.Lock()
	defer m.crew.mu.Unlock()
	m.crew.total[s]++
	if p.QoS != 2 {
		return
	}
	if m.crew.twice[s]++; m.crew.twice[s] > 1 {
		m.crew.l.fault(m.name, "%v came twice at QoS 2: %v", s, p)
	}
}

// Members of all kinds come and go while publishers load the broker and it is killed. Nothing that was acknowledged
// is lost, but what a kill found on its way to a clean member at QoS 2; nothing comes twice at QoS 2.
func TestASharedSubscriptionSurvivesKillsUnderLoad(t *testing.T) { // [MQTT-4.8.2-4], [MQTT-4.8.2-5]
	OnlyEmanet(t)
	t.Parallel()
	for _, kind := range []struct {
		name   string
		rounds int
		troupe
	}{
		{"clean members at QoS 1", 6, troupe{clean: 1}},
		{"clean members at QoS 2", 3, troupe{clean: 2}},
		{"little room, and ends in good order", 3, troupe{clean: 1, moody: true, orderly: true, args: []string{
			"--journal-segments", "4", "--journal-segment-bytes", "64KiB", "--memory-budget", "1MiB"}}},
	} {
		for i := range kind.rounds {
			seed := rand.Uint64()
			t.Run(fmt.Sprintf("%s, round %d seed %d", kind.name, i+1, seed), func(t *testing.T) {
				t.Parallel()
				sharedRound(t, seed, &kind.troupe)
			})
		}
	}
}

// troupe is what a round varies.
type troupe struct {
	clean   byte // what clean members are granted
	moody   bool // members unsubscribe and subscribe again
	orderly bool // the broker is ended in good order as often as it is killed
	args    []string
}

const cleanWindow = 5

func sharedRound(t *testing.T, seed uint64, kind *troupe) {
	cleanQoS := kind.clean
	dir, err := os.MkdirTemp("", "emanet-shared-")
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
		t.Logf("the story is %s", filepath.Join(dir, "story.txt"))
	})
	r.b = StartIn(t, dir, kind.args...)
	team := &crew{l: r.l, filter: "$share/crew/w/#", total: map[stamp]int{}, twice: map[stamp]int{}}
	var members []*sharer
	atRisk := 0
	for i := range 6 {
		m := &sharer{t: t, crew: team, rng: rand.New(rand.NewPCG(r.rng.Uint64(), 3)), addr: r.b.Addr(), number: i,
			name: fmt.Sprintf("member %d", i), connect: Persistent(byte(4+i%2), fmt.Sprintf("m%d", i)), granted: byte(1 + i/2%2)}
		if i >= 4 {
			m.connect, m.granted = Clean(5, m.connect.ClientID), cleanQoS
			m.connect.Props = append(m.connect.Props, Num(ReceiveMaximum, cleanWindow))
			if cleanQoS == 2 {
				atRisk += cleanWindow
			}
		}
		m.moody = kind.moody && i > 0
		team.current = append(team.current, nil)
		m.begin()
		members = append(members, m)
	}
	for i := range 4 {
		r.loaders = append(r.loaders, &loader{t: t, l: r.l, rng: rand.New(rand.NewPCG(r.rng.Uint64(), 2)), addr: r.b.Addr(),
			number: i, connect: Persistent(byte(4+i%2), fmt.Sprintf("p%d", i)), name: fmt.Sprintf("publisher %d", i), quota: 400})
	}
	errs := make(chan error, 20)
	var loading, sharing sync.WaitGroup
	for _, m := range members {
		sharing.Go(func() { errs <- m.run() })
	}
	for _, p := range r.loaders {
		loading.Go(func() { errs <- p.run() })
	}
	for range 1 + r.rng.IntN(3) {
		r.endSomewhere(kind.orderly)
	}
	loading.Wait()
	team.mu.Lock()
	for _, m := range members {
		m.steady = true
	}
	team.mu.Unlock()
	awaitCrew(r, team, atRisk*r.kills)
	team.stop()
	sharing.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			t.Error(err)
		}
	}
	for _, fault := range r.l.faults {
		t.Error(fault)
	}
}

// endSomewhere is killSomewhere, half the time in good order if it may be.
func (r *round) endSomewhere(orderly bool) {
	r.t.Helper()
	if !orderly || r.rng.IntN(2) == 0 {
		r.killSomewhere()
		return
	}
	select {
	case <-r.l.afterAcks(50 + r.rng.IntN(500)):
	case <-time.After(Patience):
	}
	r.b.Terminate()
	r.l.tell("the broker", "ended")
	r.b.Restart()
	r.l.tell("the broker", "up again")
}

// awaitCrew waits for all that was acknowledged, but so many at QoS 2.
func awaitCrew(r *round, team *crew, atRisk int) {
	r.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(3 * Patience); ; <-tick.C {
		var one, two int
		missing := team.missing()
		for _, s := range missing {
			if qosOf(s.topic) == 2 {
				two++
			} else {
				one++
			}
		}
		if one == 0 && two == 0 || one == 0 && two <= atRisk && quiet(r.b) {
			return
		}
		if time.Now().After(deadline) {
			Overdue(r.t)
			r.l.fault("the end", "%d at QoS 1 and %d at QoS 2 were acknowledged and came to nobody, such as %v", one, two, missing[0])
			return
		}
	}
}

// quiet tells whether nothing waits in the broker any more.
func quiet(b *Broker) bool {
	n := b.Metrics()
	return n["emanet_shared_pending"] == 0 && n["emanet_pending"] == 0
}

func TestUnmodifiedClientsShareASubscription(t *testing.T) {
	OnlyEmanet(t)
	t.Parallel()
	b, topic := Start(t), "t"
	const each, members = 20, 3
	got := make(chan string, members*each+10)
	var files []*exec.Cmd
	for i := range members - 1 { // 3.1.1 and 5
		version := []string{"311", "5"}[i]
		host, port, _ := strings.Cut(b.Addr(), ":")
		cmd := exec.Command("mosquitto_sub", "-V", version, "-h", host, "-p", port, "-q", "1", "-i", Name("sub"),
			"-t", "$share/team/"+topic, "-C", fmt.Sprint(each), "-F", "%p", "-W", "60")
		var out strings.Builder
		cmd.Stdout = &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		files = append(files, cmd)
		t.Cleanup(func() { _ = cmd.Process.Kill() })
	}
	paho := make(chan *v5.Publish, each+10)
	c, _ := PahoGolang(t, b.Addr(), &v5.Connect{ClientID: Name("paho"), CleanStart: true, KeepAlive: 30}, paho)
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	_, err := c.Subscribe(ctx, &v5.Subscribe{Subscriptions: []v5.SubscribeOptions{{Topic: "$share/team/" + topic, QoS: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	Eventually(t, "all to be members", func() bool { return b.Metrics()["emanet_subscriptions"] == members })
	publishAll(t, b, topic, members*each)
	for _, cmd := range files {
		if err := cmd.Wait(); err != nil {
			t.Fatalf("mosquitto_sub did not get its %d: %v", each, err)
		}
		for _, line := range strings.Fields(cmd.Stdout.(*strings.Builder).String()) {
			got <- line
		}
	}
	for range each {
		select {
		case p := <-paho:
			got <- string(p.Payload)
		case <-time.After(Patience):
			t.Fatal("paho.golang did not get its share")
		}
	}
	seen := map[string]bool{}
	for range members * each {
		s := <-got
		if seen[s] {
			t.Errorf("%s came twice", s)
		}
		seen[s] = true
	}
}
