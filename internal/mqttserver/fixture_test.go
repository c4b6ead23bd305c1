package mqttserver

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"emanet/internal/broker"
	"emanet/internal/disk/powercut"
	"emanet/internal/disk/sqlitevfs"
	"emanet/internal/journal"
	"emanet/internal/store/local"
)

// patience is how long a test waits for what must come.
const patience = 20 * time.Second

// rig is a server in front of a broker on a small store on a simulated disk.
type rig struct {
	testing.TB
	opt     Options
	broOpt  broker.Options
	journal journal.Options

	fs     *powercut.FS
	store  *local.Store
	server *Server
	ln     net.Listener
	served chan error
	free   func()
	peers  []*peer
}

var vfsNumber atomic.Int64

// start makes a rig; change may set its options before anything is opened.
func start(t testing.TB, change ...func(*rig)) *rig {
	t.Helper()
	r := &rig{
		TB: t,
		opt: Options{
			MaxPacket: 1 << 20, ReceiveMaximum: 1000, MaxInflight: 1000, ConnectTimeout: patience,
			SessionExpiry: broker.Never, MaxSessionExpiry: broker.Never, MaxWillDelay: broker.Never, MaxTopicLevels: 128, MaxLiveBytes: 4 << 20,
		},
		journal: journal.Options{SegmentBytes: 256 << 10, Segments: 8},
		fs:      powercut.New(1),
	}
	for _, f := range change {
		f(r)
	}
	r.open()
	t.Cleanup(r.stop)
	return r
}

func (r *rig) open() {
	r.Helper()
	vfs := fmt.Sprintf("mqttserver-%d", vfsNumber.Add(1))
	r.free = sqlitevfs.Register(vfs, r.fs, r.TempDir())
	var err error
	r.store, err = local.Open("/data", local.Options{
		FS: r.fs, VFS: vfs, Journal: r.journal, WALBytes: 256 << 10, BallastBytes: 64 << 10, FoldEvery: 50 * time.Millisecond,
	})
	if err != nil {
		r.Fatal(err)
	}
	b, err := broker.Open(r.store, r.broOpt)
	if err != nil {
		r.Fatal(err)
	}
	r.server = New(b, r.opt)
	if r.ln, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		r.Fatal(err)
	}
	r.served = make(chan error, 1)
	go func(ln net.Listener, s *Server, served chan error) { served <- s.Serve(ln) }(r.ln, r.server, r.served)
}

// stop ends everything; the tests' goroutines are counted after it.
func (r *rig) stop() {
	if r.server == nil {
		return
	}
	_ = r.ln.Close()
	if err := <-r.served; err != nil {
		r.Error(err)
	}
	for _, p := range r.peers {
		_ = p.nc.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := r.server.Shutdown(ctx); err != nil {
		r.Error(err)
	}
	r.server.broker.Close()
	_ = r.store.Close() // a test may have broken it
	r.free()
	r.server, r.peers = nil, nil
}

// crash ends this life as a killed process would, and begins the next on what is left.
func (r *rig) crash() {
	r.Helper()
	r.fs = r.fs.Kill()
	r.stop()
	r.open()
}

// restart ends this life in good order and begins the next.
func (r *rig) restart() {
	r.Helper()
	r.stop()
	r.open()
}

// holdFlushes has every flush of the journal wait until release is called.
func (r *rig) holdFlushes() (release func()) {
	gate := make(chan struct{})
	r.fs.SetHook(func(op powercut.Op) error {
		if op.Kind == powercut.Sync && strings.Contains(op.Name, "/journal/") {
			<-gate
		}
		return nil
	})
	release = sync.OnceFunc(func() {
		r.fs.SetHook(nil)
		close(gate)
	})
	r.Cleanup(release)
	return release
}

// eventually polls for what has no signal.
func (r *rig) eventually(what string, is func() bool) {
	r.Helper()
	tick := time.NewTicker(500 * time.Microsecond)
	defer tick.Stop()
	giveUp := time.After(patience)
	for !is() {
		select {
		case <-tick.C:
		case <-giveUp:
			r.Fatalf("never came: %s", what)
		}
	}
}

func (r *rig) stats() *Stats { return r.server.Stats() }

// only is the one connection there is, once all others have ended.
func (r *rig) only() *conn {
	r.Helper()
	r.eventually("the end of all others", func() bool { return r.stats().Connections.Load() == 1 })
	r.server.mu.Lock()
	defer r.server.mu.Unlock()
	for c := range r.server.conns {
		return c
	}
	return nil
}

// all are the connections there are, to be looked at when they are idle.
func (r *rig) all() (all []*conn) {
	r.Helper()
	r.server.mu.Lock()
	defer r.server.mu.Unlock()
	for c := range r.server.conns {
		all = append(all, c)
	}
	return all
}

// dial opens a TCP connection.
func (r *rig) dial() *peer {
	r.Helper()
	nc, err := net.Dial("tcp", r.ln.Addr().String())
	if err != nil {
		r.Fatal(err)
	}
	return r.peer(nc)
}

// pipe opens a connection without a descriptor and without a buffer: the server's writer stands still
// until the test reads.
func (r *rig) pipe() *peer {
	ours, theirs := net.Pipe()
	r.server.serveConn(theirs)
	return r.peer(ours)
}

func (r *rig) peer(nc net.Conn) *peer {
	p := &peer{TB: r, nc: nc}
	r.peers = append(r.peers, p)
	return p
}

// connect opens a TCP connection and does the handshake.
func (r *rig) connect(h hello) *peer {
	r.Helper()
	p := r.dial()
	p.greet(h)
	return p
}
