package auth

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

var anywhere = netip.MustParseAddr("192.0.2.1")

func attempt(name, password string) Attempt {
	return Attempt{Address: anywhere, User: name, Password: []byte(password), HasUser: true, HasPassword: true}
}

// The example of RFC 7677, section 3: user "user", password "pencil".
func TestAVerifierHasTheKeysOfTheRFC(t *testing.T) {
	salt, _ := base64.StdEncoding.DecodeString("W22ZaJ0SNY7soEsUEjb6gQ==")
	v := &scram{iterations: 4096, salt: salt}
	v.storedKey, v.serverKey = v.keys([]byte("pencil"))
	const want = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="
	if v.text() != want {
		t.Errorf("got %s\nwant %s", v.text(), want)
	}
	again, err := parseSCRAM(want)
	if err != nil || !again.check([]byte("pencil")) || again.check([]byte("Pencil")) {
		t.Errorf("read again: %v", err)
	}
}

func rosterOf(t testing.TB, users map[string]string) string {
	t.Helper()
	text := ""
	for name, password := range users {
		text += fmt.Sprintf("[users.%s]\npassword = %q\n", name, verifierOf(t, password))
	}
	return text
}

func TestWhoComesAndWhoIsLetIn(t *testing.T) {
	dir := t.TempDir()
	path := put(t, dir, "users", rosterOf(t, map[string]string{"alice": "secret"}))
	closed := open(t, Files{Users: path})
	ajar := open(t, Files{Users: path, Anonymous: true})
	named := open(t, Files{Users: path, Certificates: true})
	cert := attempt("mallory", "x")
	cert.Certificate = "device-7"
	for _, c := range []struct {
		who     string
		at      *Users
		attempt Attempt
		user    string
		err     error
	}{
		{"the right password", closed, attempt("alice", "secret"), "alice", nil},
		{"a wrong password", closed, attempt("alice", "Secret"), "", ErrWrong},
		{"an unknown user", closed, attempt("bob", "secret"), "", ErrWrong},
		{"a name without a password", closed, Attempt{User: "alice", HasUser: true}, "", ErrWrong},
		{"a password without a name", closed, Attempt{Password: []byte("secret"), HasPassword: true}, "", ErrWrong},
		{"no credentials", closed, Attempt{}, "", ErrAnonymous},
		{"no credentials where that is allowed", ajar, Attempt{}, "", nil},
		{"a wrong password where none is needed", ajar, attempt("alice", "x"), "", ErrWrong},
		{"an unknown user where no name is needed", ajar, attempt("bob", "x"), "", ErrWrong},
		{"a certificate", named, cert, "device-7", nil},
		{"a certificate that gives no names", closed, cert, "", ErrWrong},
		{"a broker without users", nil, attempt("bob", "x"), "", nil},
	} {
		login, err := c.at.Login(c.attempt, nil)
		if login.User != c.user || !errors.Is(err, c.err) {
			t.Errorf("%s: %q, %v", c.who, login.User, err)
		}
		if err == nil && !c.at.Holds(login) {
			t.Errorf("%s: the login does not hold", c.who)
		}
	}
}

