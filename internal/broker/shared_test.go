package broker

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestMembersOfASharedSubscriptionAreServedInRotation(t *testing.T) {
	t.Parallel()
	for _, kind := range []struct {
		name string
		edit []func(*Connect)
	}{{"persistent", nil}, {"clean", []func(*Connect){clean}}} {
		for qos := range uint8(2) {
			t.Run(fmt.Sprintf("%s at QoS %d", kind.name, qos+1), func(t *testing.T) {
				f := setup(t, Options{})
				all := f.members(3, qos+1, kind.edit...)
				f.burst(7, qos+1)
				want := [][]string{{"1", "4", "7"}, {"2", "5"}, {"3", "6"}}
				for i, c := range all {
					got, keys, _ := c.takes(len(want[i]))
					f.equal(c.ClientID(), got, want[i])
					c.settle(keys...)
				}
				f.idle()
				f.equal("left in the group", f.Gauges().GroupsPending, 0)
			})
		}
	}
}

func TestAtQoS0AConnectedMemberGetsItAtOnce(t *testing.T) {
	t.Parallel()
	f := setup(t, Options{})
	all := f.members(3, 1)
	all[1].leave()
	f.burst(4, 0)
	all[0].mu.Lock()
	got := slices.Clone(all[0].live)
	all[0].mu.Unlock()
	all[2].mu.Lock()
	got = append(got, all[2].live...)
	all[2].mu.Unlock()
	slices.Sort(got)
	f.equal("all of them", got, []string{"1", "2", "3", "4"})
	all[0].leave()
	all[2].leave()
	f.equal("matched", f.connect("other", clean).send("a", "5", 0).Matched, 1)
	f.equal("kept for nobody", f.Gauges().GroupsPending, 0)
}

func TestAMemberIsChosenAndItsOwnSubscriptionCounts(t *testing.T) { // [MQTT-4.8.2-3]
	t.Parallel()
	f := setup(t, Options{})
	a, b := f.connect("a"), f.connect("b")
	a.subscribe(Subscription{Filter: "$share/g/+", QoS: 2, RetainAsPublished: true, ID: 7})
	b.subscribe(Subscription{Filter: "$share/g/+", QoS: 1, ID: 9})
	pub := f.connect("pub")
	for i := range 2 {
		pub.retain("t", fmt.Sprint(i+1), 2)
	}
	f.idle()
	got, keys, _ := a.takes(1)
	f.equal("with its flag and identifier", got, []string{"1!#7"})
	f.equal("as published", a.take(), "[]")
	if e, ok := a.InFlight(keys[0]); !ok || e.Attr&AttrQoS != 2 {
		t.Fatalf("%+v %v", e, ok)
	}
	got, keys, _ = b.takes(1)
	f.equal("with its own", got, []string{"2#9"})
	if e, ok := b.InFlight(keys[0]); !ok || e.Attr&AttrQoS != 1 {
		t.Fatalf("%+v %v", e, ok)
	}
}

func TestASharedSubscriptionGetsNoRetainedMessages(t *testing.T) {
	t.Parallel()
	f := setup(t, Options{})
	f.connect("pub", clean).retain("a", "kept", 1)
	c := f.members(1, 1)[0]
	f.equal("walking", c.Walking(), false)
	f.equal("at QoS 0", c.walk(), "[]")
	f.equal("above", c.take(), "[]")
}

func TestAMessageGoesToEachGroupAndToPlainSubscriptionsBeside(t *testing.T) {
	t.Parallel()
	f := setup(t, Options{})
	c := f.connect("c")
	c.subscribe(to("a", 1), to("$share/g/a", 1), to("$share/h/#", 1), to("$share/g/+", 1))
	f.equal("matched", f.connect("pub", clean).send("a", "x", 1).Matched, 4)
	got, keys, _ := c.takes(4)
	f.equal("got", got, []string{"x", "x", "x", "x"})
	c.settle(keys...)
	f.idle()
	g := f.Gauges()
	f.equal("left", g.GroupsPending+g.Pending, 0)
	f.equal("groups, subscriptions", fmt.Sprint(g.Groups, g.Subscriptions), "3 4")
}

