package broker

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"emanet/internal/message"
)

// takes waits for n deliveries without acknowledging them.
func (c *conn) takes(n int) (got []string, keys []uint64, again []bool) {
	c.f.Helper()
	c.f.eventually(fmt.Sprint(n, " deliveries"), func() bool {
		for _, d := range c.take() {
			got = append(got, show(d.Message, d.Attr, d.Tag))
			keys = append(keys, d.Key)
			again = append(again, d.Redelivered)
		}
		return len(got) >= n
	})
	c.f.equal("deliveries", len(got), n)
	return got, keys, again
}

func (c *conn) settle(keys ...uint64) {
	c.f.Helper()
	if err := c.Settle(keys); err != nil {
		c.f.Fatal(err)
	}
}

// idle waits until the groups have handed out what they can.
func (f *fixture) idle() {
	f.Helper()
	f.settled()
	f.idleNow()
}

// idleNow is idle for what waits for no flush.
func (f *fixture) idleNow() {
	f.Helper()
	f.eventually("the groups to rest", func() bool {
		for _, g := range f.groups.all() {
			g.pump.mu.Lock()
			running := g.pump.running
			g.pump.mu.Unlock()
			if running {
				return false
			}
		}
		return true
	})
}

// awaitGroups waits until so many groups are on disk, or in memory.
func (f *fixture) awaitGroups(n int) {
	f.Helper()
	f.eventually("groups to go", func() bool {
		b, err := f.control(0)
		if err != nil {
			f.Fatal(err)
		}
		defer b.Abort()
		return len(f.groups.byKey) == n
	})
}

func (f *fixture) members(n int, qos uint8, edit ...func(*Connect)) (all []*conn) {
	for i := range n {
		c := f.connect(fmt.Sprint("member", i), edit...)
		c.subscribe(to("$share/g/a", qos))
		all = append(all, c)
	}
	return all
}

func (f *fixture) burst(n int, qos uint8) {
	f.Helper()
	pub := f.connect("pub", clean)
	var last Outcome
	for i := range n {
		last = pub.send("a", fmt.Sprint(i+1), qos)
	}
	f.flushed(last.LSN)
	f.idle()
}

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

func TestAGroupOutlivesACrashWithAllItsMembersAway(t *testing.T) {
	t.Parallel()
	f := setup(t, Options{})
	for _, c := range f.members(2, 1) {
		c.leave()
	}
	f.burst(50, 1)
	f.crash(cut)
	f.equal("found", fmt.Sprint(f.Found().Messages, f.Gauges().Groups), "50 1")
	f.crash(kill)
	c := f.connect("member1")
	f.equal("the last", c.receive(50)[49], "50")
}

func TestLoansAreOverAfterACrash(t *testing.T) {
	t.Parallel()
	f := setup(t, Options{})
	all := f.members(2, 1)
	f.burst(6, 1)
	_, keys, _ := all[0].takes(3)
	all[0].settle(keys[0])
	f.settled()
	f.crash(cut)
	other := f.connect("member1")
	f.equal("all of the rest", strings.Join(other.receive(5), " "), "2 3 4 5 6")
	back := f.connect("member0")
	f.idle()
	f.equal("the first one's", back.take(), "[]")
	// Packet ids go on behind those that were loans.
	pub := f.connect("pub", clean)
	back.subscribe(to("b", 2))
	f.flushed(pub.send("b", "plain", 2).LSN)
	_, newKeys, dup := back.takes(1)
	f.equal("not sent before", dup, []bool{false})
	_ = newKeys
}

func TestASeqOnLoanIsNotGivenAgainAfterACleanDetach(t *testing.T) {
	t.Parallel()
	f := setup(t, Options{})
	c := f.members(1, 1)[0]
	f.burst(3, 1)
	_, keys, _ := c.takes(3)
	c.fail()
	f.settled()
	f.crash(cut)
	back := f.connect("member0")
	_, keysAgain, _ := back.takes(3)
	for _, k := range keysAgain {
		if slices.Contains(keys, k) {
			t.Fatalf("keys %v, and then %v", keys, keysAgain)
		}
	}
}

func TestAGroupInMemoryBecomesDurableWithItsFirstPersistentMember(t *testing.T) {
	t.Parallel()
	f := setup(t, Options{})
	c := f.connect("clean", clean, window(1))
	c.subscribe(to("$share/g/a", 2))
	pub := f.connect("pub", clean)
	for i := range 5 {
		f.equal("waits for nothing", pub.send("a", fmt.Sprint(i+1), 1+uint8(i%2)).LSN, 0)
	}
	f.idle()
	p := f.connect("persistent")
	p.subscribe(to("$share/g/a", 2))
	f.equal("waits", pub.send("a", "6", 1).LSN > 0, true)
	f.equal("the rest", strings.Join(p.receive(5), " "), "2 3 4 5 6")
	f.equal("its own", c.receive(1), []string{"1"})
	f.flushed(pub.send("a", "7", 1).LSN)
	f.crash(cut)
	f.equal("after a crash", f.connect("persistent").receive(1), []string{"7"})
}

func TestAGroupEndsWithItsLastMember(t *testing.T) {
	t.Parallel()
	f := setup(t, Options{})
	all := f.members(2, 1)
	all[0].leave()
	all[1].leave()
	f.burst(3, 1)
	f.connect("member0", cleanStart).leave()
	f.equal("still there", f.Gauges().GroupsPending, 3)
	f.connect("member1", cleanStart).subscribe(to("$share/h/a", 1))
	f.equal("dropped", f.Counters().Dropped[2].Load(), 3)
	f.awaitGroups(1)
	f.settled()
	f.crash(cut)
	f.equal("groups", f.Gauges().Groups, 1)
}

func TestAGroupThatACrashFindsWithoutMembersIsRemovedAtTheStart(t *testing.T) {
	t.Parallel()
	f := setup(t, Options{})
	c := f.members(1, 1)[0]
	c.leave()
	f.burst(1, 1)
	f.due.close() // so that nothing comes between
	b, err := f.control(recordSize("member0"))
	if err != nil {
		t.Fatal(err)
	}
	f.sessions.byID["member0"].drop(b, 0)
	f.flushed(b.Commit())
	f.due = newDeadlines(f.Now)
	go f.due.loop()
	f.crash(cut)
	f.equal("groups", f.Gauges().Groups, 0)
	f.awaitGroups(0)
	f.settled()
	f.crash(cut)
	f.equal("found", f.Found().Messages, 0)
}

func TestAGroupOfTheSameNameBeginsAnew(t *testing.T) {
	t.Parallel()
	f := setup(t, Options{})
	c := f.members(1, 1)[0]
	f.burst(3, 1)
	for range 3 {
		if _, _, err := c.Unsubscribe([]string{"$share/g/a"}); err != nil {
			t.Fatal(err)
		}
		c.subscribe(to("$share/g/a", 1))
	}
	f.flushed(f.connect("pub", clean).send("a", "new", 1).LSN)
	f.crash(cut)
	f.equal("got", f.connect("member0").receive(1), []string{"new"})
	f.equal("groups", f.Gauges().Groups, 1)
}

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
