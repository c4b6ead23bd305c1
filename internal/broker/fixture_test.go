package broker

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"emanet/internal/disk/powercut"
	"emanet/internal/disk/sqlitevfs"
	"emanet/internal/journal"
	"emanet/internal/mailbox"
	"emanet/internal/message"
	"emanet/internal/store"
	"emanet/internal/store/local"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is a broker on a small store on a simulated disk, over several lives.
type fixture struct {
	testing.TB
	fs       *powercut.FS
	opt      Options
	storeOpt local.Options
	store    *local.Store
	*Broker
	wall  atomic.Int64 // the wall clock, Unix ms
	free  func()
	conns []*conn // of this life

	lastFlushed store.LSN // of the last life, when it ended
}

// year2030 is where the wall clock of a fixture begins.
const year2030 = 1_900_000_000_000

var vfsNumber atomic.Int64

func setup(t testing.TB, opt Options) *fixture {
	t.Helper()
	return setupOn(t, opt, 1, journal.Options{SegmentBytes: 256 << 10, Segments: 8})
}

func setupOn(t testing.TB, opt Options, seed uint64, j journal.Options) *fixture {
	t.Helper()
	f := &fixture{TB: t, fs: powercut.New(seed), opt: opt}
	f.wall.Store(year2030)
	f.opt.WallClock = func() time.Time { return time.UnixMilli(f.wall.Load()) }
	f.storeOpt = local.Options{Journal: j, WALBytes: 256 << 10, BallastBytes: 64 << 10, FoldEvery: 20 * time.Millisecond}
	f.storeOpt.Now = f.opt.WallClock
	f.open()
	t.Cleanup(f.stop)
	return f
}

// open starts a life.
func (f *fixture) open() {
	f.Helper()
	f.storeOpt.FS, f.storeOpt.VFS = f.fs, fmt.Sprintf("broker-%d", vfsNumber.Add(1))
	f.free = sqlitevfs.Register(f.storeOpt.VFS, f.fs, f.TempDir())
	var err error
	if f.store, err = local.Open("/data", f.storeOpt); err != nil {
		f.Fatal(err)
	}
	if f.Broker, err = Open(f.store, f.opt); err != nil {
		f.Fatal(err)
	}
}

// stop ends a life in good order.
func (f *fixture) stop() {
	if f.Broker == nil {
		return
	}
	for _, c := range f.conns {
		if !c.gone {
			c.leave()
		}
	}
	f.end()
}

func (f *fixture) end() {
	f.Broker.Close()
	f.lastFlushed = f.Flushed()
	_ = f.store.Close() // after a crash: a dead process's, nothing it says matters
	f.free()
	f.Broker, f.conns = nil, nil
}

// crash ends a life by how (Kill or Cut) and begins the next.
func (f *fixture) crash(how func(*powercut.FS) *powercut.FS) {
	f.Helper()
	f.fs = how(f.fs)
	f.end()
	f.open()
}

func kill(fs *powercut.FS) *powercut.FS { return fs.Kill() }
func cut(fs *powercut.FS) *powercut.FS  { return fs.Cut() }

// holdFlushes has every flush of the journal wait until release is called.
func (f *fixture) holdFlushes() (release func()) {
	gate := make(chan struct{})
	f.fs.SetHook(func(op powercut.Op) error {
		if op.Kind == powercut.Sync && strings.Contains(op.Name, "/journal/") {
			<-gate
		}
		return nil
	})
	return sync.OnceFunc(func() {
		f.fs.SetHook(nil)
		close(gate)
	})
}

// flushed waits until lsn is on disk.
func (f *fixture) flushed(lsn store.LSN) {
	f.Helper()
	f.eventually("the flush", func() bool { return f.Flushed() >= lsn })
}

// eventually polls for what has no signal.
func (f *fixture) eventually(what string, is func() bool) {
	f.Helper()
	tick := time.NewTicker(200 * time.Microsecond)
	defer tick.Stop()
	giveUp := time.After(10 * time.Second)
	for !is() {
		select {
		case <-tick.C:
		case <-giveUp:
			f.Fatalf("waited in vain for %s", what)
		}
	}
}