func TestAMemberHoldsNoMoreThanItsWindow(t *testing.T) {
	t.Parallel()
	f := setup(t, Options{})
	slow := f.connect("slow", window(1))
	slow.subscribe(to("$share/g/a", 1))
	other := f.connect("other", window(3))
	other.subscribe(to("$share/g/a", 1))
	f.burst(20, 1)
	got, _, _ := slow.takes(1)
	f.equal("the slow one's", got, []string{"1"})
	f.equal("the other's", other.receive(19)[18], "20")
	f.idle()
	f.equal("the slow one's again", slow.take(), "[]")
}

func TestWhatAMemberWasNotSentGoesToOthersWhenItLeaves(t *testing.T) {
	t.Parallel()
	for _, how := range []struct {
		name string
		part func(*conn)
	}{
		{"disconnects", (*conn).fail},
		{"unsubscribes", func(c *conn) {
			if _, _, err := c.Unsubscribe([]string{"$share/g/a"}); err != nil {
				c.f.Fatal(err)
			}
		}},
		{"begins anew", func(c *conn) { c.gone = true; c.f.connect(c.ClientID(), cleanStart) }},
	} {
		for qos := range uint8(2) {
			t.Run(fmt.Sprintf("%s at QoS %d", how.name, qos+1), func(t *testing.T) {
				f := setup(t, Options{})
				all := f.members(2, qos+1)
				f.burst(10, qos+1) // all are assigned, none is taken
				how.part(all[0])
				f.idle()
				got := all[1].receive(10)
				slices.SortFunc(got, func(a, b string) int { return len(a)*100 + strings.Compare(a, b) - len(b)*100 })
				f.equal("got", strings.Join(got, " "), "1 2 3 4 5 6 7 8 9 10")
			})
		}
	}
}

func TestWhatAPersistentMemberWasSentAtQoS1ComesBackToItWithDUP(t *testing.T) { // [MQTT-4.4.0-1]
	t.Parallel()
	f := setup(t, Options{})
	all := f.members(2, 1)
	f.burst(4, 1)
	got, keys, _ := all[0].takes(2)
	all[0].fail()
	f.idle()
	f.equal("the other's", all[1].receive(2), []string{"2", "4"})
	back := f.connect("member0")
	again, keysAgain, dup := back.takes(2)
	f.equal("the same", fmt.Sprint(again, keysAgain, dup), fmt.Sprint(got, keys, []bool{true, true}))
	back.settle(keysAgain...)
	f.idle()
	f.equal("left in the group", f.Gauges().GroupsPending, 0)
}

func TestATakeoverKeepsWhatWasSent(t *testing.T) {
	t.Parallel()
	f := setup(t, Options{})
	f.members(1, 1)[0].send("a", "1", 1)
	first := f.conns[0]
	_, keys, _ := first.takes(1)
	second := f.connect("member0")
	_, keysAgain, dup := second.takes(1)
	f.equal("the same", fmt.Sprint(keysAgain, dup), fmt.Sprint(keys, []bool{true}))
	first.settle(keys...) // too late: nothing of a loser takes effect
	f.equal("still there", f.Gauges().GroupsPending, 1)
	second.settle(keys...)
	f.idle()
	f.equal("left", f.Gauges().GroupsPending, 0)
}

