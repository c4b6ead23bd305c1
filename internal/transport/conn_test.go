package transport

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"emanet/internal/transport/certtest"
)

func TestAListenerWithNothingToAddHandsSocketsOnAsTheyAre(t *testing.T) {
	l := listen(t)
	l.dial(t)
	nc, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = nc.Close() }()
	if _, ok := nc.(*net.TCPConn); !ok {
		t.Errorf("a %T", nc)
	}
}

// noise is text that no two parts of are alike.
func noise(size int) []byte {
	p := make([]byte, size)
	r := rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(p)
	return p
}

func TestWhatIsSentOverTLSArrivesWhole(t *testing.T) {
	server, client := pair(t)
	sent := noise(1 << 20)
	go func() {
		for rest := sent; len(rest) > 0; {
			n := min(len(rest), 1+rand.IntN(40_000))
			_, _ = client.Write(rest[:n])
			rest = rest[n:]
		}
		_ = client.CloseWrite()
	}()
	got, err := readAll(t, server, 7_001)
	if !errors.Is(err, io.EOF) || !bytes.Equal(got, sent) {
		t.Errorf("%d bytes of %d, %v", len(got), len(sent), err)
	}
}

func TestPiecesLeaveOverTLSInFewFullRecords(t *testing.T) {
	a := certtest.New(t)
	l := listen(t, secure(t, a))
	wire := &counter{Conn: l.dial(t)}
	client := tls.Client(wire, &tls.Config{RootCAs: a.Pool(), ServerName: "localhost"})
	server := l.prepared(t, client.Handshake)
	wire.bytes = 0
	sent := noise(300_000)
	var pieces net.Buffers
	for rest := sent; len(rest) > 0; {
		n := min(len(rest), 1+rand.IntN(9_000))
		pieces, rest = append(pieces, rest[:n]), rest[n:]
	}
	done := make(chan error, 1)
	go func() {
		n, err := server.WriteBuffers(&pieces)
		if n != int64(len(sent)) {
			t.Errorf("%d bytes written", n)
		}
		done <- errors.Join(err, server.CloseWrite())
	}()
	got, err := io.ReadAll(client)
	if err != nil || !bytes.Equal(got, sent) {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	const perRecord = 22 + 16 // at most
	if extra, most := wire.bytes-len(sent), (len(sent)/16_000+5)*perRecord; extra > most {
		t.Errorf("%d bytes of records' own for %d, expected %d at most: records are small", extra, len(sent), most)
	}
}

// counter counts what is read.
type counter struct {
	net.Conn
	bytes int
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.bytes += n
	return n, err
}

func TestWhatThePeerDoesNotTakeIsLeftAndComesInOrder(t *testing.T) {
	server, client := pair(t)
	piece := noise(8 << 10)
	var sent []byte
	for left := false; !left; { // until the socket is full
		n, more := server.TryWrite(piece)
		if n != len(piece) {
			t.Fatalf("%d bytes", n)
		}
		sent, left = append(sent, piece...), more
	}
	n, left := server.TryWrite([]byte("one more"))
	if n != 8 || !left {
		t.Fatalf("%d, left: %v", n, left)
	}
	sent = append(sent, "one more"...)
	done := make(chan error, 1)
	go func() { done <- errors.Join(server.Flush(), server.CloseWrite()) }()
	got, err := io.ReadAll(client)
	if err != nil || !bytes.Equal(got, sent) {
		t.Errorf("%d bytes of %d, %v", len(got), len(sent), err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if n, _ := server.TryWrite(noise(bufferSize)); n != 0 {
		t.Errorf("%d bytes of more than a buffer were taken", n)
	}
}

func TestAnswersThatPileUpEndTheConnection(t *testing.T) {
	server, client := pair(t)
	if _, err := client.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := server.socket.Write(make([]byte, waitingMax+1)); err != nil {
		t.Fatal(err)
	}
	if _, err := server.Read(make([]byte, 1)); !errors.Is(err, errNotTaken) {
		t.Errorf("%v", err)
	}
}

func TestAReadWaitsAndEndsWithItsDeadline(t *testing.T) {
	server, client := pair(t)
	_ = server.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
	if _, err := server.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("%v", err)
	}
	_ = server.SetReadDeadline(time.Now().Add(patience))
	if _, err := client.Write([]byte("still here")); err != nil {
		t.Fatal(err)
	}
	p := make([]byte, 100)
	if n, err := server.Read(p); err != nil || string(p[:n]) != "still here" {
		t.Errorf("%q, %v", p[:n], err)
	}
}

func TestGarbageOnATLSListenerIsNamed(t *testing.T) {
	a := certtest.New(t)
	l := listen(t, secure(t, a))
	for sent, want := range map[string]string{
		"\x10\x0e\x00\x04MQTT\x04\x02\x00\x3c\x00\x02aa": "plain MQTT",
		"GET /mqtt HTTP/1.1\r\n\r\n":                     "plain HTTP",
		"\x00\x01\x02\x03\x04\x05\x06\x07":               "handshake",
		"\x16\x03\x01\xff\xff\x00":                       "handshake",
	} {
		client := l.dial(t)
		if _, err := io.WriteString(client, sent); err != nil {
			t.Fatal(err)
		}
		_ = client.(*net.TCPConn).CloseWrite()
		err := l.accept(t).Prepare(time.Now().Add(patience))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", sent, err)
		}
	}
}

func TestASlowHandshakeEndsWithTheDeadline(t *testing.T) {
	a := certtest.New(t)
	l := listen(t, secure(t, a))
	client := l.dial(t)
	if _, err := io.WriteString(client, "\x16\x03\x01"); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := l.accept(t).Prepare(began.Add(30 * time.Millisecond)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%v", err)
	}
	if _, err := client.Read(make([]byte, 1)); err == nil {
		t.Error("the connection lives on")
	}
}

func TestTheUserNameComesFromTheCertificate(t *testing.T) {
	a := certtest.New(t)
	uri, _ := url.Parse("urn:device:7")
	names := func(dns, mail []string, uris []*url.URL) func(*x509.Certificate) {
		return func(c *x509.Certificate) { c.DNSNames, c.EmailAddresses, c.URIs = dns, mail, uris }
	}
	for _, test := range []struct {
		from UserFrom
		cert *certtest.Pair
		want string
	}{
		{UserNone, a.Issue("pump"), ""},
		{UserCN, a.Issue("pump"), "pump"},
		{UserSAN, a.Issue("pump", names([]string{"p.example", "q.example"}, []string{"p@example.org"}, nil)), "p.example"},
		{UserSAN, a.Issue("pump", names(nil, []string{"p@example.org"}, []*url.URL{uri})), "p@example.org"},
		{UserSAN, a.Issue("pump", names(nil, nil, []*url.URL{uri})), "urn:device:7"},
	} {
		l := listen(t, secure(t, a, func(f *Files) { f.ClientAuth, f.User = tls.RequireAndVerifyClientCert, test.from }))
		client := l.dialTLS(t, a, test.cert.TLS())
		if got := l.prepared(t, client.Handshake).User(); got != test.want {
			t.Errorf("%q, not %q", got, test.want)
		}
	}
}

func TestClientsWithoutAFitCertificateAreRefused(t *testing.T) {
	a, stranger := certtest.New(t), certtest.New(t)
	expired := a.Issue("old", func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Hour) })
	for name, test := range map[string]struct {
		ask    tls.ClientAuthType
		client []tls.Certificate
	}{
		"none, but one is required":  {tls.RequireAndVerifyClientCert, nil},
		"an expired one":             {tls.VerifyClientCertIfGiven, []tls.Certificate{expired.TLS()}},
		"of an unknown authority":    {tls.VerifyClientCertIfGiven, []tls.Certificate{stranger.Issue("who").TLS()}},
		"one without the name asked": {tls.VerifyClientCertIfGiven, []tls.Certificate{a.Issue("").TLS()}},
	} {
		l := listen(t, secure(t, a, func(f *Files) { f.ClientAuth, f.User = test.ask, UserCN }))
		// crypto/tls itself would not send one that does not fit.
		config := &tls.Config{RootCAs: a.Pool(), ServerName: "localhost"}
		if test.client != nil {
			config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &test.client[0], nil }
		}
		client := tls.Client(l.dial(t), config)
		told := make(chan error, 1)
		go func() {
			_ = client.Handshake()
			_, err := client.Read(make([]byte, 1))
			told <- err
		}()
		c := l.accept(t)
		if err := c.Prepare(time.Now().Add(patience)); err == nil {
			t.Errorf("%s: accepted", name)
		}
		_ = c.Close()
		var alert *net.OpError
		if err := <-told; !errors.As(err, &alert) || alert.Op != "remote error" {
			t.Errorf("%s: the client was told %v", name, err)
		}
	}
}

