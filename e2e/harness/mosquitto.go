package harness

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// Mosquitto runs a Mosquitto with these lines of configuration until the end of the test and gives its address: a
// second opinion, whatever broker is under test.
func Mosquitto(t testing.TB, config string) string {
	t.Helper()
	port, err := FreePort()
	if err != nil {
		t.Fatal(err)
	}
	path, err := exec.LookPath("mosquitto")
	if err != nil {
		t.Fatalf("%v: scripts/install-test-tools installs it", err)
	}
	dir := t.TempDir()
	conf, logPath := filepath.Join(dir, "mosquitto.conf"), filepath.Join(dir, "mosquitto.log")
	text := fmt.Sprintf("listener %s 127.0.0.1\nuser root\nset_tcp_nodelay true\nlog_type all\n%s", port, config)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(logPath)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(path, "-c", conf)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if text, err := os.ReadFile(logPath); err == nil && t.Failed() {
			t.Logf("the log of mosquitto ends:\n%s", tail(string(text)))
		}
	})
	addr := "127.0.0.1:" + port
	Eventually(t, "mosquitto accepting", func() bool {
		c, err := TryDial(t, addr, 4)
		if err == nil {
			c.Drop()
		}
		return err == nil
	})
	return addr
}

// MosquittoPasswd runs mosquitto_passwd.
func MosquittoPasswd(t testing.TB, args ...string) {
	t.Helper()
	if out, err := exec.Command("mosquitto_passwd", args...).CombinedOutput(); err != nil {
		t.Fatalf("mosquitto_passwd %v: %v\n%s", args, err, out)
	}
}
