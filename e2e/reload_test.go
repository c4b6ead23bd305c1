package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "emanet/e2e/harness"
)

// configured starts a broker with a configuration file, and gives what rewrites the file.
func configured(t *testing.T, text string) (*Broker, func(text string)) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "emanet.toml")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(text)
	return Start(t, "--config", file), write
}

func TestAReloadChangesALimitWithoutCuttingAnybodyOff(t *testing.T) {
	OnlyEmanet(t)
	t.Parallel()
	b, write := configured(t, "max-connections = 1\n")
	first := Open(t, b.Addr(), Clean(5, "first"))
	turnedAway := Dial(t, b.Addr(), 5)
	turnedAway.ExpectClosed()

	write("max-connections = 2\nlog-level = \"debug\"\n")
	b.Reload("ok")
	second := Open(t, b.Addr(), Clean(5, "second"))
	first.Ping()

	write("max-connections = 1\n")
	b.Reload("ok")
	first.Ping()
	second.Ping()
	turnedAway = Dial(t, b.Addr(), 5)
	turnedAway.ExpectClosed()
}

func TestAReloadSaysWhatNeedsARestart(t *testing.T) {
	OnlyEmanet(t)
	t.Parallel()
	b, write := configured(t, "")
	write("memory-budget = \"32MiB\"\nmax-connections = 7\n")
	b.Reload("ok")
	for _, want := range []string{"needs a restart", "flag=--memory-budget from=64MiB to=32MiB", "flag=--max-connections from=20000 to=7"} {
		if log := b.Log(); !strings.Contains(log, want) {
			t.Errorf("the log does not say %q:\n%s", want, log)
		}
	}
}

func TestAnInvalidConfigurationFileChangesNothingAndIsWarnedOf(t *testing.T) {
	OnlyEmanet(t)
	t.Parallel()
	b, write := configured(t, "max-connections = 1\n")
	held := Open(t, b.Addr(), Clean(4, "held"))
	for _, broken := range []string{
		"max-connections = 2\nmax-conections = 3\n",
		"max-connections = 2\nmqtt-max-inflight = 0\n",
		"max-connections = 2\nnot TOML",
	} {
		write(broken)
		b.Reload("failed")
		if code, text := b.Health(); code != 200 || !strings.Contains(text, "warning: configuration: ") {
			t.Errorf("after %q /healthz answers %d %q", broken, code, text)
		}
		turnedAway := Dial(t, b.Addr(), 4)
		turnedAway.ExpectClosed()
		held.Ping()
	}
	write("max-connections = 2\n")
	b.Reload("ok")
	if code, text := b.Health(); code != 200 || text != "ok\n" {
		t.Errorf("after the next success /healthz answers %d %q", code, text)
	}
	Open(t, b.Addr(), Clean(4, "second")).Ping()
}

func TestAReloadFreesAPublisherThatWaits(t *testing.T) {
	OnlyEmanet(t)
	t.Parallel()
	b, write := configured(t, "mqtt-publish-rate = 1\n")
	c := Open(t, b.Addr(), Clean(5, "c"))
	const sent = 1000
	for i := range uint16(sent) {
		c.Send(Packet{Type: PUBLISH, Topic: "t", QoS: 1, ID: i + 1})
	}
	c.Expect(PUBACK)
	write("")
	b.Reload("ok")
	for range sent - 1 {
		c.Expect(PUBACK)
	}
}
