package harness

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// MemoryCounts skips the rest of a test that measures memory where the race detector multiplies it.
func MemoryCounts(t testing.TB) {
	t.Helper()
	if os.Getenv("EMANET_E2E_RACE") == "1" {
		t.Skip("the race detector multiplies memory")
	}
}

// Soak says whether tests are to run at the size of the issue they answer, however long that takes.
func Soak() bool { return os.Getenv("EMANET_SOAK") == "1" }

// RSS is the resident memory of a process in bytes.
func RSS(t testing.TB, pid int) int64 {
	t.Helper()
	return statusBytes(t, pid, "VmRSS:")
}

// PeakRSS is the highest resident memory that a process has had, in bytes.
func PeakRSS(t testing.TB, pid int) int64 {
	t.Helper()
	return statusBytes(t, pid, "VmHWM:")
}

func statusBytes(t testing.TB, pid int, name string) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatalf("reading the memory of the broker: %v", err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			if err != nil {
				t.Fatalf("reading %s %v", name, err)
			}
			return kib << 10
		}
	}
	t.Fatalf("no %s for process %d", name, pid)
	return 0
}

// Overdue is called before a test fails for something that never came: see EMANET_E2E_DUMP.
func Overdue(t testing.TB) {
	t.Helper()
	running.Range(func(addr, _ any) bool {
		dump(t, addr.(string), os.ErrDeadlineExceeded)
		return true
	})
}

// Eventually polls until the condition holds and fails the test when it does not within Patience.
func Eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.Now().Add(Patience)
	for !condition() {
		if time.Now().After(deadline) {
			Overdue(t)
			t.Fatalf("waited %v in vain: %s", Patience, what)
		}
		<-tick.C
	}
}

// Need gives the path of a tool. A missing one is a failure in CI, and a skip elsewhere.
func Need(t testing.TB, path string, err error) string {
	t.Helper()
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("a tool of this test is missing: %v", err)
		}
		t.Skipf("a tool of this test is missing: %v", err)
	}
	return path
}
