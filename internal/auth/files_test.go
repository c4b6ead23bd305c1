package auth

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
)

const madeBy2_0_11 = `alice:$7$101$HGNWESZRXcKlBeWe$QMtVL4T5ubmKJiMKB4v1TRLA9hzL+CX+lzsZgQZ+ZCQJo8LtfgcfsxN+8T2Yx3kUY4YM4YiNnprGolAjelzQIQ==`

func TestEveryLineThatIsNotUnderstoodIsNamed(t *testing.T) {
	dir := t.TempDir()
	good := "SCRAM-SHA-256$4096:" + "c2FsdHNhbHRzYWx0c2Fs" + "$" + strings.Repeat("A", 43) + "=:" + strings.Repeat("A", 43) + "="
	hash := "$6$c2FsdA==$" + strings.Repeat("A", 86) + "=="
	for _, c := range []struct{ kind, text, says string }{
		{"acl", "topic a\ntopics b\n", `line 2: "topics" is none of topic, user and pattern`},
		{"acl", "topic\tread a\n", `line 1: "topic\tread" is none of`},
		{"acl", "  # indented\n", `line 1: "#" is none of`},
		{"acl", "topic\n", "line 1: \"\": topic is empty"},
		{"acl", "topic readonly a\n", `line 1: "readonly" is none of read, write, readwrite and deny`},
		{"acl", "\n\ntopic read a/#/b\n", "line 3: \"a/#/b\": '#' in a topic filter is not its whole last level"},
		{"acl", "pattern write a+\n", "line 1: \"a+\": '+' in a topic filter does not fill its whole level"},
		{"acl", "user\n", "line 1: a user name is empty"},
		{"acl", "topic a\nuser \x01\n", "line 2: a user name contains a control character"},
		{"passwords", "# comment\n\nalice\n", "line 3: no ':' between"},
		{"passwords", "alice:secret\n", `line 1: user "alice": the password is not hashed`},
		{"passwords", "alice:$5$x$y\n", `line 1: user "alice": the password is in neither of the forms`},
		{"passwords", "alice:$6$c2FsdA==$AAAA\n", `line 1: user "alice": hash: 3 bytes, not 64 to 64`},
		{"passwords", "alice:$7$x$c2FsdA==$AAAA\n", `line 1: user "alice": iterations "x": not a number`},
		{"passwords", ":" + hash + "\n", "line 1: a user name is empty"},
		{"passwords", "a:" + hash + "\na:" + hash + "\n", `line 2: the user "a" is there a second time`},
		{"users", "x = 1\n[users.a]x\n", "line 2: "},
		{"users", "[users.a]\npasword = \"x\"\n", "unknown key users.a.pasword; the nearest known one is password"},
		{"users", "[user.a]\n", "unknown key user; the nearest known one is users"},
		{"users", "[users.a]\ntopics = [{acess=\"read\", topic=\"x\"}]\n", "unknown key users.a.topics.acess; the nearest known one is access"},
		{"users", "[users.a]\npassword = \"" + good + "\"\ntags = [\"admin\"]\n", `user "a": unknown tag "admin"; the nearest known one is`},
		{"users", "[users.a]\npassword = \"secret\"\n", `user "a": password: a verifier begins with SCRAM-SHA-256$`},
		{"users", "[users.a]\npassword = \"SCRAM-SHA-256$100:c2FsdA==$x:y\"\n", `user "a": password: iterations "100": not a number from 4096`},
		{"users", "[users.a]\n", `user "a": no password, and no certificate tells who it is`},
		{"users", "[users.a]\npassword = \"" + good + "\"\nvhosts = {\"/\" = {read = \".*\"}}\n", `user "a": vhosts: virtual hosts come with AMQP`},
		{"users", "[users.a]\npassword = \"" + good + "\"\n[users.a.vhosts.\"/\"]\n", `user "a": vhosts: virtual hosts come with AMQP`},
		{"users", "[users.a]\npassword = \"" + good + "\"\ntopics = [{access=\"read\", topic=\"a#\"}]\n", `user "a": topics: "a#"`},
		{"users", "[[patterns]]\naccess=\"all\"\ntopic=\"x\"\n", `patterns: topics: access "all" is none of`},
		{"users", "[anonymous]\ntopic=\"x\"\n", "unknown key anonymous.topic; the nearest known one is topics"},
	} {
		path := put(t, dir, c.kind, c.text)
		files := Files{Passwords: put(t, dir, "base", madeBy2_0_11)}
		switch c.kind {
		case "acl":
			files.ACL = path
		case "passwords":
			files = Files{Passwords: path}
		case "users":
			files.Users = path
		}
		_, err := Open(files)
		if err == nil || !strings.HasPrefix(err.Error(), path+": ") || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s %q:\n got %v\nwant %s: …%s…", c.kind, c.text, err, path, c.says)
		}
	}
}

