package broker

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestTheBoundOnSessionsCountsThoseOnDiskAndLetsEachComeBack(t *testing.T) {
	t.Parallel()
	f := setup(t, Options{MaxSessions: 2})
	f.connect("a").leaveWith(Never)
	f.connect("b")
	if _, err := f.tryConnect("c"); !errors.Is(err, ErrSessions) {
		t.Fatalf("a third session is answered by %v", err)
	}
	f.connect("d", clean)              // which is not on disk
	f.connect("a")                     // goes on
	f.connect("a", cleanStart).leave() // takes its place
	f.equal("sessions on disk", f.Sizes().Durable, int64(2))

	f.crash(kill)
	f.equal("sessions on disk after a crash", f.Sizes().Durable, int64(2))
	if _, err := f.tryConnect("c"); !errors.Is(err, ErrSessions) {
		t.Errorf("after a crash a third session is answered by %v", err)
	}
	f.connect("b", clean).leave() // ends it
	f.equal("sessions on disk after one has ended", f.Sizes().Durable, int64(1))
	f.connect("c")
}

func TestARefusedSessionLeavesTheOneOfTheSameClientIDAlone(t *testing.T) {
	t.Parallel()
	f := setup(t, Options{MaxSessions: 1})
	f.connect("a")
	guest := f.connect("guest", clean)
	if _, err := f.tryConnect("guest"); !errors.Is(err, ErrSessions) {
		t.Fatalf("a second session on disk is answered by %v", err)
	}
	f.equal("take-overs", guest.takenBy.Load(), int32(0))
	guest.send("t", "x", 0)
}

func TestTheMemoryOfRetainedMessagesIsCountedOverEverythingThatChangesIt(t *testing.T) {
	t.Parallel()
	f := setup(t, Options{RetainedMax: 10_000})
	c := f.connect("c")
	large := strings.Repeat("x", 4000)
	c.retain("a", large, 1)
	c.retain("b", large, 1)
	before := f.Sizes().RetainedBytes
	if before < 8000 || before > 10_000 {
		t.Fatalf("two of 4,000 bytes count as %d", before)
	}
	if out := c.retain("c", large, 1); !out.Refused {
		t.Error("a third is taken")
	}
	if out := c.retain("b", large+large, 1); !out.Refused {
		t.Error("one that grows beyond the bound is taken")
	}
	if out := c.retain("b", large+"yy", 1); out.Refused {
		t.Error("one that takes the place of another is refused, though there is room")
	}
	f.equal("bytes after it has grown by 2", f.Sizes().RetainedBytes, before+2)
	f.equal("refused for memory", f.counters.RetainedLarge.Load(), uint64(2))
	f.flushed(c.retain("b", large+"yy", 1).LSN)

	f.crash(kill)
	f.equal("bytes after a crash", f.Sizes().RetainedBytes, before+2)
	c = f.connect("c")
	c.retain("a", "", 1)
	c.retain("b", "", 1)
	f.equal("bytes when all is cleared", f.Sizes().RetainedBytes, int64(0))

	f.Reconfigure(Options{RetainedMax: 1000})
	if out := c.retain("a", large, 1); !out.Refused {
		t.Error("a bound that was lowered does not hold")
	}
}

func TestTheRoutesOfAClientAreBoundedByBytesAndByNumber(t *testing.T) {
	t.Parallel()
	const bound = 64 << 10
	f := setup(t, Options{RouteBytes: bound})
	for i := range 20 {
		f.connect(fmt.Sprintf("s%d", i), clean).subscribe(to("#", 0))
	}
	c := f.connect("c", clean)
	for i := range 1000 {
		c.send(fmt.Sprintf("%d/%s", i, strings.Repeat("x", 3000)), "x", 0)
		sum := 0
		for _, r := range c.routes {
			sum += r.cost()
		}
		if sum != c.routeBytes || sum > bound {
			t.Fatalf("after %d topics %d routes are counted as %d bytes, weigh %d, and %d is the bound",
				i+1, len(c.routes), c.routeBytes, sum, bound)
		}
	}
	for i := range 1000 {
		c.send(fmt.Sprint(i), "x", 0)
		if len(c.routes) > routesMax {
			t.Fatalf("%d routes are kept", len(c.routes))
		}
	}
	if f.counters.RoutesDropped.Load() == 0 {
		t.Error("nothing was dropped")
	}
	c.send(strings.Repeat("y", bound-1), "x", 0) // larger than the bound all by itself
	f.equal("routes beside one that is larger than the bound", len(c.routes), 1)
	c.send("t", "x", 0)
	f.equal("routes after it", len(c.routes), 1)
	if c.routeBytes > bound {
		t.Errorf("%d bytes are kept", c.routeBytes)
	}
}
