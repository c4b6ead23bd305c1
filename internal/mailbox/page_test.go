package mailbox

import (
	"math/rand/v2"
	"slices"
	"testing"

	"emanet/internal/store"
)

func TestEvictKeepsTheNextAndReadsTheRestWhenItIsDue(t *testing.T) {
	f := setup(t, queue)
	f.publish(3000)
	full := f.m.Status().Memory
	freed := f.evict()
	equal(t, "memory", f.m.Status().Memory, full-freed)
	equal(t, "in memory", f.m.Status().Memory, int64(pagingDefaults.lowLen)*full/3000)
	equal(t, "status", f.status(), "ready 3000, in flight 0, bytes 30000")
	f.publish(5)
	f.expectTake(f.attach(&consumer{}), span(1, 3005))
}

func TestOnlyWhatIsFoldedIsEvicted(t *testing.T) {
	f := setup(t, queue)
	f.publish(1000)
	folded := f.store.fold()
	f.publish(1000)
	f.m.Evict(folded, 0)
	equal(t, "in the gap", f.m.lanes[0].gap.count, uint64(1000-pagingDefaults.lowLen))
	equal(t, "nothing is folded", f.m.Evict(0, 0), 0)
	f.expectTake(f.attach(&consumer{}), span(1, 2000))
}

func TestNothingFoldedMeansNothingEvicted(t *testing.T) {
	f := setup(t, queue)
	f.publish(1000)
	equal(t, "freed", f.m.Evict(0, 0), 0)
	equal(t, "gap", f.m.lanes[0].gap.count, 0)
	equal(t, "joined again", f.m.lanes[0].head.len(), 1000)
}

func TestPagedEntriesKeepEverythingTheyHad(t *testing.T) {
	p := queue
	p.TTL = 1000
	f := setup(t, p)
	for i := range 1000 {
		msg := bodyOf(10 + i%7)
		b := f.store.begin()
		e := entryOf(msg)
		b.Message(msg, &e.MessageID)
		msg.ID = e.MessageID
		e.Attr, e.Tag, e.Priority = uint8(i), string(rune('a'+i%20)), uint8(i%2)
		f.m.Append(b, e, false)
		b.Commit()
	}
	f.evict()
	ds := f.take(f.attach(&consumer{}))
	equal(t, "taken", len(ds), 1000)
	for _, d := range ds {
		i := int(d.Seq - 1)
		ok := d.Attr == uint8(i) && d.Tag == string(rune('a'+i%20)) && d.Priority == uint8(i%2) &&
			len(d.Message.Payload) == 9+i%7 && d.ExpiresAt == f.host.Now()+1000 && d.Message.ID == d.Seq
		if !ok {
			t.Fatalf("delivery %+v", d)
		}
	}
}

// scale is how many entries the large paging tests move.
func scale(n int) int {
	if raceEnabled || testing.Short() {
		return n / 10
	}
	return n
}

func TestAMillionEntriesPassInOrderInBoundedMemory(t *testing.T) {
	n := scale(1_000_000)
	f := setup(t, queue)
	c := f.attach(&consumer{Consumer: Consumer{Credit: 500}})
	r := rand.New(rand.NewPCG(1, 2))
	added, taken := 0, uint64(0)
	var unsettled []uint64
	var most int64
	for int(taken) < n {
		if added < n { // the publisher is ahead by far
			k := min(n-added, 5000+r.IntN(5000))
			for range k {
				f.add(0)
			}
			added += k
			f.evict()
			most = max(most, f.m.Status().Memory)
		}
		rounds := 1 + r.IntN(5)
		if added == n {
			rounds = 100
		}
		for range rounds {
			ds := f.m.Take(&c.Consumer, nil)
			for _, d := range ds {
				if taken++; d.Seq != taken {
					t.Fatalf("taken %d, want %d", d.Seq, taken)
				}
			}
			unsettled = append(unsettled, keys(ds)...)
			keep := r.IntN(300)
			if added == n {
				keep = 0
			}
			if done := len(unsettled) - keep; done > 0 {
				f.settle(c, unsettled[:done]...)
				unsettled = slices.Delete(unsettled, 0, done)
				f.store.flush()
			}
			f.settleDown()
		}
	}
	f.settle(c, unsettled...)
	f.expectEmpty()
	perEntry := int64(itemOverhead) + bodyOf(10).Cost()
	if limit := perEntry * int64(pagingDefaults.loadLen+2*pagingDefaults.lowLen+500+chunkLen); most > limit {
		t.Errorf("memory came to %d bytes, limit %d", most, limit)
	}
	if f.store.longest > pagingDefaults.loadLen {
		t.Errorf("a load read %d entries", f.store.longest)
	}
}

