// Package doctor looks at the machine that a broker is to run on, or runs on: does a flush reach the disk, and how long
// does it take; are there enough files, space and inodes; is the clock right; who can read the data. It changes nothing:
// what it writes is a file of its own in the directory, which it removes.
package doctor

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Level says how bad a finding is.
type Level string

// A Warning costs speed or safety some day; with a Problem the broker does not start, or cannot keep its promise.
const (
	OK      Level = "ok"
	Warning Level = "warning"
	Problem Level = "problem"
)

// Finding is the result of one check.
type Finding struct {
	Check  string `json:"check"` // a word
	Level  Level  `json:"level"`
	Found  string `json:"found"`
	Change string `json:"change,omitempty"` // what to do about it
}

func ok(check, found string, args ...any) Finding {
	return Finding{Check: check, Level: OK, Found: fmt.Sprintf(found, args...)}
}

func warning(check, change, found string, args ...any) Finding {
	return Finding{check, Warning, fmt.Sprintf(found, args...), change}
}

func problem(check, change, found string, args ...any) Finding {
	return Finding{check, Problem, fmt.Sprintf(found, args...), change}
}

// Options say what the broker needs.
type Options struct {
	Dir       string
	Files     uint64   // open files
	NewBytes  int64    // what a first start takes of the disk
	WithUsers []string // files that hold passwords or rights
	Flushes   int      // how many are measured, at most; 0: 400
	FlushTime time.Duration

	// of the tests
	now func() time.Time
}

// Examine makes all checks.
func Examine(opt Options) []Finding {
	if opt.Flushes == 0 {
		opt.Flushes = 400
	}
	if opt.FlushTime == 0 {
		opt.FlushTime = 3 * time.Second
	}
	if opt.now == nil {
		opt.now = time.Now
	}
	where, found := directory(opt.Dir)
	if where != "" {
		found = append(found, inUse(opt.Dir))
		found = append(found, space(where, opt.Dir, opt.NewBytes)...)
		found = append(found, fileSystem(where))
		found = append(found, flush(where, &opt))
	}
	for _, name := range opt.WithUsers {
		found = append(found, secret(name))
	}
	found = append(found, openFiles(opt.Files))
	found = append(found, clock(opt.now())...)
	return append(found, kernel(opt.Files)...)
}

// directory looks at the data directory, and says where on its disk something may be written: there, or in the nearest
// directory above it that exists. "" when nowhere.
func directory(dir string) (where string, found []Finding) {
	st, err := os.Stat(dir)
	switch {
	case os.IsNotExist(err):
		return above(dir)
	case err != nil:
		return "", []Finding{problem("directory", "give the broker's user access to it", "%v", err)}
	case !st.IsDir():
		return "", []Finding{problem("directory", "name a directory", "%s is none", dir)}
	}
	if err := writable(dir); err != nil {
		return "", []Finding{problem("directory", "give it to the broker's user: chown", "user %d cannot write to it: %v", os.Geteuid(), err)}
	}
	if st.Mode().Perm()&0o077 != 0 {
		if isOthers(dir) { // who might miss it
			return dir, []Finding{warning("directory", "give the broker a directory of its own", "%s holds files that are not a broker's", dir)}
		}
		return dir, []Finding{warning("directory", "chmod 700 "+dir, "%s has mode %#o: other users can read messages",
			dir, st.Mode().Perm())}
	}
	return dir, []Finding{ok("directory", "%s is there, and for its owner only", dir)}
}

// isOthers tells whether the directory is in use for something else: it has files, and a broker has never been there.
func isOthers(dir string) bool {
	if _, err := os.Lstat(filepath.Join(dir, "format")); !os.IsNotExist(err) {
		return false
	}
	entries, err := os.ReadDir(dir)
	return err == nil && slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() != "lost+found" && e.Name() != "LOCK" })
}

func above(dir string) (string, []Finding) {
	parent, err := filepath.Abs(dir)
	for err == nil {
		parent = filepath.Dir(parent)
		if _, e := os.Stat(parent); e == nil {
			break
		}
	}
	if err == nil {
		err = writable(parent)
	}
	if err != nil {
		return "", []Finding{problem("directory", "create it, for the broker's user", "%s is not there, and cannot be created: %v", dir, err)}
	}
	return parent, []Finding{ok("directory", "%s is not there yet; the first start creates it. Measured in %s", dir, parent)}
}

// writable tries.
func writable(dir string) error {
	f, err := os.CreateTemp(dir, tempName)
	if err != nil {
		return err
	}
	err = f.Close()
	if e := os.Remove(f.Name()); err == nil {
		err = e
	}
	return err
}

// tempName is what files of ours are called while they are there.
const tempName = ".emanet-doctor-*"

func inUse(dir string) Finding {
	switch owner, is, err := locked(filepath.Join(dir, "LOCK")); {
	case err != nil && !os.IsNotExist(err):
		return warning("lock", "", "whether a broker runs on it cannot be told: %v", err)
	case is:
		return ok("lock", "a broker runs on it (process %s): what is measured here is beside its work", owner)
	}
	return ok("lock", "no broker runs on it")
}

// secret looks at a file of users.
func secret(name string) Finding {
	f, err := os.Open(name) //nolint:gosec // the operator names it
	switch {
	case os.IsNotExist(err):
		return problem("users", "correct the name, or make the file", "%v", err)
	case err != nil:
		return problem("users", "give the broker's user the right to read it", "%v", err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return problem("users", "", "%v", err)
	}
	if st.Mode().Perm()&0o007 != 0 {
		return warning("users", "chmod o= "+name, "%s has mode %#o: every user of this machine can read it", name, st.Mode().Perm())
	}
	return ok("users", "%s can be read, and not by everybody", name)
}
