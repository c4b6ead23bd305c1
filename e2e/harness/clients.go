package harness

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// RealClient is a client that people use. Each has a persistent session under the id it is given, at QoS 2.
type RealClient struct {
	Name string
	// WebSocket tells that it speaks it.
	WebSocket bool
	// Subscribe makes the session with one subscription and leaves.
	Subscribe func(t testing.TB, addr, id, filter string)
	// Publish publishes and returns when the broker has taken over every message.
	Publish func(t testing.TB, addr, id, topic string, payloads ...string)
	// Receive comes back to the session and gives so many messages as "topic payload", without subscribing again.
	Receive func(t testing.TB, addr, id, filter string, count int) []string
}

// RealClients lists all that are installed; in CI a missing one fails the test.
func RealClients(t testing.TB) []RealClient {
	t.Helper()
	return []RealClient{
		mosquittoClients(t, "4", "-V", "mqttv311"),
		mosquittoClients(t, "5", "-V", "mqttv5", "-x", "3600"),
		script(t, "paho Python, 3.1.1", "4", python(t)...),
		script(t, "paho Python, 5", "5", python(t)...),
		script(t, "MQTT.js, 3.1.1", "4", node(t)...),
		script(t, "MQTT.js, 5", "5", node(t)...),
		pahoGo(),
		pahoGolang(),
	}
}

// Run runs a command of a client, bounded in time, and gives what it prints.
func Run(t testing.TB, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %s: %v\n%s%s", filepath.Base(name), strings.Join(args, " "), err, out.String(), errs.String())
	}
	return out.String()
}

func lines(out string) []string {
	return strings.Split(strings.TrimRight(out, "\n"), "\n")
}

func mosquittoClients(t testing.TB, version string, flags ...string) RealClient {
	t.Helper()
	sub, err := exec.LookPath("mosquitto_sub")
	Need(t, sub, err)
	pub, err := exec.LookPath("mosquitto_pub")
	Need(t, pub, err)
	to := func(addr, id string, more ...string) []string {
		e := ParseEndpoint(t, addr)
		where := []string{"-h", e.Host, "-p", e.Port}
		switch e.Scheme {
		case "unix":
			where = []string{"--unix", e.Path}
		case "tls":
			where = append(where, "--cafile", e.CA)
			if e.Cert != "" {
				where = append(where, "--cert", e.Cert, "--key", e.Key)
			}
		}
		return append(append(append(where, "-i", id, "-q", "2", "-c"), flags...), more...)
	}
	return RealClient{
		Name: "mosquitto clients, version " + version,
		Subscribe: func(t testing.TB, addr, id, filter string) {
			t.Helper()
			Run(t, sub, to(addr, id, "-t", filter, "-E")...)
		},
		Publish: func(t testing.TB, addr, id, topic string, payloads ...string) {
			t.Helper()
			for _, payload := range payloads {
				Run(t, pub, to(addr, id, "-t", topic, "-m", payload)...)
			}
		},
		Receive: func(t testing.TB, addr, id, filter string, count int) []string {
			t.Helper()
			return lines(Run(t, sub, to(addr, id, "-t", filter, "-C", strconv.Itoa(count), "-W", "20", "-F", "%t %p")...))
		},
	}
}

// Repository is the folder of the product's module.
func Repository(t testing.TB) string {
	t.Helper()
	root, err := repository()
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// folder finds a folder of this module.
func folder(t testing.TB, name string) string {
	t.Helper()
	return filepath.Join(Repository(t), "e2e", name)
}

func python(t testing.TB) []string {
	t.Helper()
	const interpreter = "/usr/bin/python3" // the one that Debian's packages are for
	err := exec.Command(interpreter, "-c", "import paho.mqtt.client").Run()
	Need(t, interpreter, err)
	return []string{interpreter, filepath.Join(folder(t, "python"), "client.py")}
}

// Browser gives the command of a program that drives Chromium: e2e/node/browser.js, to which the browser's path is the
// first argument.
func Browser(t testing.TB) []string {
	t.Helper()
	path, err := exec.LookPath("chromium")
	Need(t, path, err)
	dir := folder(t, "node")
	Need(t, dir, installNode(dir))
	return []string{"node", filepath.Join(dir, "browser.js"), path}
}

// BrowserMQTT is the file of MQTT.js that a page loads.
func BrowserMQTT(t testing.TB) string {
	t.Helper()
	return filepath.Join(folder(t, "node"), "node_modules", "mqtt", "dist", "mqtt.min.js")
}

func node(t testing.TB) []string {
	t.Helper()
	dir := folder(t, "node")
	Need(t, dir, installNode(dir))
	return []string{"node", filepath.Join(dir, "client.js")}
}

// installNode installs exactly what the lock file says, when it is not there yet.
func installNode(dir string) error {
	nodeInstall.Lock()
	defer nodeInstall.Unlock()
	there := true
	for _, module := range []string{"mqtt", "playwright-core"} {
		_, err := os.Stat(filepath.Join(dir, "node_modules", module))
		there = there && err == nil
	}
	if there {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "npm", "ci", "--no-audit", "--no-fund")
	cmd.Dir = dir
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("npm ci: %w\n%s", err, text)
	}
	return nil
}

var nodeInstall sync.Mutex

// script is a client whose program takes the task as its first argument.
func script(t testing.TB, name, version string, program ...string) RealClient {
	t.Helper()
	run := func(t testing.TB, task, addr, id, topic string, rest ...string) string {
		t.Helper()
		e := ParseEndpoint(t, addr)
		args := append(append([]string{}, program[1:]...), task, e.String(), version, id, topic)
		return Run(t, program[0], append(args, rest...)...)
	}
	return RealClient{
		Name: name, WebSocket: true,
		Subscribe: func(t testing.TB, addr, id, filter string) {
			t.Helper()
			run(t, "subscribe", addr, id, filter)
		},
		Publish: func(t testing.TB, addr, id, topic string, payloads ...string) {
			t.Helper()
			run(t, "publish", addr, id, topic, payloads...)
		},
		Receive: func(t testing.TB, addr, id, filter string, count int) []string {
			t.Helper()
			return lines(run(t, "receive", addr, id, filter, strconv.Itoa(count)))
		},
	}
}

// RunNode runs one of our scripts for MQTT.js and gives the lines it prints.
func RunNode(t testing.TB, name string, args ...string) []string {
	t.Helper()
	line := node(t)
	return lines(Run(t, line[0], append([]string{filepath.Join(folder(t, "node"), name)}, args...)...))
}

// RunPython runs one of our scripts for paho-mqtt and gives the lines it prints.
func RunPython(t testing.TB, name string, args ...string) []string {
	t.Helper()
	line := python(t)
	return lines(Run(t, line[0], append([]string{filepath.Join(folder(t, "python"), name)}, args...)...))
}
