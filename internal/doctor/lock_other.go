//go:build !unix

package doctor

import "os"

func locked(string) (owner string, is bool, err error) { return "", false, os.ErrNotExist }

func openFiles(need uint64) Finding {
	return ok("files", "%d are needed; there is no limit to compare with", need)
}