func TestAMissingFileIsNamedOnce(t *testing.T) {
	_, err := Open(Files{Users: "/nowhere/users"})
	if err == nil || err.Error() != "/nowhere/users: no such file or directory" {
		t.Error(err)
	}
}

func TestANameInTwoFilesIsRefused(t *testing.T) {
	dir := t.TempDir()
	files := Files{
		Users:     put(t, dir, "users", "[users.alice]\npassword = \""+verifierOf(t, "x")+"\"\n"),
		Passwords: put(t, dir, "passwords", madeBy2_0_11),
	}
	if _, err := Open(files); err == nil || !strings.Contains(err.Error(), `the user "alice" is there a second time`) {
		t.Error(err)
	}
}

func TestRulesForUsersWhomNothingCanKnowAreRefused(t *testing.T) {
	dir := t.TempDir()
	acl := put(t, dir, "acl", "topic a\nuser bob\ntopic b\n")
	if _, err := Open(Files{ACL: acl, Anonymous: true}); err == nil || !strings.Contains(err.Error(), `"bob"`) {
		t.Errorf("rules for a user that nobody checks: %v", err)
	}
	acl = put(t, dir, "acl", "topic a\npattern c/%c\n")
	u := open(t, Files{ACL: acl, Anonymous: true})
	if r := u.Rights("", "c1"); !r.MayRead("a") || !r.MayWrite("c/c1") || r.MayRead("b") {
		t.Error("an ACL for clients without a name does not hold")
	}
}

func TestSpacesAreReadAsMosquittoReadsThem(t *testing.T) {
	dir := t.TempDir()
	acl := put(t, dir, "acl", "topic  read   a b/c  \r\n  topic write d\ntopic read\nuser  carol x \ntopic e\n")
	u := open(t, Files{ACL: acl, Anonymous: true, Passwords: put(t, dir, "p", madeBy2_0_11)})
	r := u.Rights("", "c")
	if !r.MayRead("a b/c") || r.MayWrite("a b/c") || !r.MayWrite("d") || !r.MayWrite("read") {
		t.Errorf("%+v", r)
	}
	if got := u.now.Load().topics["carol x"]; len(got) != 1 {
		t.Errorf("a user name with a space: %v", u.now.Load().topics)
	}
}

func TestAUsersFileHoldsItsRules(t *testing.T) {
	u := open(t, Files{Users: put(t, t.TempDir(), "users", `
patterns = [{access = "read", topic = "dev/%u/%c"}]
[users.alice]
password = "`+verifierOf(t, "secret")+`"
tags = ["monitoring"]
topics = [{access = "readwrite", topic = "a/#"}, {access = "deny", topic = "a/b"}]
[anonymous]
topics = [{access = "read", topic = "public"}]
`)})
	a, nobody := u.Rights("alice", "c1"), u.Rights("", "c1")
	if !a.MayWrite("a/x") || a.MayRead("a/b") || !a.MayRead("dev/alice/c1") || a.MayRead("public") {
		t.Errorf("alice: %+v", a)
	}
	if !nobody.MayRead("public") || nobody.MayWrite("public") || nobody.MayRead("dev//c1") {
		t.Errorf("nobody: %+v", nobody)
	}
	if ghost := u.Rights("ghost", "c1"); ghost == nil || ghost.MayRead("dev/ghost/c1") {
		t.Error("a user who does not exist has rights")
	}
}

