package doctor

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"emanet/internal/disk"
)

// examine makes all checks, with few flushes.
func examine(t *testing.T, opt Options) []Finding {
	t.Helper()
	opt.Flushes = 10
	return Examine(opt)
}

// expect is the finding of a check, which must have this level and say this.
func expect(t *testing.T, found []Finding, check string, level Level, says string) {
	t.Helper()
	for _, f := range found {
		if f.Check != check {
			continue
		}
		if f.Level == level && strings.Contains(f.Found, says) {
			if level != OK && f.Change == "" {
				t.Errorf("%+v does not say what to change", f)
			}
			return
		}
		t.Errorf("%s: %s %q, want %s that says %q", check, f.Level, f.Found, level, says)
		return
	}
	t.Errorf("there is no finding on %s in %+v", check, found)
}

// contents lists a directory's files with their bytes.
func contents(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		fmt.Fprintf(&all, "%s: %q\n", path, text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

func TestARealDiskIsMeasuredAndTheDirectoryStaysAsItWas(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil { //nolint:gosec // a directory
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "broker.db"), []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	before := contents(t, dir)
	found := examine(t, Options{Dir: dir, Files: 10, NewBytes: 1 << 20})
	if after := contents(t, dir); after != before {
		t.Errorf("the directory was\n%s\nand is\n%s", before, after)
	}
	expect(t, found, "directory", OK, "for its owner only")
	expect(t, found, "lock", OK, "no broker")
	expect(t, found, "files", OK, "10 are needed")
	for _, f := range found {
		if f.Check == "flush" && (f.Level == Problem || !strings.Contains(f.Found, "of 10")) {
			t.Errorf("%+v", f)
		}
	}
}

func TestADirectoryOfSomethingElseIsNotToBeClosed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // as /, or a home
		t.Fatal(err)
	}
	found := examine(t, Options{Dir: dir})
	expect(t, found, "directory", Warning, "other users can read")
	if err := os.WriteFile(filepath.Join(dir, "vmlinuz"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	found = examine(t, Options{Dir: dir})
	expect(t, found, "directory", Warning, "not a broker's")
	for _, f := range found {
		if f.Check == "directory" && strings.Contains(f.Change, "chmod") {
			t.Errorf("%+v", f)
		}
	}
}

func TestADirectoryInMemoryIsFoundOut(t *testing.T) {
	t.Parallel()
	const memory = "/dev/shm"
	if f := fileSystem(memory); !strings.Contains(f.Found, "tmpfs") {
		if os.Getenv("CI") == "true" {
			t.Fatalf("%s is no tmpfs: %+v", memory, f)
		}
		t.Skipf("%s is no tmpfs here", memory)
	}
	dir, err := os.MkdirTemp(memory, "emanet-test-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	found := examine(t, Options{Dir: dir})
	expect(t, found, "file system", Problem, "in memory")
	expect(t, found, "flush", Warning, "does not reach")
	if left := contents(t, dir); left != "" {
		t.Errorf("left behind: %s", left)
	}
}

func TestFlushesAreJudgedByMedianAndTail(t *testing.T) {
	t.Parallel()
	times := func(usual, rare time.Duration) (all []time.Duration) {
		for i := range 200 {
			if i%50 == 0 {
				all = append(all, rare)
			} else {
				all = append(all, usual)
			}
		}
		return all
	}
	const us, ms = time.Microsecond, time.Millisecond
	for _, test := range []struct {
		usual, rare time.Duration
		want        Level
		says        string
	}{
		{200 * us, 2 * ms, OK, "200µs in the median, 2ms at the 99th percentile of 200"},
		{3 * us, 2 * ms, Warning, "No disk is that fast"},
		{30 * ms, 31 * ms, Warning, "slow"},
		{200 * us, 300 * ms, Warning, "now and then slow"},
	} {
		expect(t, []Finding{judge(times(test.usual, test.rare))}, "flush", test.want, test.says)
	}
}

func TestADirectoryThatIsNotThereIsMeasuredAbove(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	found := examine(t, Options{Dir: filepath.Join(parent, "a", "b")})
	expect(t, found, "directory", OK, "Measured in "+parent)
	if list, err := os.ReadDir(parent); err != nil || len(list) > 0 {
		t.Errorf("%v, %v: nothing was to be created", list, err)
	}
}

func TestWhatIsWrongWithADirectoryIsSaid(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	open := t.TempDir()
	if err := os.Chmod(open, 0o755); err != nil { //nolint:gosec // that is what is looked for
		t.Fatal(err)
	}
	expect(t, examine(t, Options{Dir: file}), "directory", Problem, "is none")
	expect(t, examine(t, Options{Dir: "/proc/emanet"}), "directory", Problem, "cannot be created")
	expect(t, examine(t, Options{Dir: "/proc"}), "directory", Problem, "cannot write")
	expect(t, examine(t, Options{Dir: open}), "directory", Warning, "other users can read messages")
	expect(t, examine(t, Options{Dir: open, NewBytes: 1 << 60}), "space", Problem, "a start takes")
}

func TestARunningBrokerIsNoticedAndKeepsItsLock(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	lock, err := disk.OS().Lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	before := contents(t, dir)
	expect(t, examine(t, Options{Dir: dir}), "lock", OK, fmt.Sprintf("a broker runs on it (process %d)", os.Getpid()))
	if contents(t, dir) != before {
		t.Error("the lock file was changed")
	}
	if again, err := disk.OS().Lock(dir); err == nil {
		_ = again.Close()
		t.Error("the lock was lost")
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	expect(t, examine(t, Options{Dir: dir}), "lock", OK, "no broker")
}

func TestFilesOfUsersAreNotForEverybody(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for mode, want := range map[os.FileMode]Level{0o600: OK, 0o640: OK, 0o644: Warning} {
		name := filepath.Join(dir, fmt.Sprintf("users-%o", mode))
		if err := os.WriteFile(name, nil, mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
		expect(t, []Finding{secret(name)}, "users", want, name)
	}
	expect(t, examine(t, Options{Dir: dir, WithUsers: []string{dir + "/none"}}), "users", Problem, "no such file")
	if f := secret(dir + "/none"); !strings.Contains(f.Change, "name") {
		t.Errorf("a file that is not there: %+v", f)
	}
}

func TestLimitsAndClockAreComparedWithTheNeed(t *testing.T) {
	t.Parallel()
	expect(t, examine(t, Options{Dir: t.TempDir(), Files: 1 << 62}), "files", Warning, "are not accepted")
	for _, year := range []int{1970, 2150} {
		at := time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)
		expect(t, clock(at), "clock", Problem, at.Format(time.RFC3339))
	}
	for _, f := range kernel(1 << 62) {
		if strings.Contains(f.Found, "file-max") && f.Level != Warning {
			t.Errorf("%+v", f)
		}
	}
}
