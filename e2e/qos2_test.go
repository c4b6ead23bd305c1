package e2e

import (
	"fmt"
	"slices"
	"testing"

	. "emanet/e2e/harness"
)

// deaths counts down the moments at which the broker is to be killed.
type deaths map[string]int

// dies kills the broker if this is one of the moments, and starts it again.
func (d deaths) dies(b *Broker, moment string) bool {
	if d[moment] == 0 {
		return false
	}
	d[moment]--
	b.Kill9()
	b.Restart()
	return true
}

// plans are: every moment alone, every moment twice in a row, and all of them in one handshake.
func plans(moments []string) map[string]deaths {
	out := map[string]deaths{"all of them": {}}
	for _, m := range moments {
		out[m] = deaths{m: 1}
		out["twice "+m] = deaths{m: 2}
		out["all of them"][m] = 1
	}
	return out
}

// sender publishes at QoS 2 and remembers only what MQTT asks a client to keep: which message awaits which answer.
type sender struct {
	t       *testing.T
	b       *Broker
	connect Connect
	c       *Client
	deaths
}

var sendingMoments = []string{"before PUBLISH", "PUBLISH unanswered", "PUBREC lost", "before PUBREL", "PUBREL unanswered",
	"PUBCOMP lost", "after PUBCOMP"}

func (s *sender) diesAt(moment string) bool {
	s.t.Helper()
	if !s.dies(s.b, moment) {
		return false
	}
	s.c = Open(s.t, s.b.Addr(), s.connect)
	if !s.c.Connack.SessionPresent {
		s.t.Fatalf("the session was lost with the broker, %s", moment)
	}
	return true
}

func (s *sender) deliver(id uint16, topic, payload string) {
	s.t.Helper()
	p := Packet{Type: PUBLISH, QoS: 2, ID: id, Topic: topic, Payload: []byte(payload)}
	for received := false; !received; {
		if s.diesAt("before PUBLISH") {
			continue
		}
		s.c.Send(p)
		p.Dup = true
		if s.diesAt("PUBLISH unanswered") {
			continue
		}
		if rec := s.c.Expect(PUBREC); rec.ID != id || rec.Code >= 0x80 {
			s.t.Fatalf("PUBLISH %d answered by %v", id, rec)
		}
		received = !s.diesAt("PUBREC lost")
	}
	for complete := false; !complete; {
		if s.diesAt("before PUBREL") {
			continue
		}
		s.c.Send(Packet{Type: PUBREL, ID: id})
		if s.diesAt("PUBREL unanswered") {
			continue
		}
		if comp := s.c.Expect(PUBCOMP); comp.ID != id {
			s.t.Fatalf("PUBREL %d answered by %v", id, comp)
		}
		complete = !s.diesAt("PUBCOMP lost")
	}
	s.diesAt("after PUBCOMP")
}

func TestQoS2FromPublisherToBrokerIsExactlyOnceAcrossKills(t *testing.T) {
	for _, version := range []byte{4, 5} {
		t.Run(fmt.Sprintf("MQTT version %d", version), func(t *testing.T) {
			t.Parallel()
			b := Start(t)
			for name, plan := range plans(sendingMoments) {
				t.Run(name, func(t *testing.T) {
					topic := Name("topic")
					reader := Persistent(version, Name("reader"))
					r := Open(t, b.Addr(), reader)
					r.Subscribe(To(topic, 2))
					r.Disconnect()
					s := &sender{t: t, b: b, connect: Persistent(version, Name("sender")), deaths: plan}
					s.c = Open(t, b.Addr(), s.connect)
					// The third message takes the first one's id: a stale id would swallow it.
					want := []string{"one", "two", "three", "four"}
					for i, payload := range want {
						s.deliver(uint16(7+i%2), topic, payload)
					}
					got := (&receiver{t: t, b: b, connect: reader}).collect(len(want))
					expectExactly(t, b, got, want, topic, reader)
				})
			}
		})
	}
}

// receiver takes QoS 2 messages and knows duplicates by their packet id alone, as MQTT says.
type receiver struct {
	t       *testing.T
	b       *Broker
	connect Connect
	c       *Client
	known   map[uint16]bool
	deaths
}

var receivingMoments = []string{"PUBLISH lost", "before PUBREC", "PUBREC unanswered", "PUBREL lost", "before PUBCOMP",
	"PUBCOMP sent", "PUBCOMP on disk"}

