package mqttserver

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"time"
)

// Preparer is a net.Conn that cannot carry MQTT when it is accepted: a TLS handshake is due, or a PROXY header.
// The connection's own goroutine calls Prepare before it reads CONNECT, so that a slow peer delays nobody's accept.
//
// The time until deadline is that of CONNECT as well. The read deadline is set to it already and is not Prepare's to
// change: the end of the connection moves it, so that a Prepare under way returns. Whatever else Prepare waits for
// must end by deadline. After it RemoteAddr is the client's own address, as far as that is known.
type Preparer interface {
	Prepare(deadline time.Time) error
}

// Addressed is a Preparer that knows the client's address sooner: after PrepareAddress, which is a part of Prepare.
// A client that has too many connections then costs no TLS handshake.
type Addressed interface {
	PrepareAddress(deadline time.Time) error
}

// Identified is a net.Conn that may know, after Prepare if it is a Preparer, who the client is: the user name that its certificate gives,
// "" for none.
type Identified interface {
	User() string
}

// remotePeer is who is at the other end, as far as the connection itself tells; set before CONNECT is read, constant then.
// Rules about addresses and users (limits, authentication) read it here and nowhere else.
type remotePeer struct {
	addr net.Addr
	user string // of a client certificate; "" for none
}

// String is the address for the log.
func (p *remotePeer) String() string {
	if p.addr.Network() == "unix" {
		return "unix"
	}
	return p.addr.String()
}

// host is the address without its port, by which connections are counted. The zero Addr, whose String is not an
// address, stands for all that have none: those of a Unix socket.
func (p *remotePeer) host() netip.Addr {
	if tcp, ok := p.addr.(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}

// prepare makes the connection ready for CONNECT, and counts it for its address as soon as that is known.
func (c *conn) prepare(deadline time.Time) error {
	if p, ok := c.nc.(Addressed); ok {
		if err := c.prepared(p.PrepareAddress(deadline)); err != nil {
			return err
		}
		if err := c.enter(); err != nil {
			return err
		}
	}
	if p, ok := c.nc.(Preparer); ok {
		if err := c.prepared(p.Prepare(deadline)); err != nil {
			return err
		}
	}
	if who, ok := c.nc.(Identified); ok {
		c.remote.user = who.User()
	}
	return c.enter()
}

// prepared ends the connection when a preparation has failed.
func (c *conn) prepared(err error) error {
	if err == nil {
		return nil
	}
	if _, ended := c.out.ended(); ended {
		return errEnd
	}
	c.server.stats.Unprepared.Add(1)
	cause := err.Error()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		c.server.stats.Hits[HitConnectTimeout].Add(1)
		cause = "not ready for CONNECT in time"
	}
	c.end(ending{bad: true, early: true, cause: cause})
	return errEnd
}

// enter counts the connection for its address, once, or ends it: nothing was said yet, so that it costs little.
func (c *conn) enter() error {
	c.remote.addr = c.nc.RemoteAddr()
	if c.book != nil || c.server.admission.enter(c) {
		return nil
	}
	c.server.stats.Refused.Add(1)
	c.end(ending{bad: true, early: true, cause: "too many connections from this address"})
	return errEnd
}
