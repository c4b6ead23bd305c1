package transport

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/gobwas/ws"

	"emanet/internal/transport/certtest"
)

// ask sends a handshake with those headers besides the usual ones, and gives the status. Headers replace the usual.
func ask(t *testing.T, w *WebSocket, headers map[string]string) int {
	t.Helper()
	l := listen(t)
	accepted := webSockets(t, l, w)
	nc := l.dial(t)
	all := map[string]string{
		"Host": "127.0.0.1:8080", "Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13",
		"Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Protocol": "mqtt",
	}
	for name, value := range headers {
		all[name] = value
	}
	var request strings.Builder
	request.WriteString("GET /mqtt HTTP/1.1\r\n")
	for name, value := range all {
		if value != "" {
			fmt.Fprintf(&request, "%s: %s\r\n", name, value)
		}
	}
	request.WriteString("\r\n")
	if _, err := io.WriteString(nc, request.String()); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(nc), nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode == http.StatusSwitchingProtocols {
		<-accepted
	}
	return response.StatusCode
}

func TestPagesFromElsewhereAreKeptOut(t *testing.T) {
	for _, test := range []struct {
		name, host, origin string
		allowed            []string
		want               int
	}{
		{"no browser", "broker.example", "", nil, 101},
		{"the listener's own page, by address", "127.0.0.1:8080", "http://127.0.0.1:8080", nil, 101},
		{"the listener's own page, by address in the network", "192.0.2.7:8080", "http://192.0.2.7:8080", nil, 101},
		{"the listener's own page, IPv6", "[::1]:8080", "http://[::1]:8080", nil, 101},
		{"the listener's own page, as localhost", "localhost:8080", "http://localhost:8080", nil, 101},
		{"a page from elsewhere", "127.0.0.1:8080", "https://evil.example", nil, 403},
		{"a page on another port of this machine", "localhost:8080", "http://localhost:3000", nil, 403},
		{"a name that was pointed at this machine", "evil.example:8080", "http://evil.example:8080", nil, 403},
		{"a page from a file", "127.0.0.1:8080", "null", nil, 403},
		{"nonsense", "127.0.0.1:8080", "://", nil, 403},
		{"a page that is invited", "127.0.0.1:8080", "https://app.example", []string{"https://app.example"}, 101},
		{"a page that is invited, in capitals", "127.0.0.1:8080", "https://APP.example", []string{"https://app.example"}, 101},
		{"the invited page over plain HTTP", "127.0.0.1:8080", "http://app.example", []string{"https://app.example"}, 403},
		{"a longer name than the invited one", "127.0.0.1:8080", "https://app.example.evil", []string{"https://app.example"}, 403},
		{"everybody is invited", "127.0.0.1:8080", "null", []string{"*"}, 101},
	} {
		t.Run(test.name, func(t *testing.T) {
			var told []string
			w := &WebSocket{Origins: test.allowed, Refused: func(_ *http.Request, why string) { told = append(told, why) }}
			if got := ask(t, w, map[string]string{"Host": test.host, "Origin": test.origin}); got != test.want {
				t.Errorf("%d, not %d", got, test.want)
			}
			if refused := test.want != 101; (len(told) == 1) != refused || (w.Rejected.Load() == 1) != refused || (w.Upgraded.Load() == 0) != refused {
				t.Errorf("told %q, %d rejected, %d upgraded", told, w.Rejected.Load(), w.Upgraded.Load())
			}
		})
	}
}

func TestTheSubprotocolMustBeOffered(t *testing.T) { // [MQTT-6.0.0-3] [MQTT311-6.0.0-3]
	for offered, want := range map[string]int{"": 400, "mqttv3.1": 400, "mqtt": 101, "chat, mqtt": 101} {
		if got := ask(t, new(WebSocket), map[string]string{"Sec-WebSocket-Protocol": offered}); got != want {
			t.Errorf("%q: %d, not %d", offered, got, want)
		}
	}
}

func TestWhatIsNoHandshakeIsAnswered(t *testing.T) {
	for name, test := range map[string]struct {
		header, value string
		want          int
	}{
		"no upgrade":      {"Upgrade", "", 426},
		"another upgrade": {"Upgrade", "h2c", 426},
		"an old version":  {"Sec-WebSocket-Version", "8", 426},
		"no key":          {"Sec-WebSocket-Key", "", 400},
	} {
		if got := ask(t, new(WebSocket), map[string]string{test.header: test.value}); got != test.want {
			t.Errorf("%s: %d, not %d", name, got, test.want)
		}
	}
}

func TestWebSocketOverTLS(t *testing.T) {
	a := certtest.New(t)
	l := listen(t, secure(t, a))
	accepted := webSockets(t, l, new(WebSocket))
	client := l.dialTLS(t, a)
	b := &browser{t, client, upgrade(t, client)}
	c := <-accepted
	b.send(frame(ws.OpBinary, "hello"), frame(ws.OpPing, "?"))
	expect(t, c, "hello")
	go func() {
		if _, err := c.Write(noise(100_000)); err != nil {
			t.Error(err)
		}
		if _, err := c.Read(make([]byte, 1)); err != io.EOF {
			t.Error(err)
		}
		_ = c.CloseWrite()
	}()
	got, pongs := 0, 0
	for got < 100_000 {
		f := b.next()
		if f.Header.OpCode == ws.OpPong {
			pongs++
			continue
		}
		got += len(f.Payload)
	}
	b.send(frame(ws.OpClose, ""))
	for {
		f := b.next()
		if f.Header.OpCode == ws.OpClose {
			break
		}
		pongs++
	}
	if pongs != 1 {
		t.Errorf("%d pongs", pongs)
	}
}

func TestAPlainRequestOnTheTLSPortIsToldSo(t *testing.T) {
	a := certtest.New(t)
	l := listen(t, secure(t, a))
	webSockets(t, l, new(WebSocket))
	client := l.dial(t)
	if _, err := io.WriteString(client, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(client); !strings.HasSuffix(string(got), "This port speaks HTTPS.\n") {
		t.Errorf("%q, %v", got, err)
	}
}
