package transport

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	. "emanet/e2e/harness"
)

// line is a way to the broker that can be cut.
type line struct {
	net.Listener
	to string

	mu    sync.Mutex
	isCut bool
	conns []net.Conn
}

func newLine(t *testing.T, to string) *line {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &line{Listener: listener, to: to}
	t.Cleanup(func() { l.Close(); l.cut() })
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			l.carry(near)
		}
	}()
	return l
}

func (l *line) carry(near net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	far, err := net.Dial("tcp", l.to)
	if err != nil || l.isCut {
		near.Close()
		if err == nil {
			far.Close()
		}
		return
	}
	l.conns = append(l.conns, near, far)
	pipe := func(to, from net.Conn) {
		_, _ = io.Copy(to, from)
		to.Close()
	}
	go pipe(near, far)
	go pipe(far, near)
}

func (l *line) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isCut = true
	for _, c := range l.conns {
		c.Close()
	}
	l.conns = nil
}

func (l *line) mend() {
	l.mu.Lock()
	l.isCut = false
	l.mu.Unlock()
}

// MQTT.js in a browser: a page of an invited origin publishes and subscribes at QoS 1 and 2, and when the broker was
// killed it comes back to its session, with what was queued meanwhile. A page of another origin gets no connection.
func TestABrowserKeepsItsSessionAcrossAKill(t *testing.T) {
	t.Parallel()
	browser := Browser(t)
	pages := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/mqtt.js":
			http.ServeFile(w, r, BrowserMQTT(t))
		default:
			http.ServeFile(w, r, "testdata/page.html")
		}
	}))
	defer pages.Close()
	r := start(t, "--ws-origins", pages.URL)
	way := newLine(t, strings.TrimPrefix(r.URL(""), "http://"))

	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	stranger := strings.Replace(pages.URL, "127.0.0.1", "localhost", 1)
	cmd := exec.CommandContext(ctx, browser[0], append(browser[1:], pages.URL+"/page", stranger+"/page", "ws://"+way.Addr().String()+"/mqtt")...)
	var errs strings.Builder
	cmd.Stderr = &errs
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := &page{t: t, lines: bufio.NewScanner(out), errs: &errs}

	said.all("stranger refused")
	said.all("connected, session false", "got dashboard/own one qos 1", "got dashboard/own two qos 2", "published both")
	way.cut()
	r.Kill9()
	r.Restart()
	other := r.open(t, "tcp", Clean(5, "other"))
	other.PublishPacket(Packet{Topic: "dashboard/1", Payload: []byte("queued"), QoS: 1})
	other.PublishPacket(Packet{Topic: "dashboard/2", Payload: []byte("queued"), QoS: 2})
	way.mend()
	said.all("connected, session true", "got dashboard/1 queued qos 1", "got dashboard/2 queued qos 2",
		"got dashboard/own again qos 2", "published again")

	in.Close()
	for said.lines.Scan() {
		t.Errorf("and then: %s", said.lines.Text()) // nothing comes twice
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, errs.String())
	}
}

// page is what the page says.
type page struct {
	t     *testing.T
	lines *bufio.Scanner
	errs  *strings.Builder
}

// all reads lines until each of these has come, in whatever order; errors of the network are the browser's own lines.
func (p *page) all(want ...string) {
	p.t.Helper()
	left := map[string]bool{}
	for _, w := range want {
		left[w] = true
	}
	for len(left) > 0 {
		if !p.lines.Scan() {
			p.t.Fatalf("the page has not said %v:\n%s", left, p.errs.String())
		}
		text := p.lines.Text()
		switch {
		case left[text]:
			delete(left, text)
		case strings.HasPrefix(text, "WebSocket connection to "):
		default:
			p.t.Fatalf("the page says %q, while waiting for %v", text, left)
		}
	}
}
