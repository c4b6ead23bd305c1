package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	. "emanet/e2e/harness"
)

// The tests of scale run alone, at a size that suits a small machine; with EMANET_SOAK=1 at the size that is
// promised. What they measure is in their log.
func sized(t testing.TB, usual, promised int) int {
	t.Helper()
	if Soak() {
		return promised
	}
	return usual
}

// A million subscriptions slow nobody down, and a million retained messages are on their way to whoever subscribes to
// all of them before he could ask twice, while others do not notice.
func TestManySubscriptionsAndRetainedTopicsDelayNobody(t *testing.T) {
	OnlyEmanet(t)
	const perClient, perPacket = 10_000, 500
	subscriptions, topics := sized(t, 50_000, 1_000_000), sized(t, 50_000, 1_000_000)
	b := Start(t, "--retained-max", fmt.Sprint(topics+1), "--journal-segments", "16", "--journal-segment-bytes", "16MiB")
	probe := StartProbe(t, b.Addr(), "", "")
	alone, before := probe.Over(3*time.Second), RSS(t, b.Pid())

	for from := 0; from < subscriptions; from += perClient {
		c := Open(t, b.Addr(), Clean(5, Name("many")))
		for at := from; at < min(from+perClient, subscriptions); at += perPacket {
			var subs []Sub
			for i := at; i < min(at+perPacket, from+perClient, subscriptions); i++ {
				subs = append(subs, To([]string{"plant/%d/device%d/state", "plant/%d/device%d/+", "plant/+/x%d/device%d", "plant/%d/device%d/#"}[i%4], 1))
				subs[len(subs)-1].Filter = fmt.Sprintf(subs[len(subs)-1].Filter, i%50, i)
			}
			if codes := c.Subscribe(subs...); len(codes) != len(subs) || codes[0] != 1 {
				t.Fatalf("%d codes, the first %#x", len(codes), codes[0])
			}
		}
	}
	subscribed := RSS(t, b.Pid())
	beside := probe.Over(3 * time.Second)
	t.Logf("alone: %v", alone)
	t.Logf("beside %d subscriptions: %v; %d bytes of memory each", subscriptions, beside, (subscribed-before)/int64(subscriptions))
	if beside.P50 > 2*alone.P50+beside.MachineP99 {
		t.Errorf("beside %d subscriptions a message takes %v, alone %v", subscriptions, beside, alone)
	}

	retainMany(t, b, "r", topics, 20, 1)
	stored := RSS(t, b.Pid())
	awaitCalm(t, probe)
	full := probe.Over(3 * time.Second)
	t.Logf("beside %d retained topics: %v; %d bytes of memory each", topics, full, (stored-subscribed)/int64(topics))

	c := Open(t, b.Addr(), Clean(5, "all"))
	probe.Since()
	began := time.Now()
	first := receiveRetained(t, c, topics)
	took := time.Since(began)
	during := probe.Since()
	t.Logf("the first of %d retained messages came after %v, the last after %v; meanwhile: %v", topics, first, took, during)
	if first > 100*time.Millisecond {
		t.Errorf("the first retained message came after %v", first)
	}
	if during.Max > full.Max+during.MachineMax+50*time.Millisecond {
		t.Errorf("while the retained messages were sent a message took %v, before %v", during, full)
	}
}

// awaitCalm waits until what came before no longer holds up the probe.
func awaitCalm(t *testing.T, probe *Probe) {
	t.Helper()
	Eventually(t, "the broker is calm again", func() bool {
		l := probe.Over(200 * time.Millisecond)
		return l.Count > 0 && l.P99 < 50*time.Millisecond
	})
}

// receiveRetained subscribes to everything and reads until each of the retained messages has come once. It gives the
// time until the first.
func receiveRetained(t *testing.T, c *Client, topics int) (first time.Duration) {
	t.Helper()
	began := time.Now()
	c.Write(SubscribeBytes(c.Version, 1, nil, To("#", 0)))
	seen := make([]bool, topics)
	for got := 0; got < topics; {
		m := c.Read()
		if m.Type == SUBACK || !m.Retain {
			continue // or of the probe
		}
		i, err := strconv.Atoi(strings.TrimPrefix(m.Topic, "r/"))
		if err != nil || seen[i] {
			t.Fatalf("after %d messages: %v", got, m)
		}
		if seen[i] = true; got == 0 {
			first = time.Since(began)
		}
		got++
	}
	return first
}
