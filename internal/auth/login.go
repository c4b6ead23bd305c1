package auth

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"net/netip"
	"strings"
	"sync/atomic"
	"unicode"
	"unicode/utf8"
)

// Attempt is what a client shows to be let in.
type Attempt struct {
	Address     netip.Addr // failures are slowed by it; the zero value is an address like another
	User        string
	Password    []byte
	HasUser     bool
	HasPassword bool
	Certificate string // the name in a client certificate that was checked; then nothing else counts
}

// Login is a client that was let in. The zero value is one without a user name.
type Login struct {
	User        string
	proof       string // the verifier's text; "" without a password
	certificate bool
}

// What Login refuses with. Wrong passwords and unknown users are not told apart.
var (
	ErrWrong     = errors.New("the user name or the password is wrong")
	ErrAnonymous = errors.New("a user name and a password are needed")
	ErrGone      = errors.New("the client left before its password was checked")
)

// LoginCounters count since the start.
type LoginCounters struct {
	Passwords, Proven, Certificates, Anonymous      atomic.Uint64 // let in; Proven of Passwords without hashing again
	WrongPassword, UnknownUser, NoCredentials, Gone atomic.Uint64 // refused
	Delayed                                         atomic.Uint64 // attempts and refusals that waited for earlier failures
}

// LoginCounters are live.
func (u *Users) LoginCounters() *LoginCounters { return &u.counters }

// LoginsWaiting is how many passwords wait to be checked, or are being.
func (u *Users) LoginsWaiting() int { return u.hashing.waiting() }

// Login lets a client in or says why not. It returns when the password has been
// checked, which may take a while when many come at once, and, after a failure,
// when the delay that goes with it is over; gone ends the wait.
//
// A password that was found right is not hashed again until its user changes. A
// nil *Users lets everybody in as nobody: a name that nothing can check is none.
func (u *Users) Login(a Attempt, gone <-chan struct{}) (Login, error) {
	switch {
	case u == nil:
		return Login{}, nil
	case a.Certificate != "" && u.files.Certificates:
		if CheckName(a.Certificate) != nil {
			u.counters.UnknownUser.Add(1)
			return Login{}, ErrWrong
		}
		u.counters.Certificates.Add(1)
		return Login{User: a.Certificate, certificate: true}, nil
	case !a.HasUser && !a.HasPassword:
		if !u.files.Anonymous {
			u.counters.NoCredentials.Add(1)
			return Login{}, ErrAnonymous
		}
		u.counters.Anonymous.Add(1)
		return Login{}, nil
	}
	return u.password(&a, gone)
}

func (u *Users) password(a *Attempt, gone <-chan struct{}) (Login, error) {
	known := u.now.Load().users[a.User]
	var proof [32]byte
	if known != nil && a.HasPassword {
		proof = u.prove(known, a.Password)
		if p := known.proven.Load(); p != nil && hmac.Equal(p[:], proof[:]) {
			u.counters.Passwords.Add(1)
			u.counters.Proven.Add(1)
			return Login{User: known.name, proof: known.proof}, nil
		}
	}
	if !u.sleep(u.delays.due(a.Address), gone) {
		return Login{}, ErrGone
	}
	against := known
	if known == nil {
		against = u.now.Load().decoy(&u.key, a.User)
	}
	right, done := u.hashing.check(a.Address, against.verifier, a.Password, gone)
	switch {
	case !done:
		u.counters.Gone.Add(1)
		return Login{}, ErrGone
	case right && known != nil && a.HasPassword:
		known.proven.Store(&proof)
		u.counters.Passwords.Add(1)
		return Login{User: known.name, proof: known.proof}, nil
	case known == nil:
		u.counters.UnknownUser.Add(1)
	default:
		u.counters.WrongPassword.Add(1)
	}
	if !u.sleep(u.delays.fail(a.Address), gone) {
		return Login{}, ErrGone
	}
	return Login{}, ErrWrong
}

// Holds tells whether a login would still be let in: its user is there, and has the password it came with.
func (u *Users) Holds(l Login) bool {
	switch {
	case u == nil:
		return l.User == ""
	case l.certificate:
		return u.files.Certificates
	case l.User == "":
		return u.files.Anonymous
	}
	known := u.now.Load().users[l.User]
	return known != nil && known.proof == l.proof
}

// prove is what is remembered of a right password: without the process's key it
// tells nothing, and it holds for this verifier only.
func (u *Users) prove(known *user, password []byte) (proof [32]byte) {
	m := hmac.New(sha256.New, u.key[:])
	for _, part := range []string{known.name, known.proof, string(password)} {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(part)))
		m.Write(size[:])
		m.Write([]byte(part))
	}
	m.Sum(proof[:0])
	return proof
}

// decoy is the user whose verifier an unknown name is checked against, always
// the same one for a name: so a name tells by its time no more than what kinds
// of verifiers there are.
func (r *roster) decoy(key *[32]byte, name string) *user {
	if len(r.list) == 0 {
		return nobody
	}
	m := hmac.New(sha256.New, key[:])
	m.Write([]byte(name))
	return r.list[binary.BigEndian.Uint64(m.Sum(nil))%uint64(len(r.list))]
}

// nobody is checked against where there are no users.
var nobody = &user{verifier: &scram{iterations: scramIterations, salt: []byte("no user has this")}}

// CheckName says what is wrong with a user name.
func CheckName(name string) error {
	switch {
	case name == "":
		return errors.New("a user name is empty")
	case len(name) > NameMax:
		return errors.New("a user name is longer than 255 bytes")
	case !utf8.ValidString(name):
		return errors.New("a user name is not valid UTF-8")
	case strings.ContainsFunc(name, unicode.IsControl):
		return errors.New("a user name contains a control character")
	}
	return nil
}