func TestAPasswordIsHashedOnceUntilItsUserChanges(t *testing.T) {
	dir := t.TempDir()
	path := put(t, dir, "users", rosterOf(t, map[string]string{"alice": "secret", "bob": "b"}))
	u := open(t, Files{Users: path})
	in := func(name, password string) Login {
		t.Helper()
		l, err := u.Login(attempt(name, password), nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return l
	}
	proven := func(want uint64) {
		t.Helper()
		if got := u.LoginCounters().Proven.Load(); got != want {
			t.Errorf("%d logins without hashing, want %d", got, want)
		}
	}
	first := in("alice", "secret")
	proven(0)
	in("alice", "secret")
	proven(1)
	if _, err := u.Login(attempt("alice", "wrong"), nil); !errors.Is(err, ErrWrong) {
		t.Error("what is remembered of the right password let a wrong one in")
	}
	if err := u.Reload(); err != nil {
		t.Fatal(err)
	}
	in("alice", "secret") // the same verifier: still known
	proven(2)
	if !u.Holds(first) {
		t.Error("a reload without changes ended a login")
	}
	put(t, dir, "users", rosterOf(t, map[string]string{"alice": "secret", "bob": "b"})) // new salts
	if err := u.Reload(); err != nil {
		t.Fatal(err)
	}
	if u.Holds(first) {
		t.Error("a login holds with the verifier of another password")
	}
	in("alice", "secret")
	proven(2)
}

func TestFailuresSlowTheirAddressAndNobodyIsLockedOut(t *testing.T) {
	path := put(t, t.TempDir(), "users", rosterOf(t, map[string]string{"alice": "secret", "carol": "c"}))
	synctest.Test(t, func(t *testing.T) {
		u := open(t, Files{Users: path, DelayMax: 4 * time.Second})
		took := func(a Attempt, want error) time.Duration {
			t.Helper()
			began := time.Now()
			if _, err := u.Login(a, nil); !errors.Is(err, want) {
				t.Fatalf("%s: %v", a.User, err)
			}
			return time.Since(began)
		}
		for i, want := range []time.Duration{
			250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second, 4 * time.Second,
		} {
			if got := took(attempt("alice", "guess"), ErrWrong); got != want {
				t.Errorf("refusal %d took %v, want %v", i+1, got, want)
			}
		}
		// A guesser that does not wait for its answers.
		gone := make(chan struct{})
		close(gone)
		if _, err := u.Login(attempt("bob", "x"), gone); !errors.Is(err, ErrGone) {
			t.Fatal(err)
		}
		if got := took(attempt("alice", "secret"), nil); got > 4*time.Second {
			t.Errorf("a good client behind the same router waited %v", got)
		}
		took(attempt("bob", "x"), ErrWrong)
		if got := took(attempt("alice", "secret"), nil); got != 0 {
			t.Errorf("a password that is known to be right waited %v", got)
		}
		elsewhere := attempt("carol", "c")
		elsewhere.Address = netip.MustParseAddr("192.0.2.2")
		if got := took(elsewhere, nil); got != 0 {
			t.Errorf("another address waited %v", got)
		}
		<-time.After(10 * delayDecay)
		if got := took(attempt("carol", "c"), nil); got != 0 {
			t.Errorf("long after the failures a login waited %v", got)
		}
		if got := took(attempt("alice", "guess"), ErrWrong); got != delayFirst {
			t.Errorf("long after the failures the first refusal took %v", got)
		}
	})
}

func TestWhileRefusalsAreHeldBackOthersFromThereWaitNoLongerThanTheMost(t *testing.T) {
	path := put(t, t.TempDir(), "users", rosterOf(t, map[string]string{"alice": "secret"}))
	synctest.Test(t, func(t *testing.T) {
		u := open(t, Files{Users: path, DelayMax: 4 * time.Second})
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				if _, err := u.Login(attempt("alice", "guess"), nil); !errors.Is(err, ErrWrong) {
					t.Error(err)
				}
			})
		}
		synctest.Wait() // all have failed, and are held back
		began := time.Now()
		if _, err := u.Login(attempt("alice", "secret"), nil); err != nil {
			t.Error(err)
		}
		if got := time.Since(began); got <= 0 || got > 4*time.Second {
			t.Errorf("among a hundred guesses a good login took %v", got)
		}
		all.Wait()
	})
}

func TestTheTableOfAddressesIsBounded(t *testing.T) {
	d := delays{most: time.Second}
	for i := range 2 * delayAddresses {
		d.fail(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}))
	}
	if len(d.by) != delayAddresses {
		t.Errorf("%d addresses are remembered", len(d.by))
	}
}

func TestAddressesOfOneNetworkAreOne(t *testing.T) {
	a, b := netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::ffff:1")
	if Network(a) != Network(b) || Network(a) == Network(netip.MustParseAddr("2001:db8:0:1::1")) {
		t.Error("IPv6 goes by /64")
	}
	if Network(netip.MustParseAddr("::ffff:192.0.2.1")) != anywhere {
		t.Error("an IPv4 address in IPv6 form is the same")
	}
}

