package transport

import (
	"crypto/x509"
	"os"
	"strings"
	"testing"
	"time"

	"emanet/internal/transport/certtest"
)

func TestCertificatesAreReadAgainAndBrokenOnesLeaveWhatThereIs(t *testing.T) {
	a := certtest.New(t)
	dir := t.TempDir()
	var files Files
	files.Cert, files.Key = a.Issue("one").Files(dir)
	c, err := LoadCertificates(files)
	if err != nil {
		t.Fatal(err)
	}
	shown := func(want string) {
		t.Helper()
		if got := c.Leaf().Subject.CommonName; got != want {
			t.Errorf("%q is shown, not %q", got, want)
		}
	}
	looked := func() bool { // as often as it takes to notice a change
		first := c.Changed()
		return c.Changed() || first
	}
	shown("one")
	if looked() {
		t.Error("nothing has changed")
	}
	a.Issue("two").Files(dir)
	touch(t, files.Cert, time.Minute)
	if c.Changed() {
		t.Error("files that have just changed may still be changing")
	}
	if !c.Changed() {
		t.Error("the change was not seen")
	}
	shown("one")
	if err := c.Reload(); err != nil {
		t.Fatal(err)
	}
	shown("two")
	if looked() {
		t.Error("the change was seen twice")
	}

	if err := os.WriteFile(files.Cert, []byte("-----BEGIN nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	touch(t, files.Cert, 2*time.Minute)
	c.Changed()
	if !c.Changed() {
		t.Error("the change was not seen")
	}
	if err := c.Reload(); err == nil || !strings.Contains(err.Error(), files.Cert) {
		t.Errorf("%v", err)
	}
	shown("two")
	if looked() {
		t.Error("a file that is broken is read once")
	}
	if ok, failed := c.Reloads(); ok != 1 || failed != 1 {
		t.Errorf("%d and %d", ok, failed)
	}
}

// touch moves a file's time on: a file system may count in seconds.
func touch(t *testing.T, name string, by time.Duration) {
	t.Helper()
	at := time.Now().Add(by)
	if err := os.Chtimes(name, at, at); err != nil {
		t.Fatal(err)
	}
}

func TestFilesThatCannotBeUsedAreNamed(t *testing.T) {
	a := certtest.New(t)
	dir, other := t.TempDir(), t.TempDir()
	cert, key := a.Issue("one").Files(dir)
	_, wrongKey := a.Issue("two").Files(other)
	for name, files := range map[string]Files{
		"none":              {Cert: dir + "/none.pem", Key: key},
		"another's key":     {Cert: cert, Key: wrongKey},
		"no authorities":    {Cert: cert, Key: key, ClientCA: key},
		"authorities, none": {Cert: cert, Key: key, ClientCA: dir + "/none.pem"},
	} {
		if _, err := LoadCertificates(files); err == nil || !strings.Contains(err.Error(), dir) && !strings.Contains(err.Error(), other) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAReloadedAuthorityHoldsForThoseWhoComeBack(t *testing.T) {
	a, b := certtest.New(t), certtest.New(t)
	dir := t.TempDir()
	files := Files{ClientCA: a.File(dir), ClientAuth: 4, User: UserCN} // require and verify
	files.Cert, files.Key = a.Issue("localhost").Files(dir)
	c, err := LoadCertificates(files)
	if err != nil {
		t.Fatal(err)
	}
	l := listen(t, func(l *Listener) { l.Certificates = c })
	pair := a.Issue("pump", func(*x509.Certificate) {}).TLS()
	client := l.dialTLS(t, a, pair)
	server := l.prepared(t, client.Handshake)
	b.File(dir)
	if err := c.Reload(); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	expect(t, server, "x") // who is connected stays so
	again := l.dialTLS(t, a, pair)
	go func() { _ = again.Handshake() }()
	if err := l.accept(t).Prepare(time.Now().Add(patience)); err == nil {
		t.Error("a certificate of the old authority is still accepted")
	}
}