func TestAConsumerFasterThanTheLoadsWaitsForThem(t *testing.T) {
	f := setup(t, queue)
	f.publish(5000)
	f.store.fold()
	f.restore(f.store.last, Sent{})
	gate := make(chan struct{})
	f.store.gate = gate
	c := f.attach(&consumer{})
	equal(t, "taken while the load is under way", show(f.m.Take(&c.Consumer, nil)), "")
	f.publish(10) // these are in memory, but it is not their turn
	equal(t, "taken while the load is under way", show(f.m.Take(&c.Consumer, nil)), "")
	close(gate)
	f.expectTake(c, span(1, 5010))
}

func TestALaneOnDiskHidesThoseBelowIt(t *testing.T) {
	f := setup(t, queue)
	f.add(9)
	f.store.flush()
	f.store.fold()
	f.restore(f.store.last, Sent{})
	f.publish(1)
	gate := make(chan struct{})
	f.store.gate = gate
	c := f.attach(&consumer{})
	equal(t, "taken while the load is under way", show(f.m.Take(&c.Consumer, nil)), "")
	close(gate)
	f.expectTake(c, "1 2")
}

func TestPurgeTakesWhatIsInMemoryAndOnDiskAndLeavesWhatIsInFlight(t *testing.T) {
	f := setup(t, queue)
	c := f.taking(3000, 3)
	f.evict()
	f.publish(10)
	f.m.SetCredit(&c.Consumer, 1)
	f.requeue(c, 2)
	equal(t, "purged", f.purge(), 3008)
	f.expectLive(1, 3)
	equal(t, "status", f.status(), "ready 0, in flight 2, bytes 0")
	equal(t, "counted", f.host.drops(ReasonPurged), 3008)
	f.publish(2)
	f.m.SetCredit(&c.Consumer, 0)
	f.m.Wake()
	f.expectTake(c, "3011 3012")
	f.settle(c, 1, 3, 3011, 3012)
	f.expectEmpty()
}

func (f *fixture) purge() uint64 {
	b, _ := f.store.Begin(store.Control, PurgeSize)
	n := f.m.Purge(b)
	b.Commit()
	return n
}

func TestPurgeDuringALoadVoidsIt(t *testing.T) {
	f := setup(t, queue)
	f.publish(2000)
	f.store.fold()
	f.restore(f.store.last, Sent{})
	gate := make(chan struct{})
	f.store.gate = gate
	c := f.attach(&consumer{})
	equal(t, "purged", f.purge(), 2000)
	equal(t, "memory", f.m.Status().Memory, 0)
	f.publish(3) // not evicted meanwhile, nor mixed up with what the load brings
	f.store.flush()
	close(gate)
	f.expectTake(c, "2001 2002 2003")
	f.settle(c, 2001, 2002, 2003)
	f.expectEmpty()
}

func TestPurgeOfScatteredEntriesKeepsToItsSize(t *testing.T) {
	for _, taken := range []bool{true, false} {
		f := setup(t, queue)
		a, b := f.attach(&consumer{}), f.attach(&consumer{})
		f.publish(6000)
		if taken {
			f.take(a)
		}
		f.take(b)
		f.m.SetCredit(&b.Consumer, 1)
		f.detach(a) // 3,000 come back, each between two in flight
		var calls, total uint64
		for n := f.purge(); n > 0; n = f.purge() {
			calls++
			total += n
		}
		equal(t, "calls", calls, 3)
		equal(t, "purged", total, 3000)
		equal(t, "status", f.status(), "ready 0, in flight 3000, bytes 0")
	}
}

func TestCloseDuringALoadIsFine(t *testing.T) {
	f := setup(t, queue)
	f.publish(2000)
	f.store.fold()
	f.restore(f.store.last, Sent{})
	gate := make(chan struct{})
	f.store.gate = gate
	f.attach(&consumer{})
	f.m.Close()
	close(gate)
	f.waitLoad()
	equal(t, "status", f.m.Status(), Status{NextSeq: 2001})
}
