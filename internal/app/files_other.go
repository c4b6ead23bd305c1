//go:build !linux && !darwin

package app

// openFilesMax is how many files the process may have open; ok is false where that cannot be known.
func openFilesMax() (n uint64, ok bool) { return 0, false }
