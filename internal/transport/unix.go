package transport

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"time"
)

// ListenUnix listens on a Unix socket whose file has the given mode. The file that a dead process has left is
// replaced; one that somebody answers on, or that is no socket, is an error. The listener's end removes the file.
func ListenUnix(ctx context.Context, path string, mode fs.FileMode) (net.Listener, error) {
	if err := removeStale(ctx, path); err != nil {
		return nil, err
	}
	// The file is made under another name and shown when its mode is right: nobody connects in between.
	hidden := fmt.Sprintf("%s.%d", path, os.Getpid())
	if err := os.Remove(hidden); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "unix", hidden)
	if err != nil {
		return nil, err
	}
	unix := l.(*net.UnixListener)
	unix.SetUnlinkOnClose(false) // it does not know the name
	if err := errors.Join(os.Chmod(hidden, mode), os.Rename(hidden, path)); err != nil {
		return nil, errors.Join(err, l.Close(), os.Remove(hidden))
	}
	return &unixListener{unix, path}, nil
}

// dialTime is how long a socket's owner may take to accept.
const dialTime = time.Second

func removeStale(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%s exists and is not a socket", path)
	}
	d := net.Dialer{Timeout: dialTime}
	nc, err := d.DialContext(ctx, "unix", path)
	if err == nil {
		_ = nc.Close()
		return fmt.Errorf("%s: another process listens on it", path)
	}
	if !isRefused(err) { // busy, or not ours to look at
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.Remove(path)
}

type unixListener struct {
	*net.UnixListener
	path string
}

// Close removes the file first: a new process may make it again as soon as nobody listens.
func (l *unixListener) Close() error {
	err := os.Remove(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, l.UnixListener.Close())
}

// Addr names the file that clients see.
func (l *unixListener) Addr() net.Addr { return &net.UnixAddr{Name: l.path, Net: "unix"} }
