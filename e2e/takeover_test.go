package e2e

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	. "emanet/e2e/harness"
)

// racer is one of two connections that want the same client id.
type racer struct {
	c       *Client
	name    string
	connack Packet
	mu      sync.Mutex
	got     []Packet      // PUBLISH and PUBREL
	pinged  chan struct{} // closed by PINGRESP: the connection is in use
	last    Packet        // the DISCONNECT that it was told
}

// read takes all that comes until the connection ends. It answers as any client would, and leaves the judgement
// to receiverState, since a packet read late on the old connection was sent before all on the new one.
func (r *racer) read() {
	for {
		p, err := r.c.TryRead(Patience)
		if err != nil {
			return
		}
		switch p.Type {
		case CONNACK:
			r.connack = p
			r.c.Send(Packet{Type: PINGREQ})
		case PINGRESP:
			close(r.pinged)
		case DISCONNECT:
			r.last = p
		case PUBLISH:
			r.note(p)
			r.c.Send(Packet{Type: PUBREC, ID: p.ID})
		case PUBREL:
			r.note(p)
			r.c.Send(Packet{Type: PUBCOMP, ID: p.ID})
		}
	}
}

func (r *racer) note(p Packet) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got = append(r.got, p)
}

func (r *racer) has(payload string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.got, func(p Packet) bool { return string(p.Payload) == payload })
}

// receiverState is what a client keeps over all its connections: the ids of QoS 2 messages not yet released.
type receiverState struct {
	known map[uint16]bool
	count map[string]int
}

// take goes through the packets of one connection in order.
func (s *receiverState) take(packets []Packet) {
	for _, p := range packets {
		if p.Type == PUBREL {
			delete(s.known, p.ID)
		} else if !s.known[p.ID] {
			s.known[p.ID] = true
			s.count[string(p.Payload)]++
		}
	}
}

// Two connections race with one client id, a thousand times, while a message is on its way to it. One survives,
// the message comes once, and the will that is sent is the loser's.
func TestTwoConnectionsRacingWithOneClientIDLeaveOne(t *testing.T) {
	rounds := 1000
	if testing.Short() {
		rounds = 100
	}
	for _, version := range []byte{4, 5} {
		t.Run(fmt.Sprintf("MQTT version %d", version), func(t *testing.T) {
			t.Parallel()
			raceForOneID(t, Start(t), version, rounds/2)
		})
	}
}

func raceForOneID(t *testing.T, b *Broker, version byte, rounds int) {
	first := Open(t, b.Addr(), Persistent(version, "contested"))
	first.Subscribe(To("data", 2))
	first.Disconnect()
	mourner := Open(t, b.Addr(), Clean(4, "mourner"))
	mourner.Subscribe(To("will/#", 0))
	probe := Open(t, b.Addr(), Clean(4, "probe"))
	state := &receiverState{known: map[uint16]bool{}, count: map[string]int{}}
	unsure := map[string]bool{} // wills that may or may not be sent
	var story []string
	defer func() {
		if t.Failed() {
			t.Logf("the last rounds:\n%s", strings.Join(story[max(0, len(story)-3):], "\n"))
		}
	}()
	for round := range rounds {
		payload := fmt.Sprint(round)
		racers, reading, started := startRace(t, b, version, payload)
		probe.Publish("data", payload, 2)
		started.Wait()
		winner, loser := survivor(t, round, racers, reading)
		Eventually(t, "the survivor gets the message of round "+payload, func() bool {
			return racers[0].has(payload) || racers[1].has(payload)
		})
		racers[winner].c.Send(Packet{Type: DISCONNECT})
		<-reading[winner]
		story = append(story, fmt.Sprintf("round %d: loser %s %v told %v got %v; winner %s %v got %v", round, racers[loser].name,
			racers[loser].connack, racers[loser].last, racers[loser].got, racers[winner].name, racers[winner].connack, racers[winner].got))
		state.take(racers[loser].got)
		state.take(racers[winner].got)
		checkRace(t, round, version, racers[winner], racers[loser])
		will := "will/" + racers[loser].name + " " + payload
		switch {
		case !IsEmanet(): // Mosquitto 2.0.11 sends none on a takeover
		case racers[loser].connack.Type == CONNACK:
			expectWill(t, mourner, will, unsure)
		default: // taken over before it was told that it was accepted
			unsure[will] = true
		}
		racers[0].c.Drop()
		racers[1].c.Drop()
		if t.Failed() {
			t.FailNow()
		}
	}
	for round := range rounds {
		if n := state.count[fmt.Sprint(round)]; n != 1 {
			t.Errorf("message %d came %d times:\n%s", round, n, strings.Join(story[max(0, round-1):min(round+2, rounds)], "\n"))
		}
	}
	probe.Publish("will/end", "end", 1)
	expectWill(t, mourner, "will/end end", unsure)
}

// startRace connects two clients of one id at once. Each channel is closed when that connection has ended.
func startRace(t *testing.T, b *Broker, version byte, payload string) (racers [2]*racer, reading [2]chan struct{}, started *sync.WaitGroup) {
	racers = [2]*racer{{name: "a", pinged: make(chan struct{})}, {name: "b", pinged: make(chan struct{})}}
	started = new(sync.WaitGroup)
	for i, r := range racers {
		r.c = Dial(t, b.Addr(), version)
		connect := Persistent(version, "contested")
		connect.Will = &Will{Topic: "will/" + r.name, Payload: payload}
		reading[i] = make(chan struct{})
		started.Go(func() { r.c.Write(connect.Bytes()) })
		go func() {
			defer close(reading[i])
			r.read()
		}()
	}
	return racers, reading, started
}

// survivor waits for the end of the race: the loser's connection ends by itself, the winner's only when we
// leave.
func survivor(t *testing.T, round int, racers [2]*racer, reading [2]chan struct{}) (winner, loser int) {
	t.Helper()
	winner = 1
	select {
	case <-reading[0]:
	case <-reading[1]:
		winner, loser = 0, 1
	}
	select {
	case <-racers[winner].pinged:
	case <-reading[winner]:
		t.Fatalf("round %d: none survived", round)
	}
	return winner, loser
}

// expectWill reads the next will, past those that may come at any time.
func expectWill(t *testing.T, mourner *Client, want string, unsure map[string]bool) {
	t.Helper()
	for {
		p := mourner.Expect(PUBLISH)
		got := p.Topic + " " + string(p.Payload)
		if got == want {
			return
		}
		if !unsure[got] {
			t.Fatalf("waiting for %s, got %s", want, got)
		}
		delete(unsure, got)
	}
}

func checkRace(t *testing.T, round int, version byte, winner, loser *racer) {
	t.Helper()
	if winner.connack.Code != 0 || !winner.connack.SessionPresent {
		t.Errorf("round %d: the survivor has %v", round, winner.connack)
	}
	if winner.last.Type == DISCONNECT {
		t.Errorf("round %d: the survivor was told to leave: %v", round, winner.last)
	}
	if IsEmanet() && version == 5 && loser.connack.Type == CONNACK && loser.last.Code != 0x8E {
		t.Errorf("round %d: the loser was told %v, not 0x8E [MQTT-3.1.4-3]", round, loser.last)
	}
}
