package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	. "emanet/e2e/harness"
)

// Every client that people use publishes to every other, each unmodified, with the broker killed between.
func TestEveryRealClientReceivesFromEveryOtherAcrossAKill(t *testing.T) { // [MQTT311-7.0.0-2]
	t.Parallel()
	b := Start(t)
	clients := RealClients(t)
	ids := make([]string, len(clients))
	for i, c := range clients {
		ids[i] = fmt.Sprintf("receiver-%d", i)
		c.Subscribe(t, b.Addr(), ids[i], "all/#")
	}
	want := map[string][]string{}
	for i, c := range clients {
		topic := fmt.Sprintf("all/%d", i)
		payloads := []string{"one", "two", "three"}
		c.Publish(t, b.Addr(), fmt.Sprintf("publisher-%d", i), topic, payloads...)
		want[topic] = payloads
	}
	b.Kill9()
	b.Restart()
	for i, c := range clients {
		t.Run(c.Name, func(t *testing.T) {
			got := map[string][]string{}
			for _, line := range c.Receive(t, b.Addr(), ids[i], "all/#", 3*len(clients)) {
				topic, payload, _ := strings.Cut(line, " ")
				got[topic] = append(got[topic], payload)
			}
			for topic, payloads := range want {
				if !slices.Equal(got[topic], payloads) {
					t.Errorf("from %s: %q, not %q", topic, got[topic], payloads)
				}
			}
		})
	}
}
