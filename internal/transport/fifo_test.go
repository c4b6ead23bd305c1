//go:build unix

package transport

import (
	"errors"
	"os"
	"syscall"
	"testing"

	"emanet/internal/disk"
	"emanet/internal/transport/certtest"
)

// Whoever opens a pipe waits for a writer, a reload too, and then the stop that waits for the reload.
func TestAPipeInTheKeysPlaceIsNotWaitedFor(t *testing.T) {
	a := certtest.New(t)
	var files Files
	files.Cert, files.Key = a.Issue("one").Files(t.TempDir())
	c, err := LoadCertificates(files)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(files.Key), syscall.Mkfifo(files.Key, 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := c.Reload(); !errors.Is(err, disk.ErrNotRegular) || c.Leaf() == nil {
		t.Errorf("%v", err)
	}
}
