package disk

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestAReplacedFileIsTheOwnersAloneAndLeavesNothingBeside(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	name, link := filepath.Join(dir, "users"), filepath.Join(dir, "link")
	for _, content := range []string{"first", "second"} {
		if err := Replace(name, []byte(content)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(name); err != nil || string(got) != content {
			t.Errorf("%q, %v", got, err)
		}
	}
	if err := os.Symlink(name, link); err != nil {
		t.Fatal(err)
	}
	if err := Replace(link, []byte("third")); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(name); string(got) != "third" {
		t.Errorf("what a link names has %q", got)
	}
	st, err := os.Stat(name)
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", st.Mode(), err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 2 {
		t.Errorf("beside the file there is %v", left)
	}
	if err := Replace(filepath.Join(dir, "none", "users"), nil); err == nil {
		t.Error("a directory that is not there was written to")
	}
}

func TestOnlyARegularFileIsOne(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	name, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(name, nil, 0o600), os.Symlink(name, link)); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]error{
		name: nil, link: nil, dir: ErrNotRegular, os.DevNull: ErrNotRegular, filepath.Join(dir, "none"): os.ErrNotExist,
	} {
		if err := CheckRegular(name); !errors.Is(err, want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestALockIsWaitedForAndGivenUp(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "lock")
	first, err := LockFile(name, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := LockFile(name, 0); err == nil || !strings.Contains(err.Error(), "held by another") {
		t.Errorf("a lock was taken twice: %v", err)
	}
	time.AfterFunc(2*lockLook, func() { _ = first.Close() })
	second, err := LockFile(name, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	_ = second.Close()
}
