package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	. "emanet/e2e/harness"
)

// The files for ARM are built by `make release` as they are handed out, and run under an emulator: one word of 32
// bits where a size needs 64, or one flush the emulated kernel does not know, and the broker breaks its word
// where nobody looks.
func TestTheReleaseForARMKeepsItsWordAcrossAKill(t *testing.T) {
	t.Parallel()
	OnlyEmanet(t)
	dist := t.TempDir()
	release(t, nil, Repository(t), dist, "linux/arm64", "linux/armv7")
	for arch, emulator := range map[string]string{"arm64": "qemu-aarch64-static", "armv7": "qemu-arm-static"} {
		t.Run(arch, func(t *testing.T) {
			qemu, err := exec.LookPath(emulator)
			Need(t, qemu, err)
			bin := filepath.Join(unpack(t, dist, "linux-"+arch), "emanet")
			if said := Run(t, qemu, bin, "version"); !strings.HasPrefix(said, "emanet ") || !strings.Contains(said, " go1.") {
				t.Errorf("version: %q", said)
			}
			b := Prepare(t, t.TempDir(), "--journal-segments", "4", "--journal-segment-bytes", "256KiB")
			b.RunAs(bin, qemu)
			b.Restart()
			keepsItsWord(t, b)
			b.Terminate()
			Run(t, qemu, bin, "check", b.Data())
		})
	}
}

// keepsItsWord publishes more than the journal holds, so that segments are folded into SQLite and used again,
// kills the broker, and wants all of it back.
func keepsItsWord(t *testing.T, b *Broker) {
	const (
		rounds = 150
		size   = 8 << 10
	)
	for _, version := range []byte{4, 5} {
		Open(t, b.Addr(), Persistent(version, fmt.Sprint("sub", version))).Subscribe(To("t/+", 2))
	}
	p := Open(t, b.Addr(), Persistent(5, "pub"))
	payload := func(i int) string { return fmt.Sprintf("%d %s", i, strings.Repeat("x", size)) }
	for i := range rounds {
		p.Publish("t/1", payload(i), 1)
		p.Publish("t/2", payload(i), 2)
	}
	p.PublishPacket(Packet{Topic: "kept", Payload: []byte("value"), QoS: 1, Retain: true})
	b.Kill9()
	b.Restart()
	for _, version := range []byte{4, 5} {
		s := Open(t, b.Addr(), Persistent(version, fmt.Sprint("sub", version)))
		if !s.Connack.SessionPresent {
			t.Errorf("the session of version %d is gone", version)
		}
		receiveAll(t, s, rounds, payload)
	}
	s := Open(t, b.Addr(), Clean(4, "late"))
	s.Subscribe(To("kept", 0))
	s.ExpectPublish("kept", "value")
}

// receiveAll settles what comes until both topics have brought everything, in order and at most once each.
func receiveAll(t *testing.T, s *Client, rounds int, payload func(int) string) {
	t.Helper()
	next := map[string]int{}
	for next["t/1"]+next["t/2"] < 2*rounds {
		m := s.Read()
		switch m.Type {
		case PUBREL:
			s.Send(Packet{Type: PUBCOMP, ID: m.ID})
			continue
		case PUBLISH:
		default:
			t.Fatalf("%v", m)
		}
		if want := payload(next[m.Topic]); string(m.Payload) != want {
			t.Fatalf("%v, not message %d", m, next[m.Topic])
		}
		next[m.Topic]++
		if m.QoS == 1 {
			s.Ack(m)
		} else {
			s.Send(Packet{Type: PUBREC, ID: m.ID})
		}
	}
}

