package transport

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Conn is a connection of a Listener. Like any net.Conn it may be read by one goroutine and written by another.
type Conn struct {
	listener *Listener
	socket   socket
	tls      *tls.Conn // nil: none
	frames   *frames   // nil: no WebSocket
	remote   net.Addr
	user     string

	addressOnce, once   sync.Once
	addressed, prepared error
	http                bool // read and written by net/http
}

func newConn(nc net.Conn, l *Listener) (*Conn, error) {
	c := &Conn{listener: l, remote: nc.RemoteAddr(), http: l.HTTP > 0}
	if err := c.socket.init(nc); err != nil {
		return nil, errors.Join(err, nc.Close())
	}
	return c, nil
}

// Prepare reads the PROXY header and does the TLS handshake. It ends when a read deadline strikes, and by deadline in
// any case. Once it has been called, further calls give its result.
func (c *Conn) Prepare(deadline time.Time) error {
	c.once.Do(func() { c.prepared = c.prepare(deadline) })
	return c.prepared
}

// PrepareAddress is the part of Prepare after which RemoteAddr is the client's own: the PROXY header.
func (c *Conn) PrepareAddress(deadline time.Time) error {
	c.addressOnce.Do(func() {
		if c.listener.Proxy.Mode != ProxyOff {
			c.addressed = c.within(deadline, c.readProxy)
		}
	})
	return c.addressed
}

func (c *Conn) prepare(deadline time.Time) error {
	err := c.PrepareAddress(deadline)
	if err == nil && c.listener.Certificates != nil {
		err = c.within(deadline, c.shakeHands)
	}
	return err
}

// within takes a step that must end by deadline.
func (c *Conn) within(deadline time.Time, step func() error) error {
	var late atomic.Bool
	watch := time.AfterFunc(time.Until(deadline), func() {
		late.Store(true)
		_ = c.socket.Conn.Close() // it is what is waited for that reports it
	})
	err := step()
	if !watch.Stop() && late.Load() {
		return fmt.Errorf("preparing the connection: %w", os.ErrDeadlineExceeded)
	}
	return err
}

func (c *Conn) readProxy() error {
	p := &c.listener.Proxy
	expected, err := p.expects(c.remote)
	if err != nil || !expected {
		return err
	}
	source, err := readProxyHeader(c.socket.Conn)
	if err != nil {
		return fmt.Errorf("PROXY header: %w", err)
	}
	if source != nil {
		c.remote = source
	}
	return nil
}

func (c *Conn) shakeHands() error {
	certificates := c.listener.Certificates
	c.socket.direct = true
	conn := tls.Server(&c.socket, certificates.Config())
	if err := conn.Handshake(); err != nil {
		return fmt.Errorf("TLS handshake: %w", c.explain(err))
	}
	c.socket.direct = false
	if peers := conn.ConnectionState().PeerCertificates; len(peers) > 0 {
		var err error
		if c.user, err = certificates.user(peers[0]); err != nil {
			return err
		}
	}
	c.tls = conn
	return nil
}

// explain names what plainly came to the wrong port, and the commonest failure of all. A client of OpenSSL that does not
// trust the certificate says so in clear (TLS 1.3) where crypto/tls expects an encrypted record.
func (c *Conn) explain(err error) error {
	var record tls.RecordHeaderError
	if !errors.As(err, &record) {
		if err.Error() == "local error: tls: bad record MAC" {
			return fmt.Errorf("%w; most often a client that does not trust the certificate", err)
		}
		return err
	}
	switch first := record.RecordHeader; {
	case first[0] == 0x10:
		return errors.New("plain MQTT on a listener over TLS")
	case isHTTP(first[:]):
		if c.http {
			_, _ = io.WriteString(c.socket.Conn, "HTTP/1.0 400 Bad Request\r\n\r\nThis port speaks HTTPS.\n")
		}
		return errors.New("plain HTTP on a listener over TLS")
	}
	return err
}

func isHTTP(first []byte) bool {
	for _, method := range []string{"GET ", "HEAD ", "POST ", "PUT /", "OPTIO", "DELET", "PATCH"} {
		if n := min(len(method), len(first)); string(first[:n]) == method[:n] {
			return true
		}
	}
	return false
}

// User is the user name that the client's certificate gives, "" for none. Like RemoteAddr it is the client's own
// only after Prepare.
func (c *Conn) User() string { return c.user }

// RemoteAddr is where the client is, which a PROXY header tells.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// Transport is what carries the connection, for counting: tcp, tls, ws, wss or unix.
func (c *Conn) Transport() string {
	switch {
	case c.frames != nil && c.tls != nil:
		return "wss"
	case c.frames != nil:
		return "ws"
	case c.tls != nil:
		return "tls"
	}
	return c.socket.Conn.LocalAddr().Network()
}

// LocalAddr is part of net.Conn.
func (c *Conn) LocalAddr() net.Addr { return c.socket.Conn.LocalAddr() }

// SetDeadline is part of net.Conn.
func (c *Conn) SetDeadline(t time.Time) error { return c.socket.Conn.SetDeadline(t) }

// SetReadDeadline is part of net.Conn.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.socket.Conn.SetReadDeadline(t) }

// SetWriteDeadline is part of net.Conn.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.socket.Conn.SetWriteDeadline(t) }

// Descriptor is what a reader waits for.
func (c *Conn) Descriptor() syscall.RawConn { return c.socket.raw }

// ReadNow reads what has come, as much as p takes, within a Read of the descriptor. Its error is syscall.EAGAIN
// when nothing has.
func (c *Conn) ReadNow(fd uintptr, p []byte) (int, error) {
	c.socket.asked, c.socket.fd = true, fd
	n, err := c.readLayers(p)
	c.socket.asked = false
	if err == nil && c.socket.pilesUp() {
		return n, errNotTaken
	}
	return n, err
}

func (c *Conn) readLayers(p []byte) (int, error) {
	switch {
	case c.frames != nil:
		return c.readFrames(p)
	case c.tls != nil:
		return c.readTLS(p)
	}
	return c.socket.readPlain(p)
}

// readTLS reads one record after the other while there are any.
func (c *Conn) readTLS(p []byte) (n int, err error) {
	for n < len(p) {
		m, err := c.tls.Read(p[n:])
		n += m
		if err != nil {
			if n > 0 {
				break // it will come again
			}
			return 0, err
		}
		if !c.socket.asked { // the next may not have come
			break
		}
	}
	return n, nil
}

// Read waits until something has come.
func (c *Conn) Read(p []byte) (n int, err error) {
	if c.http {
		if err := c.prepareHTTP(); err != nil {
			return 0, err
		}
	}
	if len(p) == 0 {
		return 0, nil
	}
	if !canAsk {
		c.socket.reading.Lock()
		defer c.socket.reading.Unlock()
		return c.readLayers(p)
	}
	waitErr := c.socket.raw.Read(func(fd uintptr) bool {
		n, err = c.ReadNow(fd, p)
		return !errors.Is(err, syscall.EAGAIN)
	})
	if waitErr != nil {
		return 0, waitErr
	}
	return n, err
}

func (c *Conn) prepareHTTP() error {
	c.once.Do(func() {
		err := c.prepare(time.Now().Add(c.listener.HTTP))
		if err == nil {
			return
		}
		if c.listener.Failed != nil {
			c.listener.Failed(c.remote, err)
		}
		c.prepared = &net.OpError{Op: "read", Net: "tcp", Err: err} // as of a broken line: net/http answers anything else
	})
	return c.prepared
}
