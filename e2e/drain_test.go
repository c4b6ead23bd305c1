package e2e

import (
	"bufio"
	"context"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/paho"

	. "emanet/e2e/harness"
)

// A client of MQTT 5 is told that the server shuts down, one of 3.1.1 finds its connection closed.
func TestSIGTERMIsToldToRealClients(t *testing.T) {
	t.Parallel()
	OnlyEmanet(t)
	b := Start(t)
	told := make(chan byte, 1)
	conn, err := net.Dial("tcp", b.Addr())
	if err != nil {
		t.Fatal(err)
	}
	five := paho.NewClient(paho.ClientConfig{Conn: conn, OnServerDisconnect: func(d *paho.Disconnect) { told <- d.ReasonCode }})
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	if _, err := five.Connect(ctx, &paho.Connect{ClientID: "five", CleanStart: true, KeepAlive: 30}); err != nil {
		t.Fatal(err)
	}
	old := Open(t, b.Addr(), Clean(4, "old"))
	b.Terminate() // expects exit code 0
	select {
	case code := <-told:
		if code != 0x8B {
			t.Errorf("told %#x", code)
		}
	case <-ctx.Done():
		t.Error("paho.golang was told nothing")
	}
	if last := old.ExpectClosed(); last.Type != 0 {
		t.Errorf("3.1.1 got %v", last)
	}
	if log := b.Log(); !strings.Contains(log, "msg=stopped") {
		t.Errorf("the log does not end well:\n%s", log)
	}
}

// A load balancer sees the end first: /readyz is red while clients are still being waited for, and the MQTT port is
// closed already. A client that does not read delays it, but not beyond the bound.
func TestSIGTERMTurnsReadyzRedAndIsBounded(t *testing.T) {
	t.Parallel()
	OnlyEmanet(t)
	b := Start(t, "--drain-timeout", "1s")
	stuck := Dial(t, b.Addr(), 5)
	if err := stuck.Conn().SetReadBuffer(4 << 10); err != nil {
		t.Fatal(err)
	}
	stuck.Write(Clean(5, "stuck").Bytes())
	stuck.Expect(CONNACK)
	stuck.Subscribe(To("flood", 0))
	pub := Open(t, b.Addr(), Clean(4, "pub"))
	for range 64 { // more than the sockets hold
		pub.Publish("flood", strings.Repeat("x", 256<<10), 0)
	}
	pub.Ping()

	began := time.Now()
	if err := syscall.Kill(b.Pid(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	await(t, "/readyz to say stopping", func() bool {
		code, text := ask(b.URL("/readyz"))
		return code == http.StatusServiceUnavailable && text == "stopping\n"
	})
	await(t, "the MQTT port to be closed", func() bool {
		conn, err := net.Dial("tcp", b.Addr())
		if err == nil {
			conn.Close()
		}
		return err != nil
	})
	if code := b.Ended(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if took := time.Since(began); took > Patience {
		t.Errorf("it took %v to end", took)
	}
}

// ask gives status and text of an answer; 0 for none.
func ask(url string) (int, string) {
	client := http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Get(url)
	if err != nil {
		return 0, ""
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(text)
}

// await polls for what has no signal.
func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(Patience); !is(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// The end of the server ends its connections, none of which took leave: their wills are due, in this process or in the
// next, once. One with a delay waits for its client to come back, across the restart as well.
func TestSIGTERMSendsWillsOnceAndKeepsTheDelayedOnes(t *testing.T) {
	t.Parallel()
	OnlyEmanet(t)
	b := Start(t)
	mourner := Open(t, b.Addr(), Persistent(5, "mourner"))
	mourner.Subscribe(To("will/#", 1))
	mourner.Disconnect()
	will := func(topic string, delay uint32) *Will {
		w := &Will{Topic: topic, Payload: "gone", QoS: 1}
		if delay > 0 {
			w.Props = Props{Num(WillDelay, delay)}
		}
		return w
	}
	leave := func(id string, w *Will) {
		Open(t, b.Addr(), Connect{Version: 5, ClientID: id, Will: w, Props: Props{Num(SessionExpiry, 3600)}})
	}
	leave("now", will("will/now", 0))
	leave("later", will("will/later", 3600))
	leave("comes back", will("will/never", 60))
	b.Terminate()
	b.Restart()
	back := Open(t, b.Addr(), Connect{Version: 5, ClientID: "comes back", Props: Props{Num(SessionExpiry, 3600)}})
	mourner = Open(t, b.Addr(), Persistent(5, "mourner"))
	mourner.Ack(mourner.ExpectPublish("will/now", "gone"))
	back.Publish("will/end", "end", 1)
	mourner.ExpectPublish("will/end", "end") // nothing between
}

// Whatever carries MQTT, the news comes, and then the end.
func TestSIGTERMIsToldOverEveryTransport(t *testing.T) {
	t.Parallel()
	OnlyEmanet(t)
	a := NewAuthority(t)
	cert, key := a.Issue("server", func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.ParseIP("127.0.0.1")} })
	socket := filepath.Join(t.TempDir(), "mqtt")
	ports := [2]string{}
	for i := range ports {
		var err error
		if ports[i], err = FreePort(); err != nil {
			t.Fatal(err)
		}
	}
	b := Start(t, "--tls-cert", cert, "--tls-key", key, "--mqtts", "127.0.0.1:"+ports[0], "--https", "127.0.0.1:"+ports[1], "--mqtt-unix", socket)
	_, web, _ := net.SplitHostPort(strings.TrimPrefix(b.URL(""), "http://"))
	type told struct {
		scheme string
		got    []Packet
		err    error
	}
	ends := make(chan told)
	endpoints := []Endpoint{
		{Scheme: "tls", Host: "127.0.0.1", Port: ports[0], CA: a.File}, {Scheme: "unix", Path: socket},
		{Scheme: "ws", Host: "127.0.0.1", Port: web, Path: "/mqtt"}, {Scheme: "wss", Host: "127.0.0.1", Port: ports[1], Path: "/mqtt", CA: a.File},
	}
	for _, e := range endpoints {
		conn, err := e.Connect(t)
		if err != nil {
			t.Fatalf("%s: %v", e.Scheme, err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(3 * Patience))
		if _, err := conn.Write(Clean(5, "over "+e.Scheme).Bytes()); err != nil {
			t.Fatal(err)
		}
		r := bufio.NewReader(conn)
		if p, err := ReadPacket(r, 5); err != nil || p.Type != CONNACK || p.Code != 0 {
			t.Fatalf("%s: %v, %v", e.Scheme, p, err)
		}
		go func() {
			end := told{scheme: e.Scheme}
			for end.err == nil {
				var p Packet
				if p, end.err = ReadPacket(r, 5); end.err == nil {
					end.got = append(end.got, p)
				}
			}
			ends <- end
		}()
	}
	b.Terminate()
	for range endpoints {
		end := <-ends
		if len(end.got) != 1 || end.got[0].Type != DISCONNECT || end.got[0].Code != 0x8B || errors.Is(end.err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: told %v, then %v", end.scheme, end.got, end.err)
		}
	}
}
