package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "emanet/e2e/harness"
)

// as is a clean CONNECT of a user.
func as(version byte, id, user, password string) Connect {
	c := Clean(version, id)
	c.User, c.Password = user, password
	return c
}

// refusedWith connects and expects to be turned away.
func refusedWith(t *testing.T, addr string, c Connect, code byte) {
	t.Helper()
	client := Dial(t, addr, c.Version)
	client.Write(c.Bytes())
	if got := client.Expect(CONNACK).Code; got != code {
		t.Errorf("%q as %q: answered %#x, want %#x", c.ClientID, c.User, got, code)
	}
	client.ExpectClosed()
}

func TestTheUserCommandAndABrokerThatReadsWhatItWrites(t *testing.T) {
	OnlyEmanet(t)
	t.Parallel()
	dir := t.TempDir()
	file, secret := filepath.Join(dir, "users.toml"), filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, []byte("from a file\nand no more of it\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	MustEmanet(t, "one\n", "user", "add", "alice", "--users", file, "--tag", "monitoring")
	MustEmanet(t, "", "user", "add", "bob", "--users", file, "--password-file", secret)
	if got, want := MustEmanet(t, "", "user", "list", "--users", file),
		"NAME   PASSWORD  RULES  TAGS\nalice  yes       0      monitoring\nbob    yes       0      \n"; got != want {
		t.Errorf("the list is\n%s, not\n%s", got, want)
	}
	for what, try := range map[string][]string{
		"a second alice":           {"add", "alice"},
		"a password for nobody":    {"passwd", "carol"},
		"a password that is empty": {"passwd", "bob"},
		"an unknown tag":           {"add", "dave", "--tag", "root"},
		"too few iterations":       {"passwd", "bob", "--iterations", "100"},
	} {
		input := "two\n"
		if strings.Contains(what, "empty") {
			input = "\n"
		}
		if code, _, said := Emanet(t, input, append([]string{"user"}, append(try, "--users", file)...)...); code == 0 || said == "" {
			t.Errorf("%s: exit code %d, saying %q", what, code, said)
		}
	}
	if code, _, _ := Emanet(t, "", "user", "list"); code != 2 {
		t.Errorf("without --users the exit code is %d", code)
	}

	b := Start(t, "--users", file)
	refusedWith(t, b.Addr(), Clean(5, "nobody"), 0x87)
	refusedWith(t, b.Addr(), Clean(4, "nobody"), 5)
	refusedWith(t, b.Addr(), as(5, "a", "alice", "two"), 0x86)
	refusedWith(t, b.Addr(), as(4, "a", "alice", "two"), 4)
	alice := Open(t, b.Addr(), as(5, "a", "alice", "one"))
	bob := Open(t, b.Addr(), as(4, "b", "bob", "from a file"))
	alice.Subscribe(To("t", 1))
	bob.Publish("t", "without an ACL everybody may do everything", 1)
	alice.ExpectPublish("t", "without an ACL everybody may do everything")

	// A change of the file is noticed without a signal.
	MustEmanet(t, "two\n", "user", "passwd", "alice", "--users", file)
	if last := alice.ExpectClosed(); last.Type != DISCONNECT || last.Code != 0x87 {
		t.Errorf("a new password ended the old one's connection with %v", last)
	}
	bob.Ping()
	Open(t, b.Addr(), as(5, "a", "alice", "two"))
	MustEmanet(t, "", "user", "remove", "bob", "--users", file)
	bob.ExpectClosed()
	refusedWith(t, b.Addr(), as(4, "b", "bob", "from a file"), 4)
}

func TestAReloadOfTheACLHoldsForThoseWhoAreConnected(t *testing.T) {
	OnlyEmanet(t)
	t.Parallel()
	dir := t.TempDir()
	acl := filepath.Join(dir, "acl")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(acl, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("topic readwrite a/#\n")
	b := Start(t, "--acl", acl)
	c := Open(t, b.Addr(), Clean(5, "c"))
	c.Subscribe(To("#", 0))
	if p := c.Publish("b", "x", 1); p.Code != 0x87 {
		t.Errorf("denied, and answered with %v", p)
	}
	write("topic readwrite b\n")
	b.Reload("ok")
	c.Publish("b", "now", 0)
	c.ExpectPublish("b", "now")
	if p := c.Publish("a/x", "x", 1); p.Code != 0x87 {
		t.Errorf("a right that was taken away holds: %v", p)
	}

	write("topic readwrite b\ntopic maybe a\n")
	b.Reload("failed")
	c.Publish("b", "still", 0)
	c.ExpectPublish("b", "still")
	if log := b.Log(); !strings.Contains(log, acl+`: line 2: \"maybe\" is none of read, write, readwrite and deny`) {
		t.Errorf("the log does not say what is wrong:\n%s", log)
	}
	if code, err := b.Healthy(); err != nil || code != http.StatusOK {
		t.Errorf("a file that cannot be read turned health to %d, %v", code, err)
	}
	if n := b.Metrics()["emanet_mqtt_denied_publishes_total"]; n != 2 {
		t.Errorf("%v publishes are counted as denied", n)
	}
}

func TestWhatAMemberMayNotReadAnyMoreGoesToOneThatMay(t *testing.T) {
	OnlyEmanet(t)
	t.Parallel()
	acl := filepath.Join(t.TempDir(), "acl")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(acl, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("topic readwrite #\n")
	b := Start(t, "--acl", acl)
	may := Open(t, b.Addr(), Persistent(4, "may"))
	may.Subscribe(To("$share/g/may/t", 1))
	may.Disconnect()
	lost := Open(t, b.Addr(), Persistent(4, "lost"))
	lost.Subscribe(To("$share/g/may/t", 1))
	pub := Open(t, b.Addr(), Clean(5, "pub"))
	pub.Publish("may/t", "x", 1)
	lost.ExpectPublish("may/t", "x")
	lost.Drop()

	write("topic write #\npattern read %c/#\n")
	b.Reload("ok")
	may = Open(t, b.Addr(), Persistent(4, "may"))
	lost = Open(t, b.Addr(), Persistent(4, "lost"))
	if p := may.ExpectPublish("may/t", "x"); !p.Dup {
		t.Errorf("another was sent it: %v", p)
	}
	lost.Ping()
}

func TestABrokenFileRefusesTheStartAndIsNamed(t *testing.T) {
	OnlyEmanet(t)
	t.Parallel()
	acl, passwords := filepath.Join(t.TempDir(), "acl"), filepath.Join(t.TempDir(), "passwords")
	for path, text := range map[string]string{acl: "# rules\ntopic a\nuser bob\n  topics b\n", passwords: ""} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	code, _, said := Emanet(t, "", "serve", "--data", t.TempDir(), "--mqtt", "127.0.0.1:0", "--http", "off", "--acl", acl, "--mosquitto-passwords", passwords)
	if code != 2 || !strings.Contains(said, acl+": line 4: ") {
		t.Errorf("exit code %d, saying %s", code, said)
	}
}

func TestFiguresAreForUsersWhereOthersCanReachThem(t *testing.T) {
	OnlyEmanet(t)
	t.Parallel()
	file := filepath.Join(t.TempDir(), "users.toml")
	MustEmanet(t, "w\n", "user", "add", "watcher", "--users", file, "--tag", "monitoring")
	MustEmanet(t, "d\n", "user", "add", "device", "--users", file)
	port, err := FreePort()
	if err != nil {
		t.Fatal(err)
	}
	b := Prepare(t, t.TempDir(), "--users", file, "--login-delay-max", "0s")
	b.ListenHTTPOn("0.0.0.0:" + port) // every address of the machine; whom it serves does not hang on who asks
	b.Restart()
	get := func(path, user, password string) int {
		t.Helper()
		req, err := http.NewRequest(http.MethodGet, b.URL(path), nil)
		if err != nil {
			t.Fatal(err)
		}
		if user != "" {
			req.SetBasicAuth(user, password)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		return res.StatusCode
	}
	for _, c := range []struct {
		path, user, password string
		want                 int
	}{
		{"/healthz", "", "", 200}, {"/readyz", "", "", 200}, {"/metrics", "", "", 401}, {"/metrics", "watcher", "x", 401},
		{"/metrics", "nobody", "w", 401}, {"/metrics", "device", "d", 403}, {"/metrics", "watcher", "w", 200},
	} {
		if got := get(c.path, c.user, c.password); got != c.want {
			t.Errorf("%s as %q: %d, want %d", c.path, c.user, got, c.want)
		}
	}
}

func TestAFailedLoginIsHeldBackAndOthersFromThereAreLetIn(t *testing.T) {
	OnlyEmanet(t)
	t.Parallel()
	file := filepath.Join(t.TempDir(), "users.toml")
	MustEmanet(t, "secret\n", "user", "add", "alice", "--users", file)
	b := Start(t, "--users", file, "--login-delay-max", "1s")
	Open(t, b.Addr(), as(5, "first", "alice", "secret")) // known to be right from now on
	guess := Dial(t, b.Addr(), 5)
	guess.Write(as(5, "guess", "alice", "guess").Bytes())
	Open(t, b.Addr(), as(5, "second", "alice", "secret")) // while the guess waits, or has not been looked at
	if code := guess.Expect(CONNACK).Code; code != 0x86 {
		t.Errorf("the guess was answered with %#x", code)
	}
	m := b.Metrics()
	for series, want := range map[string]float64{
		`emanet_logins_total{by="password",result="ok"}`:           2,
		`emanet_logins_total{by="wrong_password",result="failed"}`: 1,
		`emanet_logins_cached_total`:                               1,
		`emanet_logins_delayed_total`:                              1,
	} {
		if m[series] != want {
			t.Errorf("%s is %v, want %v", series, m[series], want)
		}
	}
}

func TestACertificatesNameIsAUserWithRights(t *testing.T) {
	OnlyEmanet(t)
	t.Parallel()
	a := NewAuthority(t)
	cert, key := a.Issue("server")
	acl := filepath.Join(t.TempDir(), "acl")
	if err := os.WriteFile(acl, []byte("topic read open\nuser meter-1\ntopic write out/meter-1\ntopic read in/meter-1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	port, err := FreePort()
	if err != nil {
		t.Fatal(err)
	}
	b := Start(t, "--mqtts", "127.0.0.1:"+port, "--tls-cert", cert, "--tls-key", key, "--tls-client-ca", a.File,
		"--tls-client-auth", "require", "--tls-user", "cn", "--acl", acl)
	connect := func(name string, c Connect) (*Client, byte) {
		t.Helper()
		e := Endpoint{Scheme: "tls", Host: "localhost", Port: port, CA: a.File}
		e.Cert, e.Key = a.Issue(name)
		conn, err := e.Connect(t)
		if err != nil {
			t.Fatal(err)
		}
		client := On(t, conn, c.Version)
		client.Write(c.Bytes())
		return client, client.Expect(CONNACK).Code
	}
	c := Persistent(5, "meter")
	c.User, c.Password = "meter-2", "what CONNECT says is not looked at"
	meter, code := connect("meter-1", c)
	if code != 0 {
		t.Fatalf("a certificate is refused with %#x", code)
	}
	if codes := meter.Subscribe(To("in/#", 1), To("in/meter-2", 1)); codes[0] != 1 || codes[1] != 0x87 {
		t.Errorf("granted %x", codes)
	}
	if p := meter.Publish("out/meter-1", "x", 1); p.Code >= 0x80 {
		t.Errorf("its own topic was refused: %v", p)
	}
	if p := meter.Publish("out/meter-2", "x", 1); p.Code != 0x87 {
		t.Errorf("another's topic was answered by %v", p)
	}
	// The session is the certificate's, though no file has its name.
	if _, code := connect("meter-2", Persistent(5, "meter")); code != 0x85 {
		t.Errorf("another's session is answered by %#x", code)
	}
	refusedWith(t, b.Addr(), Persistent(5, "meter"), 0x85)
	// Without a certificate there is no name, whatever CONNECT says.
	plain := Clean(5, "plain")
	plain.User, plain.Password = "meter-1", "x"
	refusedWith(t, b.Addr(), plain, 0x86)
	nobody := Open(t, b.Addr(), Clean(5, "nobody"))
	if codes := nobody.Subscribe(To("in/#", 1), To("open", 1)); codes[0] != 0x87 || codes[1] != 1 {
		t.Errorf("nobody was granted %x", codes)
	}
}
