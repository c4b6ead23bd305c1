package e2e

import (
	"fmt"
	"strconv"
	"testing"

	. "emanet/e2e/harness"
)

// A subscriber that comes while values change must end with the newest: a retained value that is read beside the
// live ones must not arrive after a newer live one.
func TestARetainedValueNeverComesAfterANewerLiveOne(t *testing.T) {
	t.Parallel()
	b, topic := Shared(t), Name("value")
	p := Open(t, b.Addr(), Clean(4, Name("p")))
	stop, done := make(chan struct{}), make(chan int, 1)
	go func() {
		n := 0
		defer func() { done <- n }()
		for {
			select {
			case <-stop:
				return
			default:
			}
			p.Send(Packet{Type: PUBLISH, QoS: 1, ID: uint16(n%60_000 + 1), Retain: true, Topic: topic, Payload: fmt.Append(nil, n)})
			if answer, err := p.TryRead(Patience); err != nil || answer.Type != PUBACK {
				return
			}
			n++
		}
	}()
	retained := 0
	for range 200 {
		c := Open(t, b.Addr(), Clean(5, Name("c")))
		c.Write(SubscribeBytes(5, 1, nil, To(topic, 0)))
		newest := -1
		for range 8 {
			m := c.Read()
			if m.Type != PUBLISH {
				continue
			}
			n, err := strconv.Atoi(string(m.Payload))
			if err != nil {
				t.Fatalf("%v", m)
			}
			if n < newest {
				t.Errorf("%v came after %d", m, newest)
			}
			newest = max(newest, n)
			if m.Retain {
				retained++
			}
		}
		c.Drop()
	}
	close(stop)
	if n := <-done; n < 100 || retained < 100 {
		t.Errorf("%d values were published and %d came as retained: too few to tell", n, retained)
	}
}

func TestRetainedValuesOfManyTopicsAllComeAndPayloadsStayApart(t *testing.T) {
	t.Parallel()
	b, base := Shared(t), Name("many")
	const topics = 3000 // more than one read of a cursor, and more than a window
	p := Open(t, b.Addr(), Clean(4, Name("p")))
	acked := 0
	for i := range topics {
		p.Send(Packet{Type: PUBLISH, QoS: 1, ID: uint16(i + 1), Retain: true, Topic: fmt.Sprintf("%s/%d", base, i), Payload: fmt.Append(nil, i)})
		for ; i-acked > 100; acked++ {
			p.Expect(PUBACK)
		}
	}
	for ; acked < topics; acked++ {
		p.Expect(PUBACK)
	}
	for _, qos := range []byte{0, 1} {
		c := Open(t, b.Addr(), Clean(5, Name("c")))
		c.Subscribe(To(base+"/+", qos))
		seen := map[string]bool{}
		for range topics {
			m := c.Expect(PUBLISH)
			if m.Topic != base+"/"+string(m.Payload) || !m.Retain || seen[m.Topic] {
				t.Fatalf("%v", m)
			}
			seen[m.Topic] = true
			if m.QoS == 1 {
				c.Ack(m)
			}
		}
	}
	for i := range topics { // leave nothing to other tests
		p.PublishPacket(Packet{Topic: fmt.Sprintf("%s/%d", base, i), Retain: true})
	}
}
