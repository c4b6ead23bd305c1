package mailbox

import "testing"

func TestEvictLeavesWhatLiesBetweenTheEntriesOfAnotherConsumer(t *testing.T) {
	f := setup(t, queue)
	a, b := f.attach(&consumer{}), f.attach(&consumer{})
	f.publish(2000) // each is assigned every other one
	ds := f.take(b)
	equal(t, "taken", len(ds), 1000)
	f.settle(b, keys(ds)[:500]...) // on disk, but no fold has come by
	f.store.flush()
	f.m.SetCredit(&b.Consumer, 1)
	f.detach(a)
	f.m.Evict(f.store.folded, 0)
	f.store.fold()
	f.settle(b, keys(ds)[500:700]...)
	f.publish(1000)
	f.evict()
	f.settle(b, keys(ds)[700:900]...)
	f.store.flush()
	f.detach(b)
	seen := map[uint64]bool{}
	for _, d := range f.take(f.attach(&consumer{})) {
		equal(t, "comes twice", seen[d.Seq], false)
		equal(t, "of b, and of b", d.Redelivered, d.Seq > 1800 && d.Seq <= 2000 && d.Seq%2 == ds[0].Seq%2)
		seen[d.Seq] = true
	}
	equal(t, "taken", len(seen), 2000-900+1000)
}

func TestWhatWasSettledBeforeARestartDoesNotComeBackByAnEviction(t *testing.T) {
	f := setup(t, queue)
	c := f.taking(3000, 3000)
	folded := f.store.fold()
	for seq := uint64(1000); seq < 1100; seq++ {
		f.settle(c, seq)
	}
	f.store.flush()
	f.restore(f.store.last, Sent{})
	all := pagingDefaults
	all.lowLen, all.lowBytes = 5000, 1<<30
	f.m.paging = &all
	c = f.attach(&consumer{Consumer: Consumer{Credit: 1}})
	f.settleDown()
	equal(t, "in memory", f.m.lanes[0].head.len(), 2899)
	f.m.paging = &pagingDefaults
	f.m.Evict(folded, 0) // the settlements are still to be folded
	equal(t, "on disk", f.m.lanes[0].gap.count, uint64(3000-1099))
	f.m.SetCredit(&c.Consumer, 0)
	f.expectTake(c, span(1, 999)+" "+span(1100, 3000))
}

func TestWhatWasSettledJustBeforeTheEvictedStaysAway(t *testing.T) {
	f := setup(t, queue)
	c := f.taking(3000, 3000)
	folded := f.store.fold()
	for seq := uint64(2); seq <= 300; seq++ {
		f.settle(c, seq)
	}
	f.store.flush()
	f.restore(f.store.last, Sent{})
	c = f.attach(&consumer{Consumer: Consumer{Credit: 1}})
	f.settleDown()
	f.m.Detach(&c.Consumer)
	few := pagingDefaults
	few.lowLen = 1
	f.m.paging = &few
	f.m.Evict(folded, 0)
	equal(t, "in memory", f.m.lanes[0].head.len(), 1)
	f.expectTake(f.attach(&consumer{}), "1 "+span(301, 3000))
}

func TestWhatWasDroppedBehindAWindowDoesNotComeBackByAnEviction(t *testing.T) {
	p := session
	p.MaxEntries = 1000
	f := setup(t, p)
	c := f.attach(&consumer{Consumer: Consumer{Credit: 1000}})
	for range 2500 { // unflushed: 1,000 in the window, 500 dropped, 1,000 wait
		f.add(0)
	}
	equal(t, "dropped", f.host.drops(ReasonOverflow), 500)
	f.m.Detach(&c.Consumer)
	f.store.mu.Lock()
	f.store.flushLSN = f.store.last - 1000 // the pages know the first of them, and of no drop
	f.store.mu.Unlock()
	folded := f.store.fold()
	f.m.Evict(folded, 0)
	f.store.flush()
	seen := map[uint64]bool{}
	for _, d := range f.take(f.attach(&consumer{})) {
		if seen[d.Seq] || d.Seq > 1000 && d.Seq <= 1500 {
			t.Fatalf("%d came", d.Seq)
		}
		seen[d.Seq] = true
	}
	equal(t, "taken", len(seen), 2000)
}
