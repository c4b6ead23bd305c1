package local_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"emanet/internal/message"
	"emanet/internal/store"
	"emanet/internal/store/local"
)

// rig is a started store on a simulated disk with one mailbox.
type rig struct {
	*simulated
	t   *testing.T
	box uint64
	seq uint64 // last entry's
}

func newRig(t *testing.T, opt local.Options) *rig {
	b := &rig{simulated: newSimulated(t, 1, opt), t: t}
	b.start()
	b.control(func(batch *store.Batch) { b.box = batch.MailboxCreate() })
	return b
}

// start opens, loads and starts; it gives the mailboxes Load found.
func (b *rig) start() map[uint64]store.MailboxState {
	b.t.Helper()
	s := b.open(b.t)
	l := &boxes{}
	b.must(s.Load(l))
	b.must(s.Start())
	return l.all
}

type boxes struct{ all map[uint64]store.MailboxState }

func (*boxes) Record(string, string, []byte) error { return nil }
func (*boxes) Retained(*message.Message) error     { return nil }
func (l *boxes) Mailbox(m store.MailboxState) error {
	if l.all == nil {
		l.all = map[uint64]store.MailboxState{}
	}
	l.all[m.ID] = m
	return nil
}

func (b *rig) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatalf("%v\nalarms: %v\n%s", err, b.s.Alarms(), b.fs.Tree())
	}
}

func (b *rig) control(f func(*store.Batch)) {
	b.t.Helper()
	batch, err := b.s.Begin(store.Control, 500)
	b.must(err)
	f(batch)
	batch.Commit()
}

// publish queues one message of size bytes.
func (b *rig) publish(size int) error {
	batch, err := b.s.Begin(store.Publish, size+200)
	if err != nil {
		return err
	}
	b.seq++
	var id uint64
	batch.Message(&message.Message{Topic: "t", Payload: make([]byte, size), QoS: 1}, &id)
	batch.Entry(b.box, &store.Entry{Seq: b.seq, MessageID: id})
	batch.Commit()
	return nil
}

func (b *rig) settle(from, to uint64, size int) {
	b.t.Helper()
	n := to - from + 1
	b.control(func(batch *store.Batch) {
		batch.Settle(b.box, 0, store.SeqRange{From: from, To: to}, n, int64(n)*int64(size+1))
	})
}

// eventually polls: what it waits for happens in another goroutine that tells nobody.
func (b *rig) eventually(what string, f func() bool) {
	b.t.Helper()
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	deadline := time.After(30 * time.Second)
	for !f() {
		select {
		case <-poll.C:
		case <-deadline:
			b.t.Fatalf("never: %s; alarms: %v\n%s", what, b.s.Alarms(), b.fs.Tree())
		}
	}
}

// awaitBallast waits for the first idle tick, which sets it aside.
func (b *rig) awaitBallast() {
	b.t.Helper()
	b.eventually("the ballast", func() bool {
		e, err := b.fs.Stat(simulatedDir + "/ballast")
		return err == nil && e.Size >= b.opt.WALBytes
	})
	b.must(b.s.Sync()) // after the tick
}

func (b *rig) alarm(words string) bool {
	return strings.Contains(strings.Join(b.s.Alarms(), "\n"), words)
}

// used is the sum of all file sizes.
func (b *rig) used() int64 {
	b.fs.SetQuota(math.MaxInt64)
	free, err := b.fs.Free(simulatedDir)
	b.must(err)
	return math.MaxInt64 - free
}

// close closes and checks.
func (b *rig) close() {
	b.t.Helper()
	b.must(b.s.Close())
	b.s = nil
	check(b.t, simulatedDir, b.opt)
}

// read gives how many entries the pages show.
func (b *rig) read() int {
	b.t.Helper()
	es, err := b.s.ReadEntries(b.box, 0, 0, math.MaxInt64, math.MaxInt32, math.MaxInt64)
	b.must(err)
	return len(es)
}
