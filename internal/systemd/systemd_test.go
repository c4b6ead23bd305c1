package systemd

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// listen plays the manager on a socket.
func listen(t *testing.T, name string) *net.UnixConn {
	t.Helper()
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram", Name: name})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func next(t *testing.T, conn *net.UnixConn) string {
	t.Helper()
	var buf [512]byte
	_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	n, err := conn.Read(buf[:])
	if err != nil {
		t.Fatal(err)
	}
	return string(buf[:n])
}

func environment(set ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(set); i += 2 {
			if set[i] == name {
				return set[i+1]
			}
		}
		return ""
	}
}

func TestTheManagerIsToldOnAPathAndOnAnAbstractSocket(t *testing.T) {
	t.Parallel()
	for _, name := range []string{filepath.Join(t.TempDir(), "notify"), fmt.Sprintf("@emanet-test-%d", os.Getpid())} {
		conn := listen(t, name)
		m, err := FromEnvironment(environment("NOTIFY_SOCKET", name), 1)
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range []struct {
			tell func() error
			want string
		}{
			{func() error { return m.Status("recovering") }, `STATUS=recovering`},
			{func() error { return m.Ready("serving\nREADY=0") }, "READY=1\nSTATUS=serving READY=0"},
			{m.Reloading, "RELOADING=1\nMONOTONIC_USEC=[0-9]+\nSTATUS=reloading"},
			{m.Alive, "WATCHDOG=1"},
			{func() error { return m.Stopping("signal") }, "STOPPING=1\nSTATUS=signal"},
		} {
			if err := step.tell(); err != nil {
				t.Fatal(err)
			}
			if got := next(t, conn); !regexp.MustCompile("^" + step.want + "$").MatchString(got) {
				t.Errorf("%s: got %q, want %q", name, got, step.want)
			}
		}
	}
}

func TestTheWatchdogIsForTheProcessItNames(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		usec, pid string
		want      time.Duration
		wrong     bool
	}{
		{usec: "", want: 0}, {usec: "3000000", want: 3 * time.Second}, {usec: "3000000", pid: "42", want: 3 * time.Second},
		{usec: "3000000", pid: "43", want: 0}, {usec: "often", wrong: true}, {usec: "-1", wrong: true}, {usec: "99999999999999", wrong: true},
	} {
		m, err := FromEnvironment(environment("NOTIFY_SOCKET", "/x", "WATCHDOG_USEC", test.usec, "WATCHDOG_PID", test.pid), 42)
		if (err != nil) != test.wrong || err == nil && m.Watchdog() != test.want {
			t.Errorf("%+v: %v, %v", test, m.Watchdog(), err)
		}
		if test.wrong && !strings.Contains(err.Error(), test.usec) {
			t.Errorf("%v does not say what is wrong", err)
		}
	}
}

func TestWithoutAManagerNothingIsTold(t *testing.T) {
	t.Parallel()
	m, err := FromEnvironment(environment(), 1)
	if m != nil || err != nil || m.Ready("x") != nil || m.Watchdog() != 0 {
		t.Errorf("%v, %v", m, err)
	}
	if _, err := FromEnvironment(environment("NOTIFY_SOCKET", "vsock:2:1234"), 1); err == nil {
		t.Error("a socket of a kind that is not spoken is taken")
	}
	gone, err := FromEnvironment(environment("NOTIFY_SOCKET", "/nonexistent/socket"), 1)
	if err != nil || gone.Alive() == nil {
		t.Error("a manager that is not there is told in silence")
	}
}
