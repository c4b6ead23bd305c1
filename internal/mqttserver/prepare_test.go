package mqttserver

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"testing"
	"time"
)

// lateConn is a connection that needs preparing.
type lateConn struct {
	net.Conn
	prepare func(deadline time.Time) error
	remote  net.Addr
	user    string
}

func (c *lateConn) Prepare(deadline time.Time) error { return c.prepare(deadline) }
func (c *lateConn) User() string                     { return c.user }
func (c *lateConn) RemoteAddr() net.Addr {
	if c.remote != nil {
		return c.remote
	}
	return c.Conn.RemoteAddr()
}

// late opens a connection that is prepared by f first.
func (r *rig) late(f func(c *lateConn, deadline time.Time) error) *peer {
	ours, theirs := net.Pipe()
	c := &lateConn{Conn: theirs}
	c.prepare = func(deadline time.Time) error { return f(c, deadline) }
	r.server.serveConn(c)
	return r.peer(ours)
}

func TestPreparingTellsWhoThePeerIs(t *testing.T) {
	r := start(t)
	p := r.late(func(c *lateConn, _ time.Time) error {
		c.remote, c.user = &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 4711}, "pump-7"
		return nil
	})
	p.sendAside(v311live("a").bytes())
	p.expect(connack311)
	c := r.only()
	if got := c.remote.String(); got != "192.0.2.7:4711" {
		t.Errorf("remote is %q", got)
	}
	if got := c.remote.host().String(); got != "192.0.2.7" {
		t.Errorf("host is %q", got)
	}
	if c.remote.user != "pump-7" {
		t.Errorf("user is %q", c.remote.user)
	}
}

func TestAUnixPeerHasANameForTheLogAndNoHost(t *testing.T) {
	p := remotePeer{addr: &net.UnixAddr{Net: "unix"}}
	if p.String() != "unix" || p.host().IsValid() {
		t.Errorf("%q, %v", p.String(), p.host())
	}
}

func TestWhatCannotBePreparedEndsWithALineAndIsCounted(t *testing.T) {
	var log book
	r := start(t, func(r *rig) { r.opt.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	r.late(func(*lateConn, time.Time) error { return errors.New("no such handshake") }).closed()
	r.late(func(*lateConn, time.Time) error { return os.ErrDeadlineExceeded }).closed()
	r.eventually("the end of both", func() bool { return r.stats().Connections.Load() == 0 })
	if n := r.stats().Unprepared.Load(); n != 2 {
		t.Errorf("%d counted", n)
	}
	if n := r.stats().Malformed.Load() + r.stats().TimedOut.Load(); n != 0 {
		t.Errorf("%d counted elsewhere as well", n)
	}
	if log.count("no such handshake") != 1 || log.count("not ready for CONNECT in time") != 1 {
		t.Errorf("the log says %s", log.text.String())
	}
}

func TestPreparingEndsWithTheTimeForCONNECT(t *testing.T) {
	r := start(t, func(r *rig) { r.opt.ConnectTimeout = 20 * time.Millisecond })
	p := r.late(func(c *lateConn, deadline time.Time) error {
		if left := time.Until(deadline); left > 20*time.Millisecond {
			t.Errorf("%v left", left)
		}
		_, err := c.Read(make([]byte, 1)) // by the read deadline
		return err
	})
	p.closed()
	r.eventually("the count", func() bool { return r.stats().Unprepared.Load() == 1 })
}

func TestAShutdownCutsPreparingShort(t *testing.T) {
	r := start(t)
	began := make(chan struct{})
	p := r.late(func(c *lateConn, _ time.Time) error {
		close(began)
		_, err := c.Read(make([]byte, 1))
		return err
	})
	<-began
	if err := r.server.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	p.closed()
	if n := r.stats().Unprepared.Load(); n != 0 {
		t.Errorf("%d counted as the client's fault", n)
	}
}

// addressedConn knows its address before the rest of its preparation.
type addressedConn struct {
	*lateConn
	address func() error
}

func (c *addressedConn) PrepareAddress(time.Time) error { return c.address() }

func TestAnAddressWithTooManyConnectionsCostsNoHandshake(t *testing.T) {
	r := start(t, func(r *rig) { r.opt.MaxPerAddress = 1 })
	r.connect(v311("first")) // from 127.0.0.1, as the next, whatever the proxy's address
	client, server := net.Pipe()
	defer func() { _ = client.Close() }()
	shaken := make(chan struct{})
	late := &lateConn{Conn: server, prepare: func(time.Time) error { close(shaken); return nil }}
	nc := &addressedConn{lateConn: late, address: func() error {
		late.remote = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 4711}
		return nil
	}}
	r.server.serveConn(nc)
	if _, err := client.Read(make([]byte, 1)); err == nil {
		t.Error("something was said on it")
	}
	select {
	case <-shaken:
		t.Error("the handshake was made all the same")
	default:
	}
	if n := r.server.Stats().Hits[HitPerAddress].Load(); n != 1 {
		t.Errorf("%d were refused for their address", n)
	}
}
