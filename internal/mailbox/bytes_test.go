package mailbox

import (
	"testing"

	"emanet/internal/message"
)

// large is a body of which few are many bytes.
const large = 100 << 10

func (f *fixture) publishLarge(n int) {
	for range n {
		f.addMessage(bodyOf(large), 0)
	}
	f.store.flush()
}

// onDisk restarts so that all there is is only on disk.
func (f *fixture) onDisk(sent Sent) {
	f.store.fold()
	f.restore(f.store.last, sent)
	equal(f.t, "memory", f.m.Status().Memory, 0)
}

func (f *fixture) expectMemoryBelow(limit int64) {
	f.t.Helper()
	if got := f.m.Status().Memory; got > limit {
		f.t.Errorf("%d bytes are in memory, limit %d", got, limit)
	}
}

func TestALoadOfLargeBodiesEndsByTheirBytes(t *testing.T) {
	f := setup(t, queue)
	f.publishLarge(50)
	f.onDisk(Sent{})
	c := f.attach(&consumer{Consumer: Consumer{Credit: 1}})
	f.settleDown()
	f.expectMemoryBelow(pagingDefaults.loadBytes + pagingDefaults.lowBytes + 2*large)
	f.m.SetCredit(&c.Consumer, 0)
	f.expectTake(c, span(1, 50))
}

func TestWhatWasSentBeforeARestartIsReadAsItIsNeeded(t *testing.T) {
	f := setup(t, session)
	f.publishLarge(50)
	f.onDisk(Sent{High: 50})
	c := f.attach(&consumer{Consumer: Consumer{Credit: 1}})
	f.settleDown()
	f.expectMemoryBelow(pagingDefaults.loadBytes + pagingDefaults.lowBytes + 2*large)
	equal(t, "more was sent than is read", f.m.Resuming(), true)
	for seq := range uint64(50) {
		ds := f.expectTake(c, span(seq+1, seq+1)+"+")
		f.settle(c, keys(ds)...)
		f.store.flush()
	}
	f.expectEmpty()
}

func TestEvictKeepsFewOfLargeBodies(t *testing.T) {
	f := setup(t, queue)
	f.publishLarge(50)
	f.evict()
	f.expectMemoryBelow(pagingDefaults.lowBytes + large)
	f.expectTake(f.attach(&consumer{}), span(1, 50))
}

func TestEvictKeepsTheNextOneWhateverItsSize(t *testing.T) {
	f := setup(t, queue)
	for range 3 {
		f.addMessage(bodyOf(8<<20), 0)
	}
	f.evict()
	f.expectMemoryBelow(9 << 20)
	equal(t, "in memory", f.m.lanes[0].head.len(), 1)
	f.expectTake(f.attach(&consumer{}), "1 2 3")
}

func TestWhatWasLoadedForAConsumerThatWentIsEvictedAgain(t *testing.T) {
	f := setup(t, queue)
	f.publishLarge(50)
	f.onDisk(Sent{})
	c := f.attach(&consumer{Consumer: Consumer{Credit: 1}})
	f.settleDown()
	f.m.Detach(&c.Consumer)
	f.evict()
	f.expectMemoryBelow(pagingDefaults.lowBytes + 2*large)
	equal(t, "status", f.status(), "ready 50, in flight 0, bytes 5120000")
	f.expectTake(f.attach(&consumer{}), span(1, 50))
}

// clean is the policy of a session that ends with its connection.
var clean = Policy{Identifiers: 65535, MaxEntries: 100_000, MaxBytes: 1 << 20}

func TestWhatNeverGoesToDiskIsBoundedByBytes(t *testing.T) {
	f := setup(t, clean)
	f.publishLarge(50)
	equal(t, "dropped", f.host.drops(ReasonOverflow), 40)
	f.expectMemoryBelow(clean.MaxBytes + 50*itemOverhead)
}

func TestPropertiesCountWhereTheyTakeMemory(t *testing.T) {
	f := setup(t, clean)
	for range 50 {
		msg := bodyOf(1)
		msg.Properties = &message.Properties{User: []message.Pair{{Key: "k", Value: string(make([]byte, large))}}}
		f.addMessage(msg, 0)
	}
	f.expectMemoryBelow(clean.MaxBytes + 50*itemOverhead)
}

func TestTheWindowOfWhatNeverGoesToDiskIsBoundedByBytesToo(t *testing.T) {
	f := setup(t, clean)
	c := f.attach(&consumer{Consumer: Consumer{Credit: 1000, UnsentMax: 1}})
	for range 50 {
		f.addMessage(bodyOf(large), 0)
		f.m.Wake()
	}
	f.expectMemoryBelow(clean.MaxBytes + pagingDefaults.lowBytes + 3*large)
	equal(t, "the first taken", show(f.m.Take(&c.Consumer, nil)), "1")
}

func TestAMessageLargerThanTheBoundReachesAConsumerThatWaitsForIt(t *testing.T) {
	f := setup(t, clean)
	c := f.attach(&consumer{Consumer: Consumer{Credit: 10}})
	f.addMessage(bodyOf(2<<20), 0)
	f.m.Wake()
	f.expectTake(c, "1")
}