func TestWhatAMemberWasSentAtQoS1GoesToAnotherWhenItsSessionEnds(t *testing.T) {
	t.Parallel()
	for _, end := range []struct {
		name string
		edit func(*Connect)
		part func(*conn)
	}{
		{"a clean one's", clean, (*conn).fail},
		{"by its expiry at once", expiry(100), func(c *conn) { c.leaveWith(0) }},
		{"by a clean start", expiry(100), func(c *conn) { c.gone = true; c.f.connect(c.ClientID(), cleanStart) }},
	} {
		t.Run(end.name, func(t *testing.T) {
			f := setup(t, Options{})
			stays := f.connect("stays")
			stays.subscribe(to("$share/g/a", 1))
			ends := f.connect("ends", end.edit)
			ends.subscribe(to("$share/g/a", 1))
			f.burst(4, 1)
			_, _, _ = ends.takes(2)
			f.equal("its own", stays.receive(2), []string{"1", "3"})
			end.part(ends)
			got, keys, again := stays.takes(2)
			f.equal("the other's", fmt.Sprint(got, again), fmt.Sprint([]string{"2", "4"}, []bool{true, true}))
			stays.settle(keys...)
			f.idle()
			f.equal("left", f.Gauges().GroupsPending, 0)
		})
	}
}

func TestWhatWasSentBeforeUnsubscribingIsCompletedWithTheMember(t *testing.T) { // [MQTT-3.10.4-3]
	t.Parallel()
	f := setup(t, Options{})
	all := f.members(2, 1)
	f.burst(2, 1)
	_, keys, _ := all[0].takes(1)
	if _, _, err := all[0].Unsubscribe([]string{"$share/g/a"}); err != nil {
		t.Fatal(err)
	}
	f.equal("the other's", all[1].receive(1), []string{"2"})
	f.idle()
	f.equal("with the member", f.Gauges().GroupsPending, 1)
	all[0].settle(keys...)
	f.idle()
	f.equal("left", f.Gauges().GroupsPending, 0)
	all[0].subscribe(to("$share/g/a", 1))
	f.burst(2, 1)
	f.equal("a member again", len(all[0].receive(1))+len(all[1].receive(1)), 2)
}

func TestAQoS2MessageStaysWithTheMemberItWasSentTo(t *testing.T) { // [MQTT-4.8.2-4], [MQTT-4.8.2-5]
	t.Parallel()
	f := setup(t, Options{})
	all := f.members(2, 2)
	f.burst(2, 2)
	got, keys, _ := all[0].takes(1)
	f.equal("got", got, []string{"1"})
	all[0].fail()
	f.idle()
	f.crash(cut)
	other := f.connect("member1")
	f.equal("the other's alone", other.receive(1), []string{"2"})
	back := f.connect("member0")
	again, keysAgain, dup := back.takes(1)
	f.equal("the same", fmt.Sprint(again, keysAgain, dup), fmt.Sprint(got, keys, []bool{true}))
	back.leaveWith(0)
	f.idle()
	f.equal("nobody else gets it", other.take(), "[]")
}

func TestACleanMemberIsSentAQoS2MessageWhenTheGroupHasSettledIt(t *testing.T) {
	t.Parallel()
	f := setup(t, Options{})
	f.connect("persistent").subscribe(to("$share/g/a", 2))
	f.conns[0].leave()
	c := f.connect("clean", clean)
	c.subscribe(to("$share/g/a", 2))
	pub := f.connect("pub", clean)
	out := pub.send("a", "1", 2)
	f.flushed(out.LSN)
	f.idle()
	_, keys, _ := c.takes(1)
	if lsn, ok, err := c.Release(keys[0]); !ok || err != nil || lsn > f.Flushed() {
		t.Fatalf("%d %v %v", lsn, ok, err)
	}
	f.crash(cut)
	f.equal("left in the group", f.Gauges().GroupsPending, 0)
}

func TestARefusedMessageIsDiscarded(t *testing.T) { // [MQTT-4.8.2-6]
	t.Parallel()
	f := setup(t, Options{})
	all := f.members(2, 2)
	f.burst(1, 2)
	_, keys, _ := all[0].takes(1)
	all[0].settle(keys...) // PUBREC with 0x80 or above
	all[0].leaveWith(0)
	f.idle()
	f.equal("the other's", all[1].take(), "[]")
}
