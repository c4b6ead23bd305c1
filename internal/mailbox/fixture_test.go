package mailbox

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"emanet/internal/message"
	"emanet/internal/store"
)

// tb is what *testing.T and *rapid.T share.
type tb interface {
	Helper()
	Errorf(format string, args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// fixture is a mailbox on a fake store, with its host.
type fixture struct {
	t      tb
	store  *fakeStore
	host   *fakeHost
	m      *Mailbox
	id     uint64
	policy Policy
	paging *paging // not the usual one, also after a restart; nil: it is
}

// session is the policy of an MQTT session.
var session = Policy{Durable: true, Identifiers: 65535}

// queue is the policy of an AMQP queue.
var queue = Policy{Durable: true}

func setup(t tb, p Policy) *fixture {
	f := &fixture{t: t, store: newFakeStore(), host: &fakeHost{}, policy: p}
	f.host.clock.Store(1_000_000)
	if p.Durable {
		b := f.store.begin()
		f.id = b.MailboxCreate()
		b.Commit()
		f.store.flush()
	}
	f.m = New(f.store, f.host, f.id, p)
	return f
}

func bodyOf(size int) *message.Message {
	return &message.Message{Topic: "t", Payload: make([]byte, size-1), QoS: 1}
}

// add appends an entry with a body of 10 bytes and returns its seq; it is not flushed.
func (f *fixture) add(priority uint8) uint64 { return f.addMessage(bodyOf(10), priority) }

func (f *fixture) addMessage(msg *message.Message, priority uint8) uint64 {
	size := store.SizeMessage + msg.EncodedMax() + store.SizeEntry + store.SizeSettle
	if f.policy.Overflow == DeadLetterOldest {
		size += TrimLen * store.SizeEntry
	}
	b, _ := f.store.Begin(store.Publish, size)
	e := store.Entry{Message: msg, Priority: priority}
	if f.policy.Durable {
		b.Message(msg, &e.MessageID)
		msg.ID = e.MessageID
	}
	seq := f.m.Append(b, e, false)
	b.Commit()
	return seq
}

// publish appends and flushes n entries.
func (f *fixture) publish(n int) {
	for range n {
		f.add(0)
	}
	f.store.flush()
}

// consumer is a consumer that takes when told.
type consumer struct {
	Consumer
	wakes atomic.Int64
}

func (f *fixture) attach(c *consumer) *consumer {
	if c.UnsentMax == 0 {
		c.UnsentMax = 1 << 30
	}
	c.Wake = func() { c.wakes.Add(1) }
	b := f.store.begin()
	f.m.Attach(b, &c.Consumer)
	b.Commit()
	f.m.Wake()
	return c
}

func (f *fixture) detach(c *consumer) {
	f.m.Detach(&c.Consumer)
	f.m.Wake()
}

// take takes everything the consumer may have.
func (f *fixture) take(c *consumer) []Delivery {
	f.settleDown()
	var all []Delivery
	for {
		n := len(all)
		all = f.m.Take(&c.Consumer, all)
		f.settleDown()
		if len(all) == n {
			return all
		}
	}
}

// settleDown waits until nothing is being read and all that may be assigned is: a Wake that starts no load
// has done all there is to do.
func (f *fixture) settleDown() {
	for range 1_000_000 {
		f.waitLoad()
		reads := f.store.readCount()
		f.m.Wake()
		f.waitLoad()
		if f.store.readCount() == reads {
			return
		}
	}
	f.t.Fatal("loads without end")
}

func (f *fixture) waitLoad() {
	f.t.Helper()
	poll(f.t, "a load to end", func() bool {
		f.m.mu.Lock()
		defer f.m.mu.Unlock()
		return f.m.loading == nil
	})
}

func poll(t tb, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !done(); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func (f *fixture) settle(c *consumer, keys ...uint64) int {
	b, _ := f.store.Begin(store.Control, len(keys)*store.SizeSettle)
	n := f.m.Settle(b, &c.Consumer, keys)
	b.Commit()
	return n
}

func (f *fixture) release(c *consumer, key uint64) (store.LSN, bool) {
	b, _ := f.store.Begin(store.Control, store.SizeSmall)
	lsn, ok := f.m.Release(b, &c.Consumer, key)
	b.Commit()
	return lsn, ok
}

func (f *fixture) requeue(c *consumer, keys ...uint64) int {
	b, _ := f.store.Begin(store.Control, len(keys)*store.SizeSmall)
	n := f.m.Requeue(b, &c.Consumer, keys)
	b.Commit()
	f.m.Wake()
	return n
}

// sweep runs a Sweep as the host would.
func (f *fixture) sweep() {
	size := SweepSize
	if f.host.dead != nil {
		size += SweepLen * store.SizeEntry
	}
	b, _ := f.store.Begin(store.Control, size)
	f.host.mu.Lock()
	f.host.sweepAt = 0
	f.host.mu.Unlock()
	f.m.Sweep(b)
	b.Commit()
	f.m.Wake()
}

// sweepDue sweeps as long as the host has a wish that is due.
func (f *fixture) sweepDue() {
	for f.waitLoad(); f.host.wish() != 0 && f.host.wish() <= f.host.Now(); f.waitLoad() {
		f.sweep()
	}
}

// evict flushes, folds and evicts all it can.
func (f *fixture) evict() int64 {
	f.store.flush()
	f.waitLoad()
	return f.m.Evict(f.store.fold(), 0)
}

// restore restarts with everything committed, or only what is flushed, and restores the mailbox.
func (f *fixture) restore(kept store.LSN, sent Sent) {
	f.waitLoad()
	f.store = f.store.crash(kept)
	f.m = Restore(f.store, f.host, f.store.state(f.id), sent, f.policy)
	if f.paging != nil {
		f.m.paging = f.paging
	}
}

func (f *fixture) status() string {
	s := f.m.Status()
	return fmt.Sprintf("ready %d, in flight %d, bytes %d", s.Ready, s.InFlight, s.Bytes)
}

// expectEmpty checks that nothing is left anywhere, in memory or on disk.
func (f *fixture) expectEmpty() {
	f.t.Helper()
	f.store.flush()
	s := f.m.Status()
	equal(f.t, "status", fmt.Sprint(s.Ready, s.InFlight, s.Bytes, s.Memory), "0 0 0 0")
	equal(f.t, "what the bounds do not count", fmt.Sprint(f.m.kept, f.m.keptBytes), "0 0")
	if f.policy.Durable {
		equal(f.t, "on disk", fmt.Sprint(f.store.live(f.id)), "[]")
	}
}

// show writes deliveries as seqs, with + for Redelivered and r for Released.
func show(ds []Delivery) string {
	var b strings.Builder
	for i, d := range ds {
		if i > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprint(&b, d.Seq)
		if d.Redelivered {
			b.WriteByte('+')
		}
		if d.Released {
			b.WriteByte('r')
		}
	}
	return b.String()
}

func keys(ds []Delivery) []uint64 {
	var ks []uint64
	for _, d := range ds {
		ks = append(ks, d.Key)
	}
	return ks
}

func equal[T comparable](t tb, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Fatalf("%s: got %v, want %v", what, got, want)
	}
}

// span lists from..to.
func span(from, to uint64) string {
	var s []string
	for ; from <= to; from++ {
		s = append(s, fmt.Sprint(from))
	}
	return strings.Join(s, " ")
}

func (f *fixture) expectTake(c *consumer, want string) []Delivery {
	f.t.Helper()
	ds := f.take(c)
	equal(f.t, "taken", show(ds), want)
	return ds
}

func (f *fixture) expectLive(seqs ...uint64) {
	f.t.Helper()
	if got := f.store.live(f.id); !slices.Equal(got, seqs) {
		f.t.Fatalf("on disk: got %v, want %v", got, seqs)
	}
}

func entryOf(msg *message.Message) store.Entry { return store.Entry{Message: msg} }

// deadLetterTo has the host move what is dead to another mailbox on the same store.
func (f *fixture) deadLetterTo() *Mailbox {
	b := f.store.begin()
	other := New(f.store, &fakeHost{}, b.MailboxCreate(), queue)
	b.Commit()
	f.host.dead = func(b *store.Batch, e *store.Entry, _ Reason) {
		other.Append(b, store.Entry{Message: e.Message, MessageID: e.MessageID}, false)
	}
	return other
}
