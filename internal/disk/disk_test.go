package disk

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestPreallocateFillsWithZerosAndKeepsWhatIsThere(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	for _, size := range []int64{zeroChunk + 5000, 3, 10} {
		f, err := Preallocate(OS(), name, size)
		must(t, err)
		if got, err := f.Size(); err != nil || got != size {
			t.Fatalf("size is %d, %v, want %d", got, err, size)
		}
		if size > zeroChunk {
			_, err = f.WriteAt([]byte("abcdef"), 0)
			must(t, err)
		}
		must(t, f.Close())
	}
	got, err := os.ReadFile(name)
	must(t, err)
	if !bytes.Equal(got, []byte("abc\x00\x00\x00\x00\x00\x00\x00")) {
		t.Fatalf("the file holds %q", got)
	}
}

func TestModesOfOpenFile(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "file")
	if _, err := OS().OpenFile(name, 0); !errors.Is(err, ErrNotExist) {
		t.Fatalf("opening what is not there answers %v", err)
	}
	if _, err := OS().Stat(name); !errors.Is(err, ErrNotExist) {
		t.Fatalf("stat of what is not there answers %v", err)
	}
	f, err := OS().OpenFile(name, Create|Exclusive)
	must(t, err)
	must(t, f.Close())
	if _, err := OS().OpenFile(name, Create|Exclusive); !errors.Is(err, ErrExist) {
		t.Fatalf("an exclusive create of what is there answers %v", err)
	}
	f, err = OS().OpenFile(name, ReadOnly)
	must(t, err)
	if _, err := f.WriteAt([]byte("x"), 0); err == nil {
		t.Fatal("a file opened for reading was written")
	}
	must(t, f.Close())
}

func TestNamesChangeAndAreListedInOrder(t *testing.T) {
	dir := t.TempDir()
	must(t, OS().MkdirAll(filepath.Join(dir, "sub", "deeper")))
	for _, name := range []string{"b", "a"} {
		f, err := Preallocate(OS(), filepath.Join(dir, name), 7)
		must(t, err)
		must(t, f.Sync())
		must(t, f.Close())
	}
	must(t, OS().Rename(filepath.Join(dir, "b"), filepath.Join(dir, "c")))
	must(t, OS().SyncDir(dir))
	got, err := OS().ReadDir(dir)
	must(t, err)
	want := []Entry{{Name: "a", Size: 7}, {Name: "c", Size: 7}, {Name: "sub", Dir: true}}
	if len(got) != len(want) {
		t.Fatalf("%+v", got)
	}
	for i := range want {
		if got[i].Name != want[i].Name || got[i].Dir != want[i].Dir || !want[i].Dir && got[i].Size != want[i].Size {
			t.Errorf("entry %d is %+v, want %+v", i, got[i], want[i])
		}
	}
	must(t, OS().Remove(filepath.Join(dir, "a")))
	if err := OS().Remove(filepath.Join(dir, "a")); !errors.Is(err, ErrNotExist) {
		t.Fatalf("removing twice answers %v", err)
	}
	if free, err := OS().Free(dir); err != nil || free <= 0 {
		t.Fatalf("free is %d, %v", free, err)
	}
}

func TestOneProcessHoldsADirectoryUntilItEndsAndTheMessageNamesIt(t *testing.T) {
	if dir := os.Getenv("DISK_TEST_LOCK"); dir != "" {
		if _, err := OS().Lock(dir); err != nil {
			t.Fatal(err)
		}
		os.Stdout.WriteString("locked\n")
		select {} // until killed
	}
	dir := t.TempDir()
	child := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
	child.Env = append(os.Environ(), "DISK_TEST_LOCK="+dir)
	out, err := child.StdoutPipe()
	must(t, err)
	must(t, child.Start())
	defer child.Process.Kill()
	line := make([]byte, 7)
	if _, err := out.Read(line); err != nil || string(line) != "locked\n" {
		t.Fatalf("the child says %q, %v", line, err)
	}
	_, err = OS().Lock(dir)
	if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "process "+strconv.Itoa(child.Process.Pid)) {
		t.Fatalf("a second process gets: %v", err)
	}
	must(t, child.Process.Kill())
	_ = child.Wait() // killed, as it says
	l, err := OS().Lock(dir)
	must(t, err)
	if _, err := OS().Lock(dir); !errors.Is(err, ErrLocked) {
		t.Fatalf("a second lock within the process answers %v", err)
	}
	must(t, l.Close())
}

// A device that is always full stands in for a full disk.
func TestAFullDiskAnswersErrNoSpace(t *testing.T) {
	f, err := OS().OpenFile("/dev/full", 0)
	if err != nil {
		t.Skip("no /dev/full here")
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte("x"), 0); !errors.Is(err, ErrNoSpace) {
		t.Fatalf("answers %v", err)
	}
}
