package e2e

import (
	"context"
	"crypto/x509"
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

// skippedFunctionalTests lists functional tests of the paho module that need what emanet does not have, each with its
// reason.
var skippedFunctionalTests = map[string]string{}

// racingFunctionalTests lists tests of the module that race with themselves, with the reason; one that fails is run
// again, and must pass in one of three.
var racingFunctionalTests = map[string]string{
	"Test_Disconnect":    "leaves 50 ms for what comes after a wait of 250 ms in the client itself",
	"Test_cleanUpMids_2": "sends PUBLISH and DISCONNECT back to back and expects that the QoS 2 handshake does not end in between",
}

// functionalTransports are what the functional tests are run over. The module has none over TLS or WebSocket, in any of
// its versions: its address of a TLS broker is used in a comment only. So all of them are run over each.
var functionalTransports = []struct{ scheme, port, path string }{
	{"tcp", "1883", ""}, {"ssl", "8883", ""}, {"ws", "8080", "/mqtt"},
}

// The functional tests inside the module github.com/eclipse/paho.mqtt.golang, unmodified but for the broker's URL. Each
// run has a broker with a loopback address of its own, where nobody else's session ids are in use.
func TestFunctionalTestsOfPahoGo(t *testing.T) {
	if testing.Short() {
		t.Skip("about 40 s")
	}
	t.Parallel()
	module := Run(t, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/eclipse/paho.mqtt.golang")
	source := filepath.Join(t.TempDir(), "paho") // the module cache is read-only
	if err := os.CopyFS(source, os.DirFS(strings.TrimSpace(module))); err != nil {
		t.Fatal(err)
	}
	redirect(t, filepath.Join(source, "fvt_test.go"))
	build := exec.Command("go", "test", "-mod=mod", "-c", "-o", "functional.test", ".")
	build.Dir = source
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for i, transport := range functionalTransports {
		t.Run("over "+transport.scheme, func(t *testing.T) {
			t.Parallel()
			address := fmt.Sprintf("127.18.83.%d", i+1)
			a := NewAuthority(t)
			cert, key := a.Issue("server", func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.ParseIP(address)} })
			b := Prepare(t, t.TempDir(), "--mqtts", net.JoinHostPort(address, "8883"), "--tls-cert", cert, "--tls-key", key)
			b.ListenOn(net.JoinHostPort(address, "1883"))
			b.ListenHTTPOn(net.JoinHostPort(address, "8080"))
			b.Restart()
			runFunctional(t, functional{
				dir: source, url: transport.scheme + "://" + net.JoinHostPort(address, transport.port) + transport.path, authority: a.File,
			})
		})
	}
}

// redirect has the module's tests take the URL of the broker from the environment.
func redirect(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	changed := regexp.MustCompile(`(?m)^\tFVTTCP = .*$`).ReplaceAllString(string(text), "\tFVTTCP = os.Getenv(\"TEST_FVT_URL\")")
	if changed == string(text) {
		t.Fatalf("%s sets the broker's address in another way", file)
	}
	if err := os.WriteFile(file, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
}

// functional is the module's tests against one broker.
type functional struct{ dir, url, authority string }

func runFunctional(t *testing.T, f functional) {
	t.Helper()
	out, err := f.run(functionalTests(t, f.dir)...)
	results := regexp.MustCompile(`(?m)^--- (PASS|FAIL|SKIP): (\S+)`).FindAllStringSubmatch(out, -1)
	if len(results) < 30 {
		t.Fatalf("only %d results: %v\n%s", len(results), err, out)
	}
	failed := 0
	for _, r := range results {
		t.Run(r[2], func(t *testing.T) {
			switch r[1] {
			case "FAIL":
				failed++
				reason, races := racingFunctionalTests[r[2]]
				for again := 0; races && again < 2; again++ {
					if _, err := f.run(r[2]); err == nil {
						t.Logf("passed when run again; it %s", reason)
						return
					}
				}
				t.Errorf("%s", around(out, r[2]))
			case "SKIP":
				t.Skip("skipped by the module itself")
			}
		})
	}
	if err != nil && failed == 0 {
		t.Errorf("the module's tests: %v\n%s", err, out)
	}
}

func (f functional) run(names ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(f.dir, "functional.test"), "-test.v", "-test.run", "^("+strings.Join(names, "|")+")$")
	cmd.Dir = f.dir
	cmd.Env = append(os.Environ(), "TEST_FVT_URL="+f.url, "SSL_CERT_FILE="+f.authority)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// functionalTests lists the tests of the module's files fvt_*_test.go.
func functionalTests(t *testing.T, source string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(source, "fvt_*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllStringSubmatch(string(text), -1) {
			if reason, skip := skippedFunctionalTests[m[1]]; skip {
				t.Logf("skipping %s: %s", m[1], reason)
				continue
			}
			names = append(names, m[1])
		}
	}
	return names
}

// around gives what a test of the module printed.
func around(out, name string) string {
	_, rest, _ := strings.Cut(out, "=== RUN   "+name+"\n")
	text, _, _ := strings.Cut(rest, "=== RUN ")
	return text
}
