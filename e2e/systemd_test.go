package e2e

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	. "emanet/e2e/harness"
)

// A service manager that follows the process over its sockets hears of its start, each reload, its end, and that it is
// alive in between.
func TestTheServiceManagerIsTold(t *testing.T) {
	t.Parallel()
	OnlyEmanet(t)
	for _, kind := range []string{"path", "abstract"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			name := filepath.Join(t.TempDir(), "notify")
			if kind == "abstract" {
				name = "@" + Name("emanet-e2e")
			}
			manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram", Name: name})
			if err != nil {
				t.Fatal(err)
			}
			defer manager.Close()
			cmd := service(t, name)
			hears(t, manager, `STATUS=starting on .*`)
			hears(t, manager, "READY=1\nSTATUS=serving")
			hears(t, manager, "WATCHDOG=1")
			hears(t, manager, "WATCHDOG=1")
			if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
				t.Fatal(err)
			}
			hears(t, manager, "RELOADING=1\nMONOTONIC_USEC=[0-9]+\nSTATUS=reloading")
			hears(t, manager, "READY=1\nSTATUS=serving")
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			hears(t, manager, "STOPPING=1\nSTATUS=stopping")
			if err := cmd.Wait(); err != nil {
				t.Errorf("the end: %v", err)
			}
		})
	}
}

// A disk that hangs is a broker that serves nobody: the watchdog hears nothing while a flush does not return, and hears
// from it again when it has.
func TestTheWatchdogHearsNothingWhileAFlushHangs(t *testing.T) {
	t.Parallel()
	OnlyEmanet(t)
	name := filepath.Join(t.TempDir(), "notify")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram", Name: name})
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Close()
	binary, err := Binary()
	if err != nil {
		t.Fatal(err)
	}
	b := Prepare(t, t.TempDir())
	b.RunAs(binary, "env", "NOTIFY_SOCKET="+name, "WATCHDOG_USEC=900000") // a word each 0.3 s
	b.Restart()
	hears(t, manager, `STATUS=starting on .*`)
	hears(t, manager, "READY=1\nSTATUS=serving")
	sub := Open(t, b.Addr(), Persistent(4, "sub"))
	sub.Subscribe(To("t", 1))
	pub := Open(t, b.Addr(), Clean(4, "pub"))
	pub.Publish("t", "x", 1)

	HangFlushes(t, b, 4*time.Second)
	pub.Send(Packet{Type: PUBLISH, Topic: "t", Payload: []byte("y"), QoS: 1, ID: 7})
	var buf [512]byte
	for deadline := time.Now().Add(3 * Patience); ; {
		_ = manager.SetReadDeadline(time.Now().Add(1200 * time.Millisecond))
		if _, err := manager.Read(buf[:]); errors.Is(err, os.ErrDeadlineExceeded) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the watchdog is kept quiet while nothing is flushed")
		}
	}
	hears(t, manager, "WATCHDOG=1")
	if ack := pub.Expect(PUBACK); ack.ID != 7 {
		t.Errorf("acknowledged: %v", ack)
	}
}

// service starts the broker as a service manager would.
func service(t *testing.T, socket string) *exec.Cmd {
	t.Helper()
	binary, err := Binary()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary, "serve", "--data", filepath.Join(t.TempDir(), "data"), "--http", "off", "--mqtt", "127.0.0.1:0",
		"--journal-segments", "4", "--journal-segment-bytes", "64KiB")
	cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+socket, "WATCHDOG_USEC=300000")
	var log strings.Builder
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	return cmd
}

// hears reads until a message fits, past those that say no more than that the process is alive.
func hears(t *testing.T, manager *net.UnixConn, pattern string) {
	t.Helper()
	wanted := regexp.MustCompile("^" + pattern + "$")
	var buf [512]byte
	_ = manager.SetReadDeadline(time.Now().Add(3 * Patience))
	for {
		n, err := manager.Read(buf[:])
		if err != nil {
			t.Fatalf("waiting for %q: %v", pattern, err)
		}
		switch got := string(buf[:n]); {
		case wanted.MatchString(got):
			return
		case got != "WATCHDOG=1":
			t.Fatalf("heard %q, waiting for %q", got, pattern)
		}
	}
}

// The unit is one that systemd takes.
func TestTheUnitIsInOrder(t *testing.T) {
	t.Parallel()
	analyze, err := exec.LookPath("systemd-analyze")
	Need(t, analyze, err)
	unit, err := os.ReadFile(filepath.Join(Repository(t), "packaging", "emanet.service"))
	if err != nil {
		t.Fatal(err)
	}
	binary, err := Binary()
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), "emanet.service") // with a binary that is there
	text := strings.ReplaceAll(string(unit), "/usr/local/bin/emanet", binary)
	if err := os.WriteFile(copied, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(analyze, "verify", copied).CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "" {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
	for _, line := range regexp.MustCompile(`(?m)^ExecStart=(.*)$`).FindStringSubmatch(text)[1:] {
		args := strings.Fields(line)
		help := Run(t, args[0], args[1], "--help")
		for _, arg := range args[2:] {
			if strings.HasPrefix(arg, "--") && !strings.Contains(help, arg) {
				t.Errorf("the unit has %s, which `emanet %s` does not know: %s", arg, args[1], fmt.Sprint(args))
			}
		}
	}
}
