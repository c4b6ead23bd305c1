package auth

import (
	"os"
	"slices"
	"sync"
	"sync/atomic"
)

// Users is who may log in and what each may do, as the files say now. A nil
// *Users is a broker without users: everybody may do everything, and nobody has
// a name. Its methods may be called from many goroutines.
type Users struct {
	files Files

	reloading sync.Mutex
	seen      map[string]os.FileInfo // the files that were read last; nil: not there
	pending   map[string]os.FileInfo // files that have changed and may still be changing
	now       atomic.Pointer[roster]
	version   atomic.Uint64

	key      [32]byte // of this process, for what is remembered of passwords
	delays   delays
	hashing  *hashing
	counters LoginCounters
}

// roster is what the files said at one time. It does not change, but for what
// its users have proven (user.proven).
type roster struct {
	users    map[string]*user
	list     []*user          // the same, sorted
	topics   map[string]rules // by user; of users by certificate as well
	nobodys  rules            // of clients without a user name
	patterns rules
	acl      bool // some file has rules: what none allows is denied
}

// user is one who can log in by a password.
type user struct {
	name     string
	verifier verifier
	proof    string // the verifier's text
	tags     []string
	// proven is the keyed hash of the password that was found right (login.go).
	proven atomic.Pointer[[32]byte]
}

// Version rises with every change of rights and is never zero in a broker with users.
func (u *Users) Version() uint64 {
	if u == nil {
		return 0
	}
	return u.version.Load()
}

// Exists tells whether somebody of that name may still come. Where certificates
// give names, nobody knows whom they have been given to, and everybody may.
func (u *Users) Exists(name string) bool { return u.now.Load().exists(name, u.files.Certificates) }

func (r *roster) exists(name string, certificates bool) bool {
	return certificates || r.users[name] != nil
}

// Rights gives what a client may do: user is empty for one without a user name.
// nil is everything. A user who no longer exists has no rights.
func (u *Users) Rights(user, client string) *Rights {
	if u == nil {
		return nil
	}
	r := u.now.Load()
	switch {
	case user != "" && !r.exists(user, u.files.Certificates):
		return &Rights{}
	case !r.acl:
		return nil
	case user == "":
		return newRights(r.nobodys, r.patterns, "", client)
	}
	return newRights(r.topics[user], r.patterns, user, client)
}

// Tagged tells whether the user of a login has one of the tags.
func (u *Users) Tagged(l Login, tags ...string) bool {
	known := u.now.Load().users[l.User]
	return known != nil && slices.ContainsFunc(known.tags, func(tag string) bool { return slices.Contains(tags, tag) })
}
