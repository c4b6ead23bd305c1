package auth

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"time"

	"emanet/internal/disk"
)

// NameMax is the longest user name in bytes. It bounds what a session's record takes.
const NameMax = 255

// Files says where users and rules come from.
type Files struct {
	Users     string // emanet's own TOML file, "" for none
	Passwords string // mosquitto's password file, "" for none
	ACL       string // mosquitto's ACL file, "" for none
	// Certificates: a client certificate gives a user name, with or without a line in a file.
	Certificates bool
	// Anonymous: clients without a user name are let in.
	Anonymous bool
	// DelayMax is the longest that a failed login delays those that follow from its address; 0 delays none.
	DelayMax time.Duration
}

// fileMax bounds what is read of a file: some hundred thousand users.
const fileMax = 64 << 20

// Open reads the files. Its errors name the file, and the line where there is one.
func Open(files Files) (*Users, error) {
	u := &Users{files: files, hashing: newHashing()}
	u.delays.most = files.DelayMax
	if _, err := rand.Read(u.key[:]); err != nil {
		return nil, fmt.Errorf("a key for proven passwords: %w", err)
	}
	return u, u.Reload()
}

// Reload reads the files again. After an error everything stays as it was. What
// has changed holds from the next publish, delivery or login on; who may not be
// there any more is the servers' to end (Holds).
func (u *Users) Reload() error {
	u.reloading.Lock()
	defer u.reloading.Unlock()
	r := newReader()
	err := r.readAll(&u.files)
	u.seen, u.pending = r.seen, nil // also what cannot be understood is read only once
	if err != nil {
		return err
	}
	if old := u.now.Load(); old != nil {
		for name, is := range r.roster.users {
			if was := old.users[name]; was != nil && was.proof == is.proof {
				is.proven.Store(was.proven.Load())
			}
		}
	}
	u.now.Store(r.roster)
	u.version.Add(1)
	return nil
}

// Changed tells whether the files are others than were read last, and stay as they are since the last call: half a file
// that is being written would end the connections of those who stand in the other half.
func (u *Users) Changed() bool {
	u.reloading.Lock()
	defer u.reloading.Unlock()
	is := make(map[string]os.FileInfo, len(u.seen))
	for path := range u.seen {
		is[path], _ = os.Stat(path) // Reload will say what is wrong
	}
	if same(is, u.seen) {
		u.pending = nil
		return false
	}
	settled := u.pending != nil && same(is, u.pending)
	u.pending = is
	return settled
}

// same tells whether the files are those of before and have not been written to.
func same(files, before map[string]os.FileInfo) bool {
	for path, is := range files {
		was := before[path]
		if is == nil || was == nil {
			if is != was {
				return false
			}
			continue
		}
		if !os.SameFile(was, is) || !was.ModTime().Equal(is.ModTime()) || was.Size() != is.Size() {
			return false
		}
	}
	return true
}

// Sizes tells how many users can log in by a password, and how many rules there are.
func (u *Users) Sizes() (users, rules int) {
	r := u.now.Load()
	for _, rs := range r.topics {
		rules += len(rs)
	}
	return len(r.users), rules + len(r.nobodys) + len(r.patterns)
}

// reader puts a roster together.
type reader struct {
	roster *roster
	seen   map[string]os.FileInfo // nil: not there
	inUse  string                 // a user whose rules need a file with users
}

func newReader() *reader {
	return &reader{
		roster: &roster{users: make(map[string]*user), topics: make(map[string]rules)},
		seen:   make(map[string]os.FileInfo),
	}
}

func (r *reader) readAll(files *Files) error {
	for _, f := range []struct {
		path  string
		parse func(string) error
	}{
		{files.Users, func(text string) error { return r.readUsers(text, files.Certificates) }},
		{files.Passwords, func(text string) error { return parsePasswords(text, r.add) }},
		{files.ACL, r.readACL},
	} {
		if f.path == "" {
			continue
		}
		text, err := r.read(f.path)
		if err == nil {
			err = f.parse(text)
		}
		if err != nil {
			return &disk.FileError{Name: f.path, Err: err}
		}
	}
	if files.Users == "" && files.Passwords == "" && !files.Certificates && r.inUse != "" {
		return &disk.FileError{Name: files.ACL, Err: fmt.Errorf("it has rules for the user %q, and nothing says how to know who that is: add --users, --mosquitto-passwords or --tls-user", r.inUse)}
	}
	r.roster.nobodys.order()
	r.roster.patterns.order()
	for _, rs := range r.roster.topics {
		rs.order()
	}
	r.roster.list = slices.SortedFunc(maps.Values(r.roster.users), func(a, b *user) int { return cmp.Compare(a.name, b.name) })
	return nil
}

// read reads a file and notes which one it was.
func (r *reader) read(path string) (string, error) {
	r.seen[path] = nil
	if err := disk.CheckRegular(path); err != nil {
		return "", err
	}
	file, err := os.Open(path)
	if err != nil {
		return "", errors.Unwrap(err) // the path is known
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return "", err
	}
	r.seen[path] = info
	text, err := io.ReadAll(io.LimitReader(file, fileMax+1))
	switch {
	case err != nil:
		return "", err
	case len(text) > fileMax:
		return "", fmt.Errorf("longer than %d MiB", fileMax>>20)
	}
	return string(text), nil
}

// add adds a user who logs in by a password.
func (r *reader) add(u *user) error {
	if r.roster.users[u.name] != nil {
		return fmt.Errorf("the user %q is there a second time", u.name)
	}
	r.roster.users[u.name] = u
	return nil
}

func (r *reader) readUsers(text string, certificates bool) error {
	f, err := decodeUsers(text)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(f.Users)) {
		e := f.Users[name]
		u, rs, err := e.checked(name)
		switch {
		case err != nil:
		case u != nil:
			err = r.add(u)
		case !certificates:
			err = errors.New("no password, and no certificate tells who it is")
		}
		if err != nil {
			return fmt.Errorf("user %q: %w", name, err)
		}
		for _, rule := range rs {
			if err := r.topic(name, rule); err != nil {
				return err
			}
		}
	}
	if r.roster.nobodys, err = checkedRules(f.Anonymous.Topics); err != nil {
		return fmt.Errorf("anonymous: %w", err)
	}
	if r.roster.patterns, err = checkedRules(f.Patterns); err != nil {
		return fmt.Errorf("patterns: %w", err)
	}
	r.roster.acl = r.roster.acl || len(r.roster.nobodys)+len(r.roster.patterns) > 0
	return nil
}

func (r *reader) readACL(text string) error {
	r.roster.acl = true // also an empty one: it allows nothing
	return parseACL(text, r)
}

// topic implements aclSink.
func (r *reader) topic(section string, rule rule) error {
	r.roster.acl = true
	if section == "" {
		r.roster.nobodys = append(r.roster.nobodys, rule)
		return nil
	}
	if r.inUse == "" {
		r.inUse = section
	}
	r.roster.topics[section] = append(r.roster.topics[section], rule)
	return nil
}

// pattern implements aclSink.
func (r *reader) pattern(rule rule) { r.roster.patterns = append(r.roster.patterns, rule) }
