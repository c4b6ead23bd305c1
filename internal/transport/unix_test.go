//go:build unix

package transport

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAUnixSocketHasItsModeAndLeavesNothingBehind(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	for range 2 {
		l, err := ListenUnix(context.Background(), path, 0o640)
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != 0o640 {
			t.Errorf("%v, %v", info, err)
		}
		if l.Addr().String() != path {
			t.Errorf("its name is %q", l.Addr())
		}
		client, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		_ = client.Close()
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 0 {
			t.Errorf("left: %v", left)
		}
	}
}

func TestTheSocketOfADeadProcessIsReplacedAndThatOfALiveOneIsNot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	dead, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	dead.(*net.UnixListener).SetUnlinkOnClose(false)
	_ = dead.Close()
	live, err := ListenUnix(context.Background(), path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = live.Close() }()
	if _, err := ListenUnix(context.Background(), path, 0o600); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("%v", err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ListenUnix(context.Background(), file, 0o600); err == nil || !strings.Contains(err.Error(), "not a socket") {
		t.Errorf("%v", err)
	}
	if text, _ := os.ReadFile(file); string(text) != "precious" {
		t.Error("the file is gone")
	}
}
