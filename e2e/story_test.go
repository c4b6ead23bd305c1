package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	. "emanet/e2e/harness"
)

// logLine is a line of the log in the form json.
type logLine map[string]any

// story is what the log says of a client, in order.
func story(t *testing.T, b *Broker, client string) []logLine {
	t.Helper()
	var lines []logLine
	for text := range strings.Lines(b.Log()) {
		var line logLine
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			if !strings.HasSuffix(text, "\n") {
				continue // being written
			}
			t.Fatalf("a line that is not JSON: %s", text)
		}
		if line["client"] == client {
			lines = append(lines, line)
		}
	}
	return lines
}

// awaitStory waits until the story has so many lines.
func awaitStory(t *testing.T, b *Broker, client string, lines int) []logLine {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(Patience); ; <-tick.C {
		if got := story(t, b, client); len(got) >= lines {
			return got
		}
		if time.Now().After(deadline) {
			t.Fatalf("the story of %s has not %d lines:\n%s", client, lines, b.Log())
		}
	}
}

func (l logLine) expect(t *testing.T, want string) {
	t.Helper()
	for field := range strings.SplitSeq(want, "|") {
		name, value, _ := strings.Cut(field, "=")
		if got := fmt.Sprint(l[name]); got != value {
			t.Errorf("%s is %q, not %q, in %v", name, got, value, l)
		}
	}
}

// An operator who knows a client's id finds what it did, and what was done to it, with one grep.
func TestTheLogTellsAClientsStory(t *testing.T) {
	t.Parallel()
	OnlyEmanet(t)
	b := Start(t, "--log-format", "json", "--mqtt-max-subscriptions", "1")
	c := Open(t, b.Addr(), Connect{
		Version: 5, ClientID: "hero", KeepAlive: 30, Props: Props{Num(SessionExpiry, 1)},
		Will: &Will{Topic: "last/words"},
	})
	c.Subscribe(To("one", 1), To("two", 1), To("three", 1))
	c.Publish("elsewhere", "x", 1)
	c.Publish("elsewhere", "x", 0)
	again := Connect{Version: 5, ClientID: "hero", Props: Props{Num(SessionExpiry, 1)}}
	newer := Open(t, b.Addr(), again) // takes the session over
	c.ExpectClosed()
	c.Drop()
	awaitStory(t, b, "hero", 4)
	newer.Write([]byte{0x00, 0x00}) // no packet
	newer.ExpectClosed()

	got := awaitStory(t, b, "hero", 6)
	want := []string{
		"msg=connected|level=INFO|transport=tcp|version=5|clean=false|present=false|keep_alive=30|expiry=1s|will=last/words",
		"msg=subscriptions refused|level=WARN|count=2|filters=two three|code=quota exceeded",
		"msg=connected|present=true|keep_alive=0",
		"msg=connection ended|level=INFO|cause=another connection has the session|code=session taken over|received=2|sent=0",
		"msg=connection ended|level=WARN|code=malformed packet",
		"msg=session expired|level=INFO",
	}
	// The end of the old connection and the beginning of the new one are told by two goroutines.
	if got[2]["msg"] == "connection ended" {
		got[2], got[3] = got[3], got[2]
	}
	for i := range want {
		got[i].expect(t, want[i])
	}
	if remote := fmt.Sprint(got[0]["remote"]); remote != c.Conn().LocalAddr().String() {
		t.Errorf("remote is %s", remote)
	}
}

// Whose messages were dropped is told as well, once a second and not for each.
func TestTheLogTellsWhoseMessagesWereDropped(t *testing.T) {
	t.Parallel()
	OnlyEmanet(t)
	b := Start(t, "--log-format", "json", "--mqtt-max-queued", "10")
	sub := Open(t, b.Addr(), Persistent(4, "sleeper"))
	sub.Subscribe(To("t", 1))
	sub.Disconnect()
	pub := Open(t, b.Addr(), Clean(4, "pub"))
	for range 25 {
		pub.Publish("t", "x", 1)
	}
	awaitStory(t, b, "sleeper", 2)[1].expect(t, "msg=connection ended|cause=the client disconnected|received=0|sent=0")
	for n, dropped := 3, 0.0; dropped < 15; n++ { // one line, unless the machine is slow
		line := awaitStory(t, b, "sleeper", n)[n-1]
		line.expect(t, "msg=messages dropped|level=WARN")
		dropped += line["overflow"].(float64)
		if dropped > 15 {
			t.Fatalf("%v: more than the 15 that were dropped", line)
		}
	}
}
