// Package harness runs a broker as a real child process and talks to it with hand-made packets and with the
// clients people use. It never acknowledges anything by itself, so that a test decides what each side knows at
// the moment the process is killed.
//
// EMANET_E2E_BROKER chooses the broker: unset for emanet; "mosquitto", which is ended by SIGTERM where emanet is
// killed, to prove that a test can pass; "mosquitto-killed", which is really killed, to prove that it can fail;
// or host:port of a running broker, for the tests that need no restart.
package harness

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
)

// Broker is a running broker, as seen by one test.
type Broker struct {
	t testing.TB
	*process
	through string // where it is reached, if not at its own address
}

var chosen = os.Getenv("EMANET_E2E_BROKER")

// IsEmanet says whether the broker under test is ours, for what only emanet promises.
func IsEmanet() bool { return chosen == "" }

// OnlyEmanet skips a test of something that other brokers do differently.
func OnlyEmanet(t testing.TB) {
	t.Helper()
	if !IsEmanet() {
		t.Skip("only emanet promises this")
	}
}

// smallJournal is for brokers of one test: quick to prepare, and soon full, so that segments are used again. The
// shared broker has the defaults.
var smallJournal = []string{"--journal-segments", "8", "--journal-segment-bytes", "4MiB"}

// Start runs a broker with its own data until the end of the test. args are flags of `emanet serve`; unless they
// say otherwise its journal is small.
func Start(t testing.TB, args ...string) *Broker {
	t.Helper()
	dir, err := os.MkdirTemp(scratch(), "broker-")
	if err != nil {
		t.Fatal(err)
	}
	b := StartIn(t, dir, args...)
	t.Cleanup(func() {
		if !t.Failed() {
			os.RemoveAll(dir)
		}
	})
	return b
}

// StartIn is Start with data and logs below a given folder, which is kept.
func StartIn(t testing.TB, root string, args ...string) *Broker {
	t.Helper()
	b := Prepare(t, root, args...)
	b.Restart()
	return b
}

// Prepare gives a broker that is not running yet.
func Prepare(t testing.TB, root string, args ...string) *Broker {
	t.Helper()
	if !slices.Contains(args, "--journal-segments") {
		args = append(slices.Clone(smallJournal), args...)
	}
	p, err := prepare(root, args)
	if err != nil {
		t.Fatal(err)
	}
	b := &Broker{t: t, process: p}
	t.Cleanup(func() {
		_ = p.end(syscall.SIGKILL)
		p.checkLogs(t)
		if t.Failed() && p.kind != "" {
			t.Logf("data and logs are kept in %s; the last log:\n%s", p.root, tail(p.log()))
		}
	})
	return b
}

func prepare(root string, args []string) (*process, error) {
	p := &process{root: root, args: args}
	switch {
	case chosen == "":
		p.kind = "emanet"
	case strings.HasPrefix(chosen, "mosquitto"):
		p.kind = "mosquitto"
	default:
		p.mqtt = chosen
		return p, nil
	}
	for _, addr := range []*string{&p.mqtt, &p.http} {
		port, err := FreePort()
		if err != nil {
			return nil, err
		}
		*addr = "127.0.0.1:" + port
	}
	return p, nil
}

var shared = sync.OnceValues(func() (*process, error) {
	root := filepath.Join(scratch(), "shared")
	p, err := prepare(root, nil)
	if err != nil || p.kind == "" {
		return p, err
	}
	if err := p.spawn(); err != nil {
		return nil, err
	}
	sharedRuns.Store(p)
	return p, p.waitReady()
})

// sharedRuns is the shared broker once a test has asked for it.
var sharedRuns atomic.Pointer[process]

// Shared gives one broker for all tests that only connect, publish and subscribe. Each uses names of its own.
func Shared(t testing.TB) *Broker {
	t.Helper()
	p, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.checkLogs(t)
		if t.Failed() && p.kind != "" {
			t.Logf("the shared broker's log ends:\n%s", tail(p.log()))
		}
	})
	return &Broker{t: t, process: p}
}

