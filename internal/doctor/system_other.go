//go:build !linux

package doctor

func fileSystem(string) Finding { return ok("file system", "its kind cannot be told on this system") }

func freeFiles(string) (n uint64, known bool) { return 0, false }

func clockSynchronised() (yes, known bool) { return false, false }

func kernel(uint64) []Finding { return nil }