func TestWithoutACertificateThereIsNoUserWhereOneIsOptional(t *testing.T) {
	a := certtest.New(t)
	l := listen(t, secure(t, a, func(f *Files) { f.ClientAuth, f.User = tls.VerifyClientCertIfGiven, UserCN }))
	client := l.dialTLS(t, a)
	if got := l.prepared(t, client.Handshake).User(); got != "" {
		t.Errorf("%q", got)
	}
}

func TestOldVersionsOfTLSAreRefused(t *testing.T) {
	a := certtest.New(t)
	l := listen(t, secure(t, a))
	client := tls.Client(l.dial(t), &tls.Config{RootCAs: a.Pool(), ServerName: "localhost", MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11})
	done := make(chan error, 1)
	go func() { done <- client.Handshake() }()
	if err := l.accept(t).Prepare(time.Now().Add(patience)); err == nil {
		t.Error("accepted")
	}
	if err := <-done; err == nil {
		t.Error("accepted")
	}
}

// inClear is a client's connection that says its alerts in clear, as OpenSSL does.
type inClear struct{ net.Conn }

func (c inClear) Write(p []byte) (int, error) {
	const clientHello = 22
	if p[0] == clientHello {
		return c.Conn.Write(p)
	}
	const fatal, unknownAuthority = 2, 48
	_, err := c.Conn.Write([]byte{21, 3, 3, 0, 2, fatal, unknownAuthority})
	return len(p), err
}

func TestAClientThatDoesNotTrustTheCertificateIsNamedAsTheLikelyCause(t *testing.T) {
	l := listen(t, secure(t, certtest.New(t)))
	client := tls.Client(inClear{l.dial(t)}, &tls.Config{RootCAs: certtest.New(t).Pool(), ServerName: "localhost"})
	done := make(chan error, 1)
	go func() { done <- client.Handshake() }()
	err := l.accept(t).Prepare(time.Now().Add(patience))
	if err == nil || !strings.Contains(err.Error(), "does not trust the certificate") {
		t.Errorf("the server reports %v", err)
	}
	if err := <-done; err == nil {
		t.Error("the client trusts an authority that it does not know")
	}
}
