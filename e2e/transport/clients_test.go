package transport

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	. "emanet/e2e/harness"
)

// Every client that people use, unmodified, over everything it speaks, with the broker killed between.
func TestRealClientsOverEveryTransport(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.check(t, "tls", "ws", "wss", "unix")
}

// The same with a certificate of its own for every client.
func TestRealClientsWithCertificates(t *testing.T) {
	t.Parallel()
	a := NewAuthority(t)
	r := start(t, "--tls-client-ca", a.File, "--tls-client-auth", "require", "--tls-user", "cn")
	cert, key := a.Issue("pump-7")
	for _, scheme := range []string{"tls", "wss"} {
		e := r.over(t, scheme)
		e.Cert, e.Key = cert, key
		for i, c := range RealClients(t) {
			if i%2 == 0 || scheme == "wss" && !c.WebSocket { // one version of each
				continue
			}
			t.Run(c.Name+" over "+scheme, func(t *testing.T) {
				t.Parallel()
				c.Publish(t, e.String(), Name("certified"), "certified", "x")
			})
		}
	}
}

func (r *rig) check(t *testing.T, schemes ...string) {
	type way struct {
		client    RealClient
		to        string
		id, topic string
	}
	var ways []way
	for _, scheme := range schemes {
		for _, c := range RealClients(t) {
			isWeb := scheme == "ws" || scheme == "wss"
			if isWeb && !c.WebSocket || scheme == "unix" && !strings.HasPrefix(c.Name, "mosquitto") {
				continue
			}
			n := len(ways)
			ways = append(ways, way{c, r.over(t, scheme).String(), fmt.Sprintf("%s-%d", scheme, n), fmt.Sprintf("way/%d", n)})
		}
	}
	payloads := []string{"one", "two", strings.Repeat("large ", 12_000)}
	each := func(step string, do func(t *testing.T, w way)) {
		t.Run(step, func(t *testing.T) {
			for _, w := range ways {
				t.Run(w.client.Name+" over "+w.id, func(t *testing.T) {
					t.Parallel()
					do(t, w)
				})
			}
		})
	}
	each("subscribe", func(t *testing.T, w way) { w.client.Subscribe(t, w.to, w.id, w.topic) })
	each("publish", func(t *testing.T, w way) { w.client.Publish(t, w.to, w.id+"-p", w.topic, payloads...) })
	r.Kill9()
	r.Restart()
	each("receive", func(t *testing.T, w way) {
		want := make([]string, len(payloads))
		for i, p := range payloads {
			want[i] = w.topic + " " + p
		}
		if got := w.client.Receive(t, w.to, w.id, w.topic, len(payloads)); !slices.Equal(got, want) {
			t.Errorf("received %.200q", got)
		}
	})
}
