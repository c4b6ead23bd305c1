package auth

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

const commented = `# the plant's users
[anonymous]
topics = [{ access = "read", topic = "public" }]

# alice, from the office
[users.alice]   # she is fine
password = "%s"  # old
topics = [
  { access = "readwrite", topic = "a/#" },
  # and not this:
  { access = "deny", topic = "a/secret" },
]

# bob
[users."bob b"]
password = "%s"

# the end
`

func contents(t *testing.T, path UsersFile) string {
	t.Helper()
	text, err := os.ReadFile(string(path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func mayLogIn(t *testing.T, path UsersFile, name, password string) bool {
	t.Helper()
	_, err := open(t, Files{Users: string(path)}).Login(attempt(name, password), nil)
	return err == nil
}

func TestARemovedUserLeavesNoBlankLinesBehind(t *testing.T) {
	path := UsersFile(filepath.Join(t.TempDir(), "users"))
	added := []string{""}
	for _, name := range []string{"a", "b", "c"} {
		if err := path.Add(name, []byte("x"), scramIterations, nil); err != nil {
			t.Fatal(err)
		}
		added = append(added, contents(t, path))
	}
	tables := strings.Split(added[3], "\n\n")
	for _, step := range []struct{ name, want string }{
		{"b", tables[0] + "\n\n" + tables[2]}, {"c", added[1]}, {"a", ""},
	} {
		if err := path.Remove(step.name); err != nil {
			t.Fatal(err)
		}
		if now := contents(t, path); now != step.want {
			t.Errorf("without %s it is\n%q, not\n%q", step.name, now, step.want)
		}
	}
	if err := path.Add("a", []byte("x"), scramIterations, nil); err != nil {
		t.Fatal(err)
	}
	if err := path.Add("b", []byte("x"), scramIterations, nil); err != nil {
		t.Fatal(err)
	}
	if err := path.Remove("a"); err != nil {
		t.Fatal(err)
	}
	if now := contents(t, path); !strings.HasPrefix(now, "[users.b]") {
		t.Errorf("without the first: %q", now)
	}
}

func TestAChangeLeavesEveryOtherLineAsItIs(t *testing.T) {
	a, b := verifierOf(t, "a-old"), verifierOf(t, "b-old")
	text := fmt.Sprintf(commented, a, b)
	path := UsersFile(put(t, t.TempDir(), "users", text))
	if err := path.SetPassword("alice", []byte("a-new"), scramIterations); err != nil {
		t.Fatal(err)
	}
	now := contents(t, path)
	if !mayLogIn(t, path, "alice", "a-new") || mayLogIn(t, path, "alice", "a-old") || !mayLogIn(t, path, "bob b", "b-old") {
		t.Error("the passwords are not what they should be")
	}
	was, is := strings.Split(text, "\n"), strings.Split(now, "\n")
	for i := range was {
		if i < len(is) && was[i] != is[i] && !strings.HasPrefix(was[i], "password") {
			t.Errorf("line %d was %q and is %q", i+1, was[i], is[i])
		}
	}
	if len(was) != len(is) {
		t.Errorf("%d lines became %d", len(was), len(is))
	}

	if err := path.Remove("alice"); err != nil {
		t.Fatal(err)
	}
	want := `# the plant's users
[anonymous]
topics = [{ access = "read", topic = "public" }]

# alice, from the office

# bob
[users."bob b"]
password = "` + b + `"

# the end
`
	if got := contents(t, path); got != want {
		t.Errorf("after removing alice:\n%s\nwant\n%s", got, want)
	}

	if err := path.Add("carol c.", []byte("c"), scramIterations, []string{TagMonitoring}); err != nil {
		t.Fatal(err)
	}
	if got := contents(t, path); !strings.HasPrefix(got, want) {
		t.Errorf("adding carol changed what was there:\n%s", got)
	}
	if !mayLogIn(t, path, "carol c.", "c") || !mayLogIn(t, path, "bob b", "b-old") {
		t.Error("carol and bob cannot log in")
	}
	list, err := path.List()
	if err != nil || fmt.Sprint(list) != "[{bob b true [] 0} {carol c. true [monitoring] 0}]" {
		t.Errorf("%v, %v", list, err)
	}
}

func TestAUserGoesWithItsTables(t *testing.T) {
	v := verifierOf(t, "x")
	bob := "[users.bob]\npassword = \"" + v + "\"\n[[users.bob.topics]]\naccess = \"read\"\ntopic = \"b\"\n"
	path := UsersFile(put(t, t.TempDir(), "users", strings.ReplaceAll(bob, "bob", "alice")+bob))
	if err := path.Remove("alice"); err != nil {
		t.Fatal(err)
	}
	if got := contents(t, path); got != bob {
		t.Errorf("after removing alice:\n%s", got)
	}
}

func TestTheFirstUserMakesTheFile(t *testing.T) {
	path := UsersFile(filepath.Join(t.TempDir(), "users"))
	if err := path.SetPassword("a", []byte("x"), scramIterations); err == nil {
		t.Error("a password was set in a file that is not there")
	}
	if err := path.Add("a", []byte("x"), scramIterations, nil); err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(string(path)); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
	if !mayLogIn(t, path, "a", "x") {
		t.Error("the user cannot log in")
	}
	for what, err := range map[string]error{
		"a second of the same name":       path.Add("a", []byte("y"), scramIterations, nil),
		"a password for who is not there": path.SetPassword("b", []byte("y"), scramIterations),
		"a removal of who is not there":   path.Remove("b"),
		"an unknown tag":                  path.Add("c", []byte("y"), scramIterations, []string{"root"}),
		"a bad name":                      path.Add("c\n", []byte("y"), scramIterations, nil),
	} {
		if err == nil {
			t.Errorf("%s was accepted", what)
		}
	}
	if list, _ := path.List(); len(list) != 1 || !mayLogIn(t, path, "a", "x") {
		t.Errorf("refusals changed something: %v", list)
	}
}

func TestAFormThatNoCommandUnderstandsIsLeftAlone(t *testing.T) {
	v := verifierOf(t, "x")
	for what, text := range map[string]string{
		"an inline table":  `users = { a = { password = "` + v + `" } }` + "\n",
		"dotted keys":      `users.a.password = "` + v + `"` + "\n",
		"keys in the open": "[users]\na.password = \"" + v + "\"\n",
		"a text that looks like a table": "[users.b]\npassword = \"" + v + "\"\ntopics = [{access = \"read\", topic = \"\"\"x\n[users.a]\npassword = y\"\"\"}]\n" +
			"[users.a]\npassword = \"" + v + "\"\n",
	} {
		path := UsersFile(put(t, t.TempDir(), "users", text))
		if err := path.SetPassword("a", []byte("y"), scramIterations); err == nil {
			t.Errorf("%s: the password was changed to\n%s", what, contents(t, path))
		}
		if err := path.Remove("a"); err == nil {
			t.Errorf("%s: the user was removed, leaving\n%s", what, contents(t, path))
		}
		if got := contents(t, path); got != text {
			t.Errorf("%s: a refusal changed it to\n%s", what, got)
		}
	}
}

func TestWritersAtOnceLoseNothing(t *testing.T) {
	path := UsersFile(filepath.Join(t.TempDir(), "users"))
	const each, writers = 5, 4
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := range each {
				if err := path.Add(fmt.Sprintf("u%d-%d", w, i), []byte("x"), scramIterations, nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if list, err := path.List(); err != nil || len(list) != each*writers {
		t.Errorf("%d users are left, %v", len(list), err)
	}
}