func (r *receiver) diesAt(moment string) bool {
	r.t.Helper()
	if !r.dies(r.b, moment) {
		return false
	}
	r.open()
	return true
}

func (r *receiver) open() {
	r.t.Helper()
	r.c = Open(r.t, r.b.Addr(), r.connect)
	if !r.c.Connack.SessionPresent {
		r.t.Fatal("the session was lost")
	}
}

// collect takes messages until so many handshakes are complete, and gives the payloads in order of arrival.
func (r *receiver) collect(count int) (got []string) {
	r.t.Helper()
	r.known = map[uint16]bool{}
	r.open()
	for complete := map[uint16]bool{}; len(complete) < count; {
		p := r.c.Read()
		switch p.Type {
		case PUBLISH:
			if r.diesAt("PUBLISH lost") {
				continue
			}
			if !r.known[p.ID] {
				r.known[p.ID] = true
				got = append(got, string(p.Payload))
			}
			if r.diesAt("before PUBREC") {
				continue
			}
			r.c.Send(Packet{Type: PUBREC, ID: p.ID})
			r.diesAt("PUBREC unanswered")
		case PUBREL:
			if r.diesAt("PUBREL lost") {
				continue
			}
			delete(r.known, p.ID)
			if r.diesAt("before PUBCOMP") {
				continue
			}
			r.c.Send(Packet{Type: PUBCOMP, ID: p.ID})
			complete[p.ID] = true
			r.diesAt("PUBCOMP sent")
			if r.deaths["PUBCOMP on disk"] > 0 {
				r.b.Flush()
				r.diesAt("PUBCOMP on disk")
			}
		default:
			r.t.Fatalf("unexpected %v", p)
		}
	}
	r.c.Drop()
	return got
}

func TestQoS2FromBrokerToSubscriberIsExactlyOnceAcrossKills(t *testing.T) {
	for _, version := range []byte{4, 5} {
		t.Run(fmt.Sprintf("MQTT version %d", version), func(t *testing.T) {
			t.Parallel()
			b := Start(t)
			for name, plan := range plans(receivingMoments) {
				t.Run(name, func(t *testing.T) {
					topic := Name("topic")
					connect := Persistent(version, Name("receiver"))
					c := Open(t, b.Addr(), connect)
					c.Subscribe(To(topic, 2))
					c.Disconnect()
					want := []string{"one", "two", "three"}
					probe := Open(t, b.Addr(), Clean(version, Name("probe")))
					for _, payload := range want {
						probe.Publish(topic, payload, 2)
					}
					probe.Disconnect()
					got := (&receiver{t: t, b: b, connect: connect, deaths: plan}).collect(len(want))
					expectExactly(t, b, got, want, topic, connect)
				})
			}
		})
	}
}

// expectExactly compares, and publishes one more message, which must be the next new one of the session.
func expectExactly(t *testing.T, b *Broker, got, want []string, topic string, connect Connect) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("delivered %q, not %q", got, want)
	}
	c := Open(t, b.Addr(), connect)
	p := Open(t, b.Addr(), Clean(4, Name("after")))
	p.Publish(topic, "sentinel", 2)
	p.Disconnect()
	for {
		switch p := c.Read(); {
		case p.Type == PUBREL: // the last PUBCOMP was not on disk
			c.Send(Packet{Type: PUBCOMP, ID: p.ID})
		case p.Type == PUBLISH && string(p.Payload) == "sentinel":
			return
		default:
			t.Fatalf("%v came again after its handshake", p)
		}
	}
}

func TestAPublishResentUnderTheSameIDIsOneMessageWithoutAnyKill(t *testing.T) {
	t.Parallel()
	for _, version := range []byte{4, 5} {
		b, topic := Shared(t), Name("topic")
		r := Open(t, b.Addr(), Clean(version, Name("reader")))
		r.Subscribe(To(topic, 0))
		s := Open(t, b.Addr(), Clean(version, Name("sender")))
		p := Packet{Type: PUBLISH, QoS: 2, ID: 9, Topic: topic, Payload: []byte("once")}
		s.Send(p)
		s.Expect(PUBREC)
		p.Dup = true
		s.Send(p)
		s.Expect(PUBREC)
		s.Send(Packet{Type: PUBREL, ID: 9})
		s.Expect(PUBCOMP)
		r.ExpectPublish(topic, "once")
		expectNothingBefore(t, b, r, topic)
	}
}
