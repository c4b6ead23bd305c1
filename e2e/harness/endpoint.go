package harness

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	v3 "github.com/eclipse/paho.mqtt.golang"
)

// Endpoint is where and how a client connects. Clients take it as one string in place of host:port: a URL such as
// tls://localhost:8883?ca=FILE&cert=FILE&key=FILE, with the schemes tcp, tls, ws, wss and unix.
type Endpoint struct {
	Scheme, Host, Port, Path string
	CA, Cert, Key            string // files
}

// ParseEndpoint reads what String has written, and plain host:port.
func ParseEndpoint(t testing.TB, addr string) Endpoint {
	t.Helper()
	if !strings.Contains(addr, "://") {
		host, port, err := net.SplitHostPort(addr)
		if err != nil {
			t.Fatal(err)
		}
		return Endpoint{Scheme: "tcp", Host: host, Port: port}
	}
	u, err := url.Parse(addr)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	return Endpoint{u.Scheme, u.Hostname(), u.Port(), u.Path, q.Get("ca"), q.Get("cert"), q.Get("key")}
}

func (e Endpoint) String() string {
	q := url.Values{}
	for name, value := range map[string]string{"ca": e.CA, "cert": e.Cert, "key": e.Key} {
		if value != "" {
			q.Set(name, value)
		}
	}
	return e.URL(e.Scheme) + "?" + q.Encode()
}

// URL is the endpoint without files, under the name that a client has for its scheme.
func (e Endpoint) URL(scheme string) string {
	if e.Scheme == "unix" {
		return scheme + "://" + e.Path
	}
	return scheme + "://" + net.JoinHostPort(e.Host, e.Port) + e.Path
}

// TLS is for a client in Go.
func (e Endpoint) TLS(t testing.TB) *tls.Config {
	t.Helper()
	config := &tls.Config{ServerName: e.Host, MinVersion: tls.VersionTLS12}
	if e.CA != "" {
		pem, err := os.ReadFile(e.CA)
		if err != nil {
			t.Fatal(err)
		}
		config.RootCAs = x509.NewCertPool()
		config.RootCAs.AppendCertsFromPEM(pem)
	}
	if e.Cert != "" {
		pair, err := tls.LoadX509KeyPair(e.Cert, e.Key)
		if err != nil {
			t.Fatal(err)
		}
		// Sent even if the server would not want it: that it says so is what a test may be about.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	}
	return config
}

// Connect opens a connection that carries MQTT.
func (e Endpoint) Connect(t testing.TB) (net.Conn, error) {
	t.Helper()
	address := net.JoinHostPort(e.Host, e.Port)
	switch e.Scheme {
	case "tcp":
		return net.DialTimeout("tcp", address, Patience)
	case "unix":
		return net.DialTimeout("unix", e.Path, Patience)
	case "tls":
		return tls.DialWithDialer(&net.Dialer{Timeout: Patience}, "tcp", address, e.TLS(t))
	case "ws", "wss":
		return v3.NewWebsocket(e.URL(e.Scheme), e.TLS(t), Patience, http.Header{}, nil)
	}
	return nil, fmt.Errorf("no such scheme: %q", e.Scheme)
}
