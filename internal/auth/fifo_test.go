//go:build unix

package auth

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"emanet/internal/disk"
)

// Whoever opens a pipe waits for a writer, a reload too, and then the stop that waits for the reload.
func TestAPipeInTheFilesPlaceIsNotWaitedFor(t *testing.T) {
	dir := t.TempDir()
	u := open(t, Files{ACL: put(t, dir, "acl", "topic a\n"), Anonymous: true})
	path := filepath.Join(dir, "acl")
	if err := errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := u.Reload(); !errors.Is(err, disk.ErrNotRegular) || !u.Rights("", "c").MayRead("a") {
		t.Errorf("%v", err)
	}
}
