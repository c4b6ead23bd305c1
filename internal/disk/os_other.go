//go:build !linux

package disk

import "os"

// syncData relies on os.File.Sync, which is F_FULLFSYNC on macOS: fsync there
// leaves the bytes in the drive's volatile cache.
func syncData(f *os.File) error { return f.Sync() }
