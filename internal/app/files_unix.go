//go:build linux || darwin

package app

import "syscall"

// openFilesMax is how many files the process may have open; ok is false where that cannot be known.
func openFilesMax() (n uint64, ok bool) {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return 0, false
	}
	return files.Cur, true // the Go runtime has raised it to the hard limit
}
