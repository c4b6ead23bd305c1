// Package transport has the end-to-end tests of what carries MQTT: TLS, WebSocket, Unix sockets, the PROXY protocol.
package transport

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "emanet/e2e/harness"
)

func TestMain(m *testing.M) { Main(m) }

// rig is a broker with every listener there is.
type rig struct {
	*Broker
	authority *Authority
	mqtts     string
	https     string
	socket    string
	cert, key string // of the server
}

// start runs one until the end of the test.
func start(t *testing.T, args ...string) *rig {
	t.Helper()
	OnlyEmanet(t)
	r := &rig{authority: NewAuthority(t)}
	dir, err := os.MkdirTemp("", "emanet-socket-") // short: a socket's name may not be long
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	r.socket = filepath.Join(dir, "mqtt")
	for _, addr := range []*string{&r.mqtts, &r.https} {
		port, err := FreePort()
		if err != nil {
			t.Fatal(err)
		}
		*addr = net.JoinHostPort("127.0.0.1", port)
	}
	r.cert, r.key = r.authority.Issue("server")
	r.Broker = Start(t, append([]string{"--mqtts", r.mqtts, "--https", r.https, "--mqtt-unix", r.socket,
		"--tls-cert", r.cert, "--tls-key", r.key}, args...)...)
	return r
}

// over gives the endpoint of a scheme.
func (r *rig) over(t *testing.T, scheme string) Endpoint {
	t.Helper()
	switch scheme {
	case "tls":
		e := ParseEndpoint(t, r.mqtts)
		e.Scheme, e.CA = scheme, r.authority.File
		return e
	case "ws":
		e := ParseEndpoint(t, strings.TrimPrefix(r.URL(""), "http://"))
		e.Scheme, e.Path = scheme, "/mqtt"
		return e
	case "wss":
		e := ParseEndpoint(t, r.https)
		e.Scheme, e.Path, e.CA = scheme, "/mqtt", r.authority.File
		return e
	case "unix":
		return Endpoint{Scheme: scheme, Path: r.socket}
	}
	return ParseEndpoint(t, r.Addr())
}

// open is a raw client on a connection of a scheme.
func (r *rig) open(t *testing.T, scheme string, c Connect) *Client {
	t.Helper()
	conn, err := r.over(t, scheme).Connect(t)
	if err != nil {
		t.Fatalf("%s: %v", scheme, err)
	}
	return Greet(t, On(t, conn, c.Version), c)
}
