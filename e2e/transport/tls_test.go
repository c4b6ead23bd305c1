package transport

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "emanet/e2e/harness"
)

// shown is the serial number of the certificate that a new connection is shown.
func (r *rig) shown(t *testing.T) string {
	t.Helper()
	conn, err := r.over(t, "tls").Connect(t)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return conn.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber.String()
}

func TestNewCertificatesAreShownAndNobodyIsCutOff(t *testing.T) {
	t.Parallel()
	r := start(t)
	held := []*Client{r.open(t, "tls", Clean(5, "held")), r.open(t, "wss", Clean(4, "held-web"))}
	first := r.shown(t)
	r.authority.Issue("server") // over the old files
	r.Reload("ok")
	second := r.shown(t)
	if second == first {
		t.Error("the old certificate is shown after SIGHUP")
	}
	if err := os.WriteFile(r.cert, []byte("-----BEGIN CERTIFICATE-----\nbroken"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.Reload("failed")
	if now := r.shown(t); now != second {
		t.Error("a broken file has changed what is shown")
	}
	if code, text := r.Health(); code != 200 || !strings.Contains(text, "warning: certificates") {
		t.Errorf("/healthz answers %d %q", code, text)
	}
	for _, c := range held {
		c.Ping()
	}
	// Without a signal, after a few seconds: the files change and stay as they are.
	r.authority.Issue("server")
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for r.shown(t) == second {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("the change of the files was not noticed:\n%s", r.Log())
		}
	}
	if code, text := r.Health(); code != 200 || text != "ok\n" {
		t.Errorf("/healthz answers %d %q", code, text)
	}
	for _, c := range held {
		c.Ping()
	}
}

func TestACertificateThatEndsSoonIsWarnedOf(t *testing.T) {
	t.Parallel()
	r := start(t) // certificates of tests are good for a day
	if log := r.Log(); !strings.Contains(log, "expires soon") {
		t.Errorf("the log says nothing of it:\n%s", log)
	}
	if left := r.Metrics()["emanet_tls_certificate_expiry_seconds"]; left < 80_000 || left > 86_400 {
		t.Errorf("%v seconds are left", left)
	}
}

// A client certificate names the user, and the rules are that user's.
func TestTheNameInACertificateIsTheUser(t *testing.T) {
	t.Parallel()
	a := NewAuthority(t)
	acl := filepath.Join(t.TempDir(), "acl")
	if err := os.WriteFile(acl, []byte("user pump-7\ntopic readwrite pumps/7/#\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := start(t, "--tls-client-ca", a.File, "--tls-client-auth", "require", "--tls-user", "cn", "--acl", acl)
	for _, scheme := range []string{"tls", "wss"} {
		e := r.over(t, scheme)
		e.Cert, e.Key = a.Issue("pump-7")
		conn, err := e.Connect(t)
		if err != nil {
			t.Fatal(err)
		}
		c := Greet(t, On(t, conn, 5), Clean(5, "c-"+scheme))
		if ack := c.PublishPacket(Packet{Topic: "pumps/7/speed", Payload: []byte("x"), QoS: 1}); ack.Code >= 0x80 {
			t.Errorf("%s: its own topic is refused: %v", scheme, ack)
		}
		if ack := c.PublishPacket(Packet{Topic: "pumps/8/speed", Payload: []byte("x"), QoS: 1}); ack.Code != 0x87 {
			t.Errorf("%s: another's topic: %v", scheme, ack)
		}
	}
}

func TestClientsThatShowNoFitCertificateAreNotLetIn(t *testing.T) {
	t.Parallel()
	a, stranger := NewAuthority(t), NewAuthority(t)
	r := start(t, "--tls-client-ca", a.File, "--tls-client-auth", "require")
	for name, issue := range map[string]func() (string, string){
		"none":                    func() (string, string) { return "", "" },
		"an expired one":          func() (string, string) { return a.Issue("old", expired) },
		"of an unknown authority": func() (string, string) { return stranger.Issue("who") },
	} {
		e := r.over(t, "tls")
		e.Cert, e.Key = issue()
		conn, err := e.Connect(t)
		if err == nil { // TLS 1.3 tells the client after its own handshake
			_, err = conn.Write(Clean(4, "x").Bytes())
			if err == nil {
				_ = conn.SetReadDeadline(time.Now().Add(Patience))
				_, err = conn.Read(make([]byte, 1))
			}
			conn.Close()
		}
		var told *net.OpError
		if !errors.As(err, &told) || told.Op != "remote error" {
			t.Errorf("%s: %v", name, err)
		}
	}
	r.counts(t, "emanet_mqtt_unprepared_total", 3)
}

func expired(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Hour) }

// counts waits until a figure has that value.
func (r *rig) counts(t *testing.T, name string, want float64) {
	t.Helper()
	deadline := time.After(Patience)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		got := r.Metrics()[name]
		if got == want {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%s is %v, not %v", name, got, want)
		}
	}
}

// raw sends bytes and gives what comes back until the end of the connection.
func raw(t *testing.T, addr, sent string) string {
	t.Helper()
	conn, err := net.DialTimeout("tcp", addr, Patience)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(Patience))
	if _, err := io.WriteString(conn, sent); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(conn)
	if err != nil && !strings.Contains(err.Error(), "reset") {
		t.Fatalf("the connection stays open after %q: %v", sent, err)
	}
	return string(got)
}

func TestWhatComesToTheWrongPortEndsThere(t *testing.T) {
	t.Parallel()
	r := start(t)
	const request = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
	mqtt := string(Clean(4, "lost").Bytes())
	raw(t, r.mqtts, request)
	raw(t, r.mqtts, mqtt)
	raw(t, r.mqtts, "\x00\x01\x02garbage")
	raw(t, r.Addr(), request)
	raw(t, r.Addr(), "\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03"+strings.Repeat("x", 160)) // a ClientHello
	if got := raw(t, r.https, request); !strings.HasSuffix(got, "This port speaks HTTPS.\n") {
		t.Errorf("plain HTTP on the HTTPS port is answered with %q", got)
	}
	raw(t, r.https, mqtt)
	r.counts(t, "emanet_mqtt_unprepared_total", 3)
	r.counts(t, "emanet_http_unprepared_total", 2)
	r.counts(t, "emanet_mqtt_connections", 0) // all lines are written
	for _, want := range []string{"plain HTTP on a listener over TLS", "plain MQTT on a listener over TLS"} {
		if log := r.Log(); !strings.Contains(log, want) {
			t.Errorf("the log does not say %q:\n%s", want, log)
		}
	}
	r.open(t, "tls", Clean(5, "well")).Ping()
}

func TestASlowHandshakeIsCutOff(t *testing.T) {
	t.Parallel()
	r := start(t, "--mqtt-connect-timeout", "200ms")
	began := time.Now()
	raw(t, r.mqtts, "\x16\x03\x01")
	if took := time.Since(began); took > Patience/2 {
		t.Errorf("after %v", took)
	}
	r.counts(t, "emanet_mqtt_unprepared_total", 1)
}