func TestAReloadThatFailsKeepsWhatThereIsAndIsNotTriedAgainForNothing(t *testing.T) {
	dir := t.TempDir()
	path := put(t, dir, "acl", "topic a\n")
	u := open(t, Files{ACL: path, Anonymous: true})
	version := u.Version()
	if version == 0 || u.Changed() {
		t.Fatalf("version %d, changed %v", version, u.Changed())
	}
	put(t, dir, "acl", "topic a\nnonsense\n")
	if u.Changed() || !u.Changed() {
		t.Fatal("a longer file has not changed, or was not waited for")
	}
	if err := u.Reload(); err == nil {
		t.Fatal("nonsense was taken")
	}
	if u.Changed() || u.Version() != version || !u.Rights("", "c").MayRead("a") {
		t.Error("a file that cannot be read changed something, or would be read again")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if u.Changed() || !u.Changed() || u.Reload() == nil || u.Changed() {
		t.Error("a file that is gone is to be told of, once")
	}
	put(t, dir, "acl", "topic b\n")
	if u.Changed() || !u.Changed() {
		t.Error("a file that is back has not changed")
	}
	if err := u.Reload(); err != nil || u.Version() == version || u.Rights("", "c").MayRead("a") {
		t.Errorf("after a good reload: %v", err)
	}
}

func TestAFileThatIsBeingWrittenIsNotReadYet(t *testing.T) {
	dir := t.TempDir()
	u := open(t, Files{ACL: put(t, dir, "acl", "topic a\n"), Anonymous: true})
	for _, half := range []string{"", "topic b\n", "topic b\ntopic c\n"} {
		put(t, dir, "acl", half)
		if u.Changed() {
			t.Errorf("%q would be read, and more may come", half)
		}
	}
	if !u.Changed() {
		t.Error("a file that stays as it is would not be read")
	}
	put(t, dir, "acl", "topic b\ntopic c\ntopic d\n")
	if u.Changed() {
		t.Error("that it had settled once counts for what came later")
	}
}

func FuzzACL(f *testing.F) {
	f.Add("topic read a/#\nuser bob\npattern deny x/%u/%c\n")
	f.Fuzz(func(t *testing.T, text string) {
		r := newReader()
		if r.readACL(text) != nil {
			return
		}
		for _, rs := range r.roster.topics {
			rights := newRights(rs, r.roster.patterns, "u", "c")
			rights.MayRead("a/b")
			rights.MayReadSome("a/#")
			rights.MayReadAll("+/b")
		}
	})
}

func FuzzPasswords(f *testing.F) {
	f.Add(madeBy2_0_11 + "\n")
	f.Fuzz(func(t *testing.T, text string) {
		_ = parsePasswords(text, func(u *user) error {
			if again, err := parsePassword(u.name + ":" + u.proof); err != nil || again.proof != u.proof {
				t.Errorf("%q does not read itself: %v", u.proof, err)
			}
			return nil
		})
	})
}

func TestAFileOfManyDeniesIsReadWithAboutTheSameWorkForEach(t *testing.T) {
	const n = 20_000
	var text strings.Builder
	for i := range n / 2 {
		fmt.Fprintf(&text, "topic readwrite a/%d/#\ntopic deny a/%d/key\n", i, i)
	}
	files := Files{Anonymous: true, ACL: put(t, t.TempDir(), "acl", text.String())}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	u := open(t, files)
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / n; each > 1<<10 { // a copy of the list for each would be 100 KiB and more
		t.Errorf("%d bytes were reserved for each rule", each)
	}
	if r := u.Rights("", "c"); !r.MayRead("a/9999/x") || r.MayRead("a/9999/key") || r.MayRead("a/0/key") {
		t.Error("the rules do not say what they should")
	}
}

func FuzzUsersFile(f *testing.F) {
	f.Add("[users.a]\npassword = \"SCRAM-SHA-256$4096:c2FsdA==$x:y\"\ntopics = [{access=\"read\", topic=\"x\"}]")
	f.Fuzz(func(t *testing.T, text string) { _ = newReader().readUsers(text, false) })
}
