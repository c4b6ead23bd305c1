package transport

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	. "emanet/e2e/harness"
)

// A stop is told in MQTT's words, and then in WebSocket's.
func TestAStopIsToldOverEveryTransport(t *testing.T) {
	t.Parallel()
	r := start(t)
	open := map[string]*Client{}
	for _, scheme := range []string{"tls", "ws", "wss", "unix"} {
		open[scheme] = r.open(t, scheme, Clean(5, "c-"+scheme))
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Terminate()
	}()
	for scheme, c := range open {
		if p := c.Expect(DISCONNECT); p.Code != 0x8B {
			t.Errorf("%s: %v", scheme, p)
		}
		_, err := c.TryRead(Patience)
		want := "EOF"
		if strings.HasPrefix(scheme, "ws") {
			want = "close 1000"
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s ends with %v", scheme, err)
		}
		c.Drop()
	}
	<-done
}

func TestHTTPSServesTheSameAsHTTP(t *testing.T) {
	t.Parallel()
	r := start(t)
	client := http.Client{Transport: &http.Transport{TLSClientConfig: r.over(t, "tls").TLS(t)}, Timeout: Patience}
	defer client.CloseIdleConnections()
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/metrics": 200, "/mqtt": 426, "/": 404} {
		res, err := client.Get("https://" + r.https + path)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != want || res.TLS.Version < tls.VersionTLS12 {
			t.Errorf("%s: %d", path, res.StatusCode)
		}
	}
}

// A page on another origin must not reach a broker on this machine through the browser of whoever visits it.
func TestAPageFromElsewhereIsRefusedAndLogged(t *testing.T) {
	t.Parallel()
	r := start(t, "--ws-origins", "https://app.example")
	ask := func(host, origin string) string {
		return raw(t, strings.TrimPrefix(r.URL(""), "http://"), fmt.Sprintf("GET /mqtt HTTP/1.1\r\nHost: %s\r\nOrigin: %s\r\n"+
			"Upgrade: websocket\r\nConnection: Upgrade, close\r\nSec-WebSocket-Version: 13\r\n"+
			"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n", host, origin))
	}
	for _, refused := range [][2]string{{"localhost", "https://evil.example"}, {"evil.example", "http://evil.example"}} {
		if got := ask(refused[0], refused[1]); !strings.HasPrefix(got, "HTTP/1.1 403 ") {
			t.Errorf("%q is answered %q", refused, got)
		}
	}
	if log := r.Log(); !strings.Contains(log, "https://evil.example") {
		t.Errorf("the log does not name the page:\n%s", log)
	}
	r.counts(t, "emanet_websocket_refused_total", 2)
}

// MQTT's own limits hold, and HTTP's own time-outs do not: a WebSocket that says nothing lives as long as its
// keep-alive, and one without CONNECT no longer than any other.
func TestAWebSocketLivesByTheRulesOfMQTT(t *testing.T) {
	t.Parallel()
	r := start(t, "--mqtt-connect-timeout", "300ms")
	quiet := r.open(t, "ws", Clean(5, "quiet"))
	conn, err := r.over(t, "ws").Connect(t)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetReadDeadline(time.Now().Add(Patience))
	if _, err := conn.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "close 1000") {
		t.Errorf("without CONNECT: %v", err)
	}
	r.counts(t, "emanet_mqtt_timeouts_total", 1)
	quiet.Ping()
}