// Main runs the tests and tidies up: TestMain calls it.
func Main(m *testing.M) {
	if of, isProbe := os.LookupEnv(probeVariable); isProbe {
		if err := probe(of); err != nil {
			fmt.Fprintln(os.Stderr, "probe:", err)
			os.Exit(1)
		}
		return
	}
	code := m.Run()
	if p := sharedRuns.Load(); p != nil {
		_ = p.end(syscall.SIGKILL)
	}
	if code == 0 {
		os.RemoveAll(scratch())
	}
	os.Exit(code)
}

// Addr is where the broker speaks MQTT.
func (b *Broker) Addr() string {
	if b.through != "" {
		return b.through
	}
	return b.mqtt
}

// ListenOn chooses the MQTT address of a broker that is not running yet.
func (b *Broker) ListenOn(addr string) {
	if b.kind != "" {
		b.mqtt = addr
	}
}

// ListenHTTPOn chooses the HTTP address of a broker that is not running yet.
func (b *Broker) ListenHTTPOn(addr string) { b.http = addr }

// KeepDataIn chooses the data folder of a broker that is not running yet.
func (b *Broker) KeepDataIn(dir string) { b.dataDir = dir }

// RunAs chooses another binary for a broker that is not running yet, and what must stand in front of it.
func (b *Broker) RunAs(bin string, before ...string) { b.bin, b.wrap = bin, before }

// URL is an address of the broker's HTTP listener.
func (b *Broker) URL(path string) string { return "http://" + b.http + path }

// Data is the broker's data folder.
func (b *Broker) Data() string { return b.data() }

// Pid is the process id of the running broker.
func (b *Broker) Pid() int { return b.cmd.Process.Pid }

// Restart starts the broker on the same data and ports and waits until it accepts.
func (b *Broker) Restart() {
	b.t.Helper()
	if b.kind == "" {
		return
	}
	if err := b.spawn(); err != nil {
		b.t.Fatal(err)
	}
	if err := b.waitReady(); err != nil {
		b.t.Fatal(err)
	}
}

// Spawn starts the broker and does not wait: for kills during recovery.
func (b *Broker) Spawn() {
	b.t.Helper()
	if err := b.spawn(); err != nil {
		b.t.Fatal(err)
	}
}

// TryRestart is Restart for a start that may fail.
func (b *Broker) TryRestart() error {
	if err := b.spawn(); err != nil {
		return err
	}
	return b.waitReady()
}

// Kill9 kills the broker without warning.
func (b *Broker) Kill9() {
	b.t.Helper()
	sig := syscall.SIGKILL
	switch chosen {
	case "mosquitto":
		sig = syscall.SIGTERM
	case "", "mosquitto-killed":
	default:
		b.t.Skip("somebody else's broker is not killed")
	}
	_ = b.end(sig)
}

// Terminate asks the broker to stop and expects it to end in good order.
func (b *Broker) Terminate() {
	b.t.Helper()
	if err := b.end(syscall.SIGTERM); err != nil {
		b.t.Fatalf("stopping the broker: %v; its log:\n%s", err, tail(b.log()))
	}
}

// Ended waits for a broker that ends by itself and gives its exit code.
func (b *Broker) Ended() int {
	<-b.done
	return b.cmd.ProcessState.ExitCode()
}

// Exited is closed when the present child has ended.
func (b *Broker) Exited() <-chan struct{} { return b.done }

// Flush returns when all that the broker had done before is on disk: it publishes a retained value at QoS 1 and
// waits for the acknowledgement, and the journal is one line.
func (b *Broker) Flush() {
	b.t.Helper()
	c := Open(b.t, b.mqtt, Clean(4, Name("flush")))
	c.PublishPacket(Packet{Topic: "flush/" + Name("f"), Payload: []byte("x"), QoS: 1, Retain: true})
	c.Disconnect()
}

// Healthy says what /healthz answers.
func (b *Broker) Healthy() (int, error) {
	res, err := http.Get(b.URL("/healthz"))
	if err != nil {
		return 0, err
	}
	res.Body.Close()
	return res.StatusCode, nil
}

// Health is what /healthz of a running broker answers, text and all.
func (b *Broker) Health() (int, string) {
	b.t.Helper()
	res, err := http.Get(b.URL("/healthz"))
	if err != nil {
		b.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

var names atomic.Int64

// Name gives a name that no other test of this run uses.
func Name(prefix string) string {
	return fmt.Sprintf("%s-%d-%d", prefix, os.Getpid(), names.Add(1))
}
