package e2e

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	. "emanet/e2e/harness"
)

// sysLeftOut are topics of Mosquitto's that emanet does not have, each with the reason. There are none.
var sysLeftOut = map[string]string{}

// Monitors made for Mosquitto find every topic they know, with a text of the same form.
func TestTheSysTopicsAreThoseOfMosquittoByNameAndForm(t *testing.T) {
	t.Parallel()
	OnlyEmanet(t)
	theirs := sysTopics(t, startMosquitto(t))
	ours := sysTopics(t, Start(t, "--sys-interval", "1s").Addr())
	for topic, text := range theirs {
		mine, there := ours[topic]
		switch _, leftOut := sysLeftOut[topic]; {
		case leftOut == there:
			t.Errorf("%s: there %v, left out %v", topic, there, leftOut)
		case there && form(mine) != form(text):
			t.Errorf("%s is %q, and %q with Mosquitto", topic, mine, text)
		}
	}
	for topic := range ours {
		if _, there := theirs[topic]; !there && topic != "$SYS/broker/emanet/health" {
			t.Errorf("%s is unknown to Mosquitto, and not below $SYS/broker/emanet", topic)
		}
	}
	if len(theirs) < 50 {
		t.Errorf("Mosquitto has only %d topics: was it asked well?", len(theirs))
	}
}

var numbers = regexp.MustCompile(`\d+`)

// form is a text with its numbers taken out; the version begins with the program's name.
func form(text string) string {
	form := numbers.ReplaceAllString(text, "N")
	if _, version, ok := strings.Cut(form, " version "); ok && version != "" {
		return "program version"
	}
	return form
}

// sysTopics subscribes and collects until the uptime has come three times: once retained, with all others, and in two
// rounds that know of this client.
func sysTopics(t *testing.T, addr string) map[string]string {
	t.Helper()
	c := Open(t, addr, Clean(4, Name("sys")))
	c.Write(SubscribeBytes(4, 1, nil, To("$SYS/#", 0)))
	topics, uptimes := make(map[string]string), 0
	for uptimes < 3 {
		p := c.Read()
		if p.Type != PUBLISH {
			continue
		}
		topics[p.Topic] = string(p.Payload)
		if p.Topic == "$SYS/broker/uptime" {
			uptimes++
		}
	}
	return topics
}

// startMosquitto runs Mosquitto itself and returns its address.
func startMosquitto(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("mosquitto")
	if err != nil {
		path = "/usr/sbin/mosquitto"
		_, err = os.Stat(path)
	}
	Need(t, path, err)
	port, err := FreePort()
	if err != nil {
		t.Fatal(err)
	}
	conf := filepath.Join(t.TempDir(), "mosquitto.conf")
	text := fmt.Sprintf("listener %s 127.0.0.1\nallow_anonymous true\nsys_interval 1\n", port)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "-c", conf)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	addr := "127.0.0.1:" + port
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(Patience); ; <-tick.C {
		if conn, err := net.Dial("tcp", addr); err == nil {
			conn.Close()
			return addr
		}
		if time.Now().After(deadline) {
			t.Fatal("Mosquitto does not start")
		}
	}
}

func TestTheSysTopicsCountWhatClientsDo(t *testing.T) {
	t.Parallel()
	OnlyEmanet(t)
	b := Start(t, "--sys-interval", "100ms")
	Open(t, b.Addr(), Persistent(4, "away")).Disconnect()
	watcher := Open(t, b.Addr(), Clean(5, "watcher"))
	watcher.Subscribe(To("$SYS/#", 1))
	other := Open(t, b.Addr(), Clean(4, "other"))
	other.Subscribe(To("#", 1), To("+/broker/uptime", 1))
	other.Publish("$away", "12345", 1)
	want := map[string]string{
		"publish/messages/received": "1", "publish/bytes/received": "5", "clients/connected": "2", "clients/disconnected": "1",
		"clients/total": "3", "subscriptions/count": "3", "retained messages/count": "0", "emanet/health": "ok",
	}
	got := map[string]string{}
	for missing := len(want); missing > 0; {
		p := watcher.Expect(PUBLISH)
		if p.QoS != 0 {
			t.Fatalf("%v: a figure is not worth an acknowledgement", p)
		}
		got[strings.TrimPrefix(p.Topic, "$SYS/broker/")] = string(p.Payload)
		missing = 0
		for name, text := range want {
			if got[name] != text {
				missing++
			}
		}
	}
	for range 2 { // at least one more round has gone by since
		watcher.Expect(PUBLISH)
	}
	other.Ping() // [MQTT-4.7.2-1]: nothing of it is for wildcards at the first level
}

func TestTheSysTopicsCanBeTurnedOff(t *testing.T) {
	t.Parallel()
	OnlyEmanet(t)
	b := Start(t, "--sys-interval", "0s")
	c := Open(t, b.Addr(), Clean(4, "c"))
	c.Subscribe(To("$SYS/#", 0))
	c.Ping() // retained messages would come first
}
