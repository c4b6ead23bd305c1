package harness

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Flushes watches the flushes that a broker asks of the kernel, from outside.
type Flushes struct {
	t    testing.TB
	path string
	data string
}

// WatchFlushes attaches strace to the running broker until the end of the test.
func WatchFlushes(t testing.TB, b *Broker) *Flushes {
	t.Helper()
	f := &Flushes{t: t, path: filepath.Join(b.root, "strace.txt"), data: b.Data()}
	attach(t, b, "-y", "-e", "trace=fdatasync,fsync,sync_file_range", "-o", f.path)
	return f
}

// FailFlushes makes every flush of the running broker fail with EIO from now on.
func FailFlushes(t testing.TB, b *Broker) {
	t.Helper()
	attach(t, b, "-e", "trace=fdatasync,fsync,sync_file_range", "-e", "inject=fdatasync,fsync:error=EIO", "-o", os.DevNull)
}

// HangFlushes makes every flush of the running broker take so long from now on, until the end of the test.
func HangFlushes(t testing.TB, b *Broker, each time.Duration) {
	t.Helper()
	inject := "inject=fdatasync,fsync:delay_enter=" + strconv.FormatInt(each.Microseconds(), 10)
	attach(t, b, "-e", "trace=fdatasync,fsync", "-e", inject, "-o", os.DevNull)
}

// attach lets strace hold on to the broker until the end of the test.
func attach(t testing.TB, b *Broker, args ...string) {
	t.Helper()
	strace, err := exec.LookPath("strace")
	Need(t, strace, err)
	cmd := exec.Command(strace, append([]string{"-f", "-p", strconv.Itoa(b.Pid())}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	says, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt) // strace lets go of the broker
		_ = cmd.Wait()
	})
	lines := bufio.NewScanner(says)
	for lines.Scan() {
		if strings.Contains(lines.Text(), "attached") {
			go func() { // read on, so that strace never waits for us
				for lines.Scan() {
				}
			}()
			return
		}
	}
	t.Fatal("strace did not attach to the broker")
}

// Journal counts the flushes of files in the journal so far. A flush that has returned was written down before
// the broker could go on, since strace stops the thread at each.
func (f *Flushes) Journal() int { return f.count(filepath.Join(f.data, "journal")) }

// All counts every flush so far.
func (f *Flushes) All() int { return f.count("") }

func (f *Flushes) count(below string) (n int) {
	f.t.Helper()
	text, err := os.ReadFile(f.path)
	if err != nil {
		f.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		// "123 fdatasync(7</data/journal/0001>) = 0", or begun and ended on two lines, the first with the file.
		if strings.Contains(line, "sync") && strings.Contains(line, "("+digits(line)+"<"+below) {
			n++
		}
	}
	return n
}

// digits gives the file descriptor behind the opening parenthesis.
func digits(line string) string {
	_, rest, _ := strings.Cut(line, "(")
	fd, _, _ := strings.Cut(rest, "<")
	return fd
}