func (f *fixture) equal(what string, got, want any) {
	f.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		f.Fatalf("%s: got %v, want %v", what, got, want)
	}
}

// conn plays the part of a connection: it keeps what the broker hands it.
type conn struct {
	f *fixture
	*Client
	present bool
	lsn     store.LSN // of CONNACK
	gone    bool      // has left
	takenBy atomic.Int32
	paced   atomic.Int32
	packet  uint16 // last packet id used

	mu   sync.Mutex
	live []string
	much bool
	buf  []mailbox.Delivery
}

func (c *conn) Live(m *message.Message, attr uint8, tag string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.live = append(c.live, show(m, attr, tag))
	return c.much
}
func (c *conn) Pace()                  { c.paced.Add(1) }
func (c *conn) TakenOver()             { c.takenBy.Add(1) }
func (c *conn) Wake()                  {}
func (c *conn) Flushed(store.LSN)      {}
func (c *conn) FlushedAlone(store.LSN) {}

// show is "payload", with "!" for the retain flag and "#1,2" for subscription identifiers.
func show(m *message.Message, attr uint8, tag string) string {
	s := string(m.Payload)
	if attr&AttrRetain != 0 {
		s += "!"
	}
	for i := range len(tag) {
		s += fmt.Sprintf("#%d", tag[i])
	}
	return s
}

// connect attaches and waits until CONNACK may be sent.
func (f *fixture) connect(id string, edit ...func(*Connect)) *conn {
	f.Helper()
	c := f.connectAtOnce(id, edit...)
	f.flushed(c.lsn)
	return c
}

func (f *fixture) connectAtOnce(id string, edit ...func(*Connect)) *conn {
	f.Helper()
	c, err := f.tryConnect(id, edit...)
	if err != nil {
		f.Fatal(err)
	}
	return c
}

func (f *fixture) tryConnect(id string, edit ...func(*Connect)) (*conn, error) {
	c := &conn{f: f}
	want := Connect{ClientID: id, Expiry: Never, Window: 20, Receiver: c}
	for _, e := range edit {
		e(&want)
	}
	a, err := f.Attach(want)
	if err != nil {
		return nil, err
	}
	c.Client, c.present, c.lsn = a.Client, a.Present, a.LSN
	f.conns = append(f.conns, c)
	return c, nil
}

func clean(w *Connect)                { w.CleanStart, w.Expiry = true, 0 }
func cleanStart(w *Connect)           { w.CleanStart = true }
func expiry(s uint32) func(*Connect)  { return func(w *Connect) { w.Expiry = s } }
func window(n int) func(*Connect)     { return func(w *Connect) { w.Window = n } }
func withWill(w *Will) func(*Connect) { return func(c *Connect) { c.Will = w } }
func will(text string, q uint8) *Will {
	return &Will{Message: &message.Message{Topic: "will", Payload: []byte(text), QoS: q}}
}
func (w *Will) after(s uint32) *Will { w.Delay = s; return w }
func (c *conn) leave()               { c.gone = true; c.Detach(Goodbye{Clean: true}) }
func (c *conn) fail()                { c.gone = true; c.Detach(Goodbye{}) }
func (c *conn) leaveWith(expiry uint32) {
	c.gone = true
	c.Detach(Goodbye{Clean: true, HasExpiry: true, Expiry: expiry})
}

// subscribe waits until SUBACK may be sent.
func (c *conn) subscribe(subs ...Subscription) []bool {
	c.f.Helper()
	granted, lsn, err := c.Subscribe(subs)
	if err != nil {
		c.f.Fatal(err)
	}
	c.f.flushed(lsn)
	return granted
}

func to(filter string, qos uint8) Subscription { return Subscription{Filter: filter, QoS: qos} }

