package transport

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"

	. "emanet/e2e/harness"
)

const header = "PROXY TCP4 192.0.2.1 192.0.2.9 4711 1883\r\n"

func TestBehindAProxyTheClientsAddressCounts(t *testing.T) {
	t.Parallel()
	r := start(t, "--proxy-protocol", "require", "--proxy-trusted", "127.0.0.1", "--proxy-listeners", "mqtt,mqtts",
		"--max-connections-per-address", "1", "--log-level", "debug")
	open := func(header string) *Client {
		conn, err := net.Dial("tcp", r.Addr())
		if err != nil {
			t.Fatal(err)
		}
		c := On(t, conn, 5)
		if _, err := io.WriteString(conn, header); err != nil {
			t.Fatal(err)
		}
		return c
	}
	first := Greet(t, open(header), Clean(5, "first"))
	second := open(header)
	second.Write(Clean(5, "second").Bytes())
	second.ExpectClosed() // by the limit on that address
	other := Greet(t, open(strings.Replace(header, "192.0.2.1", "192.0.2.2", 1)), Clean(5, "other"))
	first.Ping()
	other.Ping()
	bare := open("")
	bare.Write(Clean(5, "bare").Bytes())
	bare.ExpectClosed()
	r.counts(t, "emanet_mqtt_unprepared_total", 1)
	r.counts(t, "emanet_mqtt_connections", 2) // the others have ended, and their lines are written
	for _, want := range []string{"remote=192.0.2.1:4711", "remote=192.0.2.2:4711", "PROXY header"} {
		if log := r.Log(); !strings.Contains(log, want) {
			t.Errorf("the log does not say %q:\n%s", want, log)
		}
	}
}

func TestWhoIsNoProxyIsNotBelieved(t *testing.T) {
	t.Parallel()
	r := start(t, "--proxy-protocol", "trusted", "--proxy-trusted", "192.0.2.0/24", "--log-level", "debug")
	r.open(t, "tls", Clean(5, "direct")).Ping()
	r.open(t, "ws", Clean(5, "direct-web")).Ping()
	raw(t, r.Addr(), header+string(Clean(5, "forged").Bytes()))
	if log := r.Log(); strings.Contains(log, "192.0.2.1:") {
		t.Errorf("a forged address is in the log:\n%s", log)
	}
}

// A reverse proxy in front of the HTTP listener is one as well: what is refused there is the client's doing.
func TestBehindAProxyAWebSocketHasTheClientsAddress(t *testing.T) {
	t.Parallel()
	r := start(t, "--proxy-protocol", "trusted", "--proxy-trusted", "127.0.0.2", "--proxy-listeners", "http")
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP("127.0.0.2")}, Timeout: Patience}
	conn, err := dialer.Dial("tcp", strings.TrimPrefix(r.URL(""), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(Patience))
	if _, err := io.WriteString(conn, header+"GET /mqtt HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(conn); err != nil || !strings.HasPrefix(string(got), "HTTP/1.1 426 ") {
		t.Errorf("%q, %v", got, err)
	}
	if log := r.Log(); !strings.Contains(log, "WebSocket refused\" remote=192.0.2.1:4711") {
		t.Errorf("the log does not name the client:\n%s", log)
	}
}
