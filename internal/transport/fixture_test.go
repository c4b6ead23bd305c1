package transport

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"emanet/internal/transport/certtest"
)

// patience is how long a test waits for what must come.
const patience = 20 * time.Second

// listen opens a listener on a free port until the end of the test; change may set what it does.
func listen(t testing.TB, change ...func(*Listener)) *Listener {
	t.Helper()
	socket, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &Listener{Listener: socket}
	for _, f := range change {
		f(l)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// secure makes it one over TLS.
func secure(t testing.TB, a *certtest.Authority, change ...func(*Files)) func(*Listener) {
	t.Helper()
	dir := t.TempDir()
	files := Files{ClientCA: a.File(dir)}
	files.Cert, files.Key = a.Issue("localhost").Files(dir)
	for _, f := range change {
		f(&files)
	}
	c, err := LoadCertificates(files)
	if err != nil {
		t.Fatal(err)
	}
	return func(l *Listener) { l.Certificates = c }
}

func (l *Listener) dial(t testing.TB) net.Conn {
	t.Helper()
	nc, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_ = nc.SetDeadline(time.Now().Add(patience))
	t.Cleanup(func() { _ = nc.Close() })
	return nc
}

// dialTLS does the client's handshake when it first writes or reads.
func (l *Listener) dialTLS(t testing.TB, a *certtest.Authority, client ...tls.Certificate) *tls.Conn {
	t.Helper()
	return tls.Client(l.dial(t), &tls.Config{RootCAs: a.Pool(), ServerName: "localhost", Certificates: client})
}

// accept gives the server's end.
func (l *Listener) accept(t testing.TB) *Conn {
	t.Helper()
	nc, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	c, ok := nc.(*Conn)
	if !ok {
		t.Fatalf("a plain %T", nc)
	}
	_ = c.SetDeadline(time.Now().Add(patience))
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// prepared is accept and Prepare, while the client does its part.
func (l *Listener) prepared(t testing.TB, client func() error) *Conn {
	t.Helper()
	c := l.accept(t)
	done := make(chan error, 1)
	go func() { done <- client() }()
	if err := c.Prepare(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	return c
}

// pair is a TLS connection: both ends.
func pair(t testing.TB) (server *Conn, client *tls.Conn) {
	t.Helper()
	a := certtest.New(t)
	l := listen(t, secure(t, a))
	client = l.dialTLS(t, a)
	return l.prepared(t, client.Handshake), client
}

// webSockets serves WebSocket at /mqtt and hands the connections on.
func webSockets(t testing.TB, l *Listener, w *WebSocket) <-chan *Conn {
	t.Helper()
	accepted := make(chan *Conn, 1)
	w.Serve = func(nc net.Conn) bool {
		c := nc.(*Conn)
		_ = c.SetDeadline(time.Now().Add(patience))
		t.Cleanup(func() { _ = c.Close() })
		accepted <- c
		return true
	}
	if w.MaxFrame == 0 {
		w.MaxFrame = 1 << 20
	}
	l.HTTP = patience
	mux := http.NewServeMux()
	mux.Handle("/mqtt", w)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: patience}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		_ = server.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return accepted
}

// readAll reads until the end, in reads of at most size bytes.
func readAll(t testing.TB, r io.Reader, size int) (all []byte, err error) {
	t.Helper()
	p := make([]byte, size)
	for {
		n, err := r.Read(p)
		all = append(all, p[:n]...)
		if err != nil {
			return all, err
		}
	}
}