// send publishes; what it costs and whom it reaches is in the outcome.
func (c *conn) send(topic, payload string, qos uint8) Outcome {
	c.f.Helper()
	return c.sendMessage(topic, &message.Message{Payload: []byte(payload), QoS: qos})
}

func (c *conn) retain(topic, payload string, qos uint8) Outcome {
	c.f.Helper()
	return c.sendMessage(topic, &message.Message{Payload: []byte(payload), QoS: qos, Retain: true})
}

func (c *conn) sendMessage(topic string, m *message.Message) Outcome {
	c.f.Helper()
	var id uint16
	if m.QoS == 2 {
		c.packet++
		id = c.packet
	}
	return c.sendAs(topic, m, id)
}

func (c *conn) sendAs(topic string, m *message.Message, id uint16) Outcome {
	c.f.Helper()
	if m.ReceivedAt == 0 {
		m.ReceivedAt = c.f.Now()
	}
	out, err := c.Publish([]byte(topic), m, id)
	if err != nil {
		c.f.Fatal(err)
	}
	c.Flush()
	return out
}

// take is what may be sent now.
func (c *conn) take() []mailbox.Delivery {
	c.buf = c.Take(c.buf[:0])
	return slices.Clone(c.buf)
}

// receive takes n deliveries, waiting for them, and acknowledges them; the result is what was received.
func (c *conn) receive(n int) []string {
	c.f.Helper()
	var got []string
	c.f.eventually(fmt.Sprintf("%d deliveries", n), func() bool {
		var keys []uint64
		for _, d := range c.take() {
			got = append(got, show(d.Message, d.Attr, d.Tag))
			keys = append(keys, d.Key)
		}
		if err := c.Settle(keys); err != nil {
			c.f.Fatal(err)
		}
		return len(got) >= n
	})
	return got
}

// expect is receive, and nothing more may come.
func (c *conn) expect(want ...string) {
	c.f.Helper()
	got := c.receive(len(want))
	c.f.settled()
	for _, d := range c.take() {
		got = append(got, show(d.Message, d.Attr, d.Tag))
	}
	c.f.equal("deliveries", got, want)
}

// settled waits until everything appended is flushed and told, or never will be.
func (f *fixture) settled() {
	f.Helper()
	told := make(chan struct{})
	if f.store.NotifyTail(&store.Waiter{F: func(store.LSN) { close(told) }}) {
		select {
		case <-told:
		case <-f.store.Failed():
		}
	}
}

// expectLive is what came at QoS 0 since the last time.
func (c *conn) expectLive(want ...string) {
	c.f.Helper()
	c.mu.Lock()
	got := c.live
	c.live = nil
	c.mu.Unlock()
	c.f.equal("live messages", got, append([]string{}, want...))
}

// walk has the retained messages sent as the writer of a connection does, and returns those at QoS 0.
func (c *conn) walk() []string {
	c.f.Helper()
	var got []string
	var buf []Retained
	for more := true; more; {
		var room int
		var err error
		buf, more, room, err = c.NextRetained(buf[:0])
		if err != nil {
			c.f.Fatal(err)
		}
		if room > 0 {
			there := make(chan struct{})
			c.f.NotifyRoom(&store.RoomWaiter{Class: store.Publish, Size: room, F: func() { close(there) }})
			<-there
			more = true
		}
		for _, r := range buf {
			got = append(got, show(r.Message, r.Attr, r.Tag))
		}
	}
	return got
}

func (f *fixture) mailboxOf(id string) mailbox.Status {
	b, err := f.Broker.control(0)
	if err != nil {
		f.Fatal(err)
	}
	defer b.Abort()
	s := f.Broker.sessions.byID[id]
	if s == nil {
		return mailbox.Status{}
	}
	return s.mailbox.Status()
}

func (f *fixture) hasSession(id string) bool {
	b, err := f.Broker.control(0)
	if err != nil {
		f.Fatal(err)
	}
	defer b.Abort()
	return f.Broker.sessions.byID[id] != nil
}