func TestAStormOfFirstLoginsIsServedInTurnByAFewWorkers(t *testing.T) {
	users := map[string]string{}
	for i := range 50 {
		users[fmt.Sprintf("u%d", i)] = "secret"
	}
	u := open(t, Files{Users: put(t, t.TempDir(), "users", rosterOf(t, users))})
	var all sync.WaitGroup
	for i := range 200 {
		all.Go(func() {
			if _, err := u.Login(attempt(fmt.Sprintf("u%d", i%50), "secret"), nil); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := u.LoginsWaiting(); n > u.hashing.workersMax {
		t.Errorf("%d wait after all have been served", n)
	}
	if got := u.LoginCounters().Passwords.Load(); got != 200 {
		t.Errorf("%d logins", got)
	}
}

func TestAnUnknownUserIsCheckedAgainstAVerifierThatOthersHave(t *testing.T) {
	u := open(t, Files{Users: put(t, t.TempDir(), "users", rosterOf(t, map[string]string{"a": "x", "b": "x"}))})
	seen := map[string]bool{}
	for i := range 100 {
		name := fmt.Sprintf("nobody%d", i)
		d := u.now.Load().decoy(&u.key, name)
		if d != u.now.Load().decoy(&u.key, name) {
			t.Fatal("a name is checked now against one, now against another")
		}
		seen[d.name] = true
	}
	if len(seen) != 2 {
		t.Errorf("of two users %v stand for unknown names", seen)
	}
	empty := open(t, Files{Users: put(t, t.TempDir(), "users", "")})
	if _, err := empty.Login(attempt("a", "x"), nil); !errors.Is(err, ErrWrong) {
		t.Error(err)
	}
}

func BenchmarkFirstLogin(b *testing.B) {
	v, _ := newSCRAM([]byte("secret"), scramIterations)
	for b.Loop() {
		v.check([]byte("secret"))
	}
}

func TestANameThatNothingCanCheckIsRefusedWhereNamesMatter(t *testing.T) {
	u := open(t, Files{ACL: put(t, t.TempDir(), "acl", "topic a\n"), Anonymous: true})
	if _, err := u.Login(attempt("bob", "x"), nil); !errors.Is(err, ErrWrong) {
		t.Errorf("a name was taken for granted: %v", err)
	}
	if l, err := u.Login(Attempt{}, nil); err != nil || l.User != "" {
		t.Errorf("nobody was refused: %v", err)
	}
}

// stepped is a verifier that tells of its check, and waits to be let on.
type stepped struct {
	name  string
	began chan<- string
	on    <-chan struct{}
}

func (s stepped) check([]byte) bool {
	s.began <- s.name
	<-s.on
	return true
}

func (s stepped) text() string { return s.name }

func TestAGuesserWithManyConnectionsKeepsNobodyElseWaiting(t *testing.T) {
	const guesses = 100
	h := &hashing{workersMax: 1}
	began, on := make(chan string, guesses+2), make(chan struct{})
	var all sync.WaitGroup
	login := func(name, from string) {
		queued := h.waiting()
		all.Go(func() { h.check(netip.MustParseAddr(from), stepped{name, began, on}, nil, nil) })
		for h.waiting() == queued {
			runtime.Gosched()
		}
	}
	login("guess", "192.0.2.1")
	<-began // it is being checked; what comes now waits
	for range guesses {
		login("guess", "192.0.2.1")
	}
	login("good", "192.0.2.2")
	for i := range 2 {
		on <- struct{}{}
		if name := <-began; (name == "good") != (i == 1) {
			t.Errorf("number %d is a %s one", i, name)
		}
	}
	close(on)
	all.Wait()
	for h.waiting() > 0 {
		runtime.Gosched()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.queues) != 0 {
		t.Errorf("%d queues are left", len(h.queues))
	}
}
