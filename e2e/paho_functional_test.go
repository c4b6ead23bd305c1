package e2e

import (
	"context"
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

// skippedFunctionalTests lists functional tests of the paho module that need what emanet does not have yet, each
// with its reason. The module of this version has none: its TLS tests are commented out, and no functional test
// uses WebSocket.
var skippedFunctionalTests = map[string]string{}

// racingFunctionalTests lists tests of the module that race with themselves, with the reason; one that fails is run
// again, and must pass in one of three.
var racingFunctionalTests = map[string]string{
	"Test_cleanUpMids_2": "sends PUBLISH and DISCONNECT back to back and expects that the QoS 2 handshake does not end in between",
}

// The functional tests inside the module github.com/eclipse/paho.mqtt.golang, unmodified. They want port 1883 of an
// address that can be chosen, so the broker gets a loopback address of its own.
func TestFunctionalTestsOfPahoGo(t *testing.T) {
	if testing.Short() {
		t.Skip("about 40 s")
	}
	t.Parallel()
	const address = "127.18.83.1"
	b := Prepare(t, t.TempDir())
	b.ListenOn(net.JoinHostPort(address, "1883"))
	b.Restart()

	module := Run(t, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/eclipse/paho.mqtt.golang")
	source := filepath.Join(t.TempDir(), "paho") // the module cache is read-only
	if err := os.CopyFS(source, os.DirFS(strings.TrimSpace(module))); err != nil {
		t.Fatal(err)
	}
	out, err := goTest(source, address, functionalTests(t, source)...)
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
					if _, err := goTest(source, address, r[2]); err == nil {
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
		t.Errorf("go test of the module: %v\n%s", err, out)
	}
}

// goTest runs tests of the module against the broker at an address.
func goTest(source, address string, names ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "test", "-mod=mod", "-count=1", "-v", "-run", "^("+strings.Join(names, "|")+")$", ".")
	cmd.Dir = source
	cmd.Env = append(os.Environ(), "TEST_FVT_ADDR="+address)
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
