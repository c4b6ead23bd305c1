package broker

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

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