// What is published as a checksum can be checked by anybody: the same commit gives the same bytes in another
// folder, and nothing in them tells where they were built.
func TestTheSameCommitGivesTheSameReleaseInAnyFolder(t *testing.T) {
	t.Parallel()
	OnlyEmanet(t)
	targets := []string{"linux/armv7"} // compiled by the other test as well
	if Soak() {
		targets = nil // all
	}
	var sums []string
	for i := range 2 {
		tree, dist := filepath.Join(t.TempDir(), strings.Repeat("deep/", i)+"tree"), t.TempDir()
		Run(t, "git", "clone", "--quiet", "--no-hardlinks", Repository(t), tree)
		var env []string
		if i == 1 && Soak() { // else the second compiles nothing, and only links
			env = []string{"GOCACHE=" + t.TempDir()}
		}
		release(t, env, tree, dist, targets...)
		sums = append(sums, checkSums(t, dist))
		bin := filepath.Join(unpack(t, dist, "linux-armv7"), "emanet")
		commit := strings.TrimSpace(Run(t, "git", "-C", tree, "rev-parse", "HEAD"))
		if built := Run(t, "go", "version", "-m", bin); !strings.Contains(built, "vcs.revision="+commit) {
			t.Errorf("the binary does not name commit %s:\n%s", commit, built)
		}
		text, err := os.ReadFile(bin)
		if err != nil {
			t.Fatal(err)
		}
		for _, where := range []string{tree, dist, Repository(t)} {
			if bytes.Contains(text, []byte(where)) {
				t.Errorf("the binary tells that it was built with %s", where)
			}
		}
	}
	if sums[0] != sums[1] {
		t.Errorf("built once:\n%s\nand again:\n%s", sums[0], sums[1])
	}
	if want := max(len(targets), 1); strings.Count(sums[0], "\n") < want {
		t.Errorf("%d targets were built, SHA256SUMS is %q", want, sums[0])
	}
}

func release(t *testing.T, env []string, tree, dist string, targets ...string) {
	t.Helper()
	cmd := exec.Command("scripts/release", append([]string{"-o", dist}, targets...)...)
	cmd.Dir, cmd.Env = tree, append(os.Environ(), env...)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("scripts/release in %s: %v\n%s", tree, err, text)
	}
}

// unpack gives the folder that was in the archive of a target, which must hold what the licences ask for.
func unpack(t *testing.T, dist, target string) string {
	t.Helper()
	archives, _ := filepath.Glob(filepath.Join(dist, "emanet-*-"+target+".tar.gz"))
	if len(archives) != 1 {
		t.Fatalf("archives for %s: %q", target, archives)
	}
	dir := t.TempDir()
	Run(t, "tar", "-xzf", archives[0], "-C", dir)
	dir = filepath.Join(dir, strings.TrimSuffix(filepath.Base(archives[0]), ".tar.gz"))
	for file, says := range map[string]string{
		"LICENSE":                  "Apache License",
		"LICENSES-OF-OTHERS":       "github.com/ncruces/go-sqlite3 v",
		"packaging/emanet.service": "ExecStart=",
	} {
		if text, err := os.ReadFile(filepath.Join(dir, file)); err != nil || !strings.Contains(string(text), says) {
			t.Errorf("%s in the archive: %v, or it does not say %q", file, err, says)
		}
	}
	leadSomewhere(t, dir)
	return dir
}

// leadSomewhere follows every link of README.md to a file of ours.
func leadSomewhere(t *testing.T, dir string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	links := regexp.MustCompile(`\]\(([^)#:]+)[^):]*\)`).FindAllStringSubmatch(string(text), -1)
	if len(links) == 0 {
		t.Error("README.md links to nothing")
	}
	for _, link := range links {
		if _, err := os.Stat(filepath.Join(dir, link[1])); err != nil {
			t.Errorf("README.md of the archive links to %s: %v", link[1], err)
		}
	}
}

// checkSums compares SHA256SUMS with the files beside it, and gives its text.
func checkSums(t *testing.T, dist string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dist, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	for line := range strings.Lines(string(text)) {
		sum, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		file, err := os.ReadFile(filepath.Join(dist, name))
		if err != nil {
			t.Fatal(err)
		}
		if got := sha256.Sum256(file); hex.EncodeToString(got[:]) != sum {
			t.Errorf("%s has another sum than the listed %s", name, sum)
		}
		listed = append(listed, name)
	}
	built, _ := filepath.Glob(filepath.Join(dist, "*.tar.gz"))
	for _, file := range built {
		if !slices.Contains(listed, filepath.Base(file)) {
			t.Errorf("%s is not listed", filepath.Base(file))
		}
	}
	return string(text)
}
