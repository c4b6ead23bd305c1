package broker

import (
	"fmt"
	"strings"
	"testing"

	"emanet/internal/message"
)

func TestMembersAtQoS0AreHandedWhatWaits(t *testing.T) {
	t.Parallel()
	f := setup(t, Options{})
	zero, one := f.connect("zero"), f.connect("one")
	zero.subscribe(to("$share/g/a", 0))
	one.subscribe(to("$share/g/a", 1))
	f.burst(4, 1)
	f.equal("at QoS 1", one.receive(2), []string{"2", "4"})
	zero.expectLive("1", "3")
	f.idle()
	f.equal("left", f.Gauges().GroupsPending, 0)
}

func TestAMemberAtQoS0ThatHasTooMuchLeavesTheRestToOthers(t *testing.T) {
	t.Parallel()
	f := setup(t, Options{})
	zero, one := f.connect("zero"), f.connect("one")
	zero.subscribe(to("$share/g/a", 0))
	one.subscribe(to("$share/g/a", 1))
	zero.mu.Lock()
	zero.much = true // with each message
	zero.mu.Unlock()
	f.burst(6, 1)
	one.receive(4) // more than every other one
}

func TestTheBoundOfAGroupIsThatOfASession(t *testing.T) {
	t.Parallel()
	f := setup(t, Options{MaxQueued: 5})
	c := f.members(1, 1, window(2))[0]
	f.burst(2, 1)
	f.burst(18, 1)
	f.equal("dropped", f.Counters().Dropped[0].Load(), 13)
	f.equal("got", strings.Join(c.receive(7), " "), "1 2 14 15 16 17 18")

	f = setup(t, Options{MaxQueued: 2, RejectNew: true})
	c = f.members(1, 1, window(1))[0]
	pub := f.connect("pub", clean)
	refused := 0
	for range 5 {
		out := pub.send("a", "x", 1)
		f.flushed(out.LSN)
		f.idle()
		if out.Refused {
			refused++
		}
	}
	f.equal("refused", refused, 2)
	c.receive(3)
}

func TestExpiredMessagesOfAGroupGoToNobody(t *testing.T) {
	t.Parallel()
	f := setup(t, Options{})
	c := f.members(1, 1, window(1))[0]
	pub := f.connect("pub", clean)
	for i := range 3 {
		m := &message.Message{Payload: []byte(fmt.Sprint(i)), QoS: 1, ExpiresAt: f.Now() + 50}
		f.flushed(pub.sendMessage("a", m).LSN)
	}
	f.idle()
	_, keys, _ := c.takes(1)
	f.eventually("the rest to expire", func() bool { return f.Counters().Dropped[1].Load() == 2 })
	c.settle(keys...)
	f.idle()
	f.equal("left", f.Gauges().GroupsPending, 0)
}

func TestPacketIDsOfLoansComeRound(t *testing.T) {
	t.Parallel()
	f := setup(t, Options{identifiers: 5})
	c := f.members(1, 1, window(4))[0]
	c.subscribe(to("a", 1))
	f.burst(30, 1)
	held, _, _ := c.takes(4)
	f.equal("held", len(held), 4)
	c.fail()
	c = f.connect("member0", window(4))
	count := map[string]int{}
	for _, s := range c.receive(60) {
		count[s]++
	}
	for i := range 30 {
		f.equal(fmt.Sprint(i+1), count[fmt.Sprint(i+1)], 2)
	}
}
