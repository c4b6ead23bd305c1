package auth

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/BurntSushi/toml"

	"emanet/internal/disk"
)

// UsersFile is emanet's own file, to be changed. A change keeps every other line
// as it is, comments included. It is written in one step, and one writer waits
// for another: no change is lost.
type UsersFile string

// lockPatience is how long a writer waits for another, who needs a moment.
const lockPatience = 30 * time.Second

// User is what List tells of a user.
type User struct {
	Name     string
	Password bool // else it is known by its certificate
	Tags     []string
	Rules    int
}

// Add adds a user. A file that is not there is made.
func (f UsersFile) Add(name string, password []byte, iterations int, tags []string) error {
	v, err := newSCRAM(password, iterations)
	if err != nil {
		return err
	}
	return f.change(true, func(text string, is *usersFile) (string, error) {
		if _, there := is.Users[name]; there {
			return "", fmt.Errorf("there is a user %q already", name)
		}
		if is.Users == nil {
			is.Users = make(map[string]userEntry)
		}
		is.Users[name] = userEntry{Password: v.text(), Tags: tags}
		var added strings.Builder
		added.WriteString(text)
		if text != "" {
			if !strings.HasSuffix(text, "\n") {
				added.WriteByte('\n')
			}
			added.WriteByte('\n')
		}
		fmt.Fprintf(&added, "[users.%s]\npassword = %q\n", keyOf(name), v.text())
		if len(tags) > 0 {
			quoted := make([]string, len(tags))
			for i, tag := range tags {
				quoted[i] = strconv.Quote(tag)
			}
			fmt.Fprintf(&added, "tags = [%s]\n", strings.Join(quoted, ", "))
		}
		return added.String(), nil
	})
}

// SetPassword gives a user another password.
func (f UsersFile) SetPassword(name string, password []byte, iterations int) error {
	v, err := newSCRAM(password, iterations)
	if err != nil {
		return err
	}
	return f.change(false, func(text string, is *usersFile) (string, error) {
		e, there := is.Users[name]
		if !there {
			return "", noSuchUser(name)
		}
		e.Password = v.text()
		is.Users[name] = e
		return editTable(text, name, func(table []string) []string {
			line := fmt.Sprintf("password = %q\n", v.text())
			at := slices.IndexFunc(table, func(l string) bool {
				key, _, found := strings.Cut(l, "=")
				return found && strings.TrimSpace(key) == "password"
			})
			if at < 0 {
				return slices.Insert(table, 1, line)
			}
			table[at] = line
			return table
		}), nil
	})
}

// Remove removes a user with all its rules.
func (f UsersFile) Remove(name string) error {
	return f.change(false, func(text string, is *usersFile) (string, error) {
		if _, there := is.Users[name]; !there {
			return "", noSuchUser(name)
		}
		delete(is.Users, name)
		return editTable(text, name, func([]string) []string { return nil }), nil
	})
}

// List lists the users by name.
func (f UsersFile) List() ([]User, error) {
	is, _, err := f.read(false)
	if err != nil {
		return nil, err
	}
	list := make([]User, 0, len(is.Users))
	for _, name := range slices.Sorted(maps.Keys(is.Users)) {
		e := is.Users[name]
		list = append(list, User{name, e.Password != "", e.Tags, len(e.Topics)})
	}
	return list, nil
}

func noSuchUser(name string) error { return fmt.Errorf("there is no user %q", name) }

// change edits the text, and writes it if the file then says what is should say, and nothing else.
func (f UsersFile) change(mayMake bool, edit func(text string, is *usersFile) (string, error)) (err error) {
	lock, err := disk.LockFile(string(f)+".lock", lockPatience)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	want, text, err := f.read(mayMake)
	if err != nil {
		return err
	}
	text, err = edit(text, want)
	if err != nil {
		return f.err(err)
	}
	got, err := decodeUsers(text)
	if err != nil || !reflect.DeepEqual(got.normal(), want.normal()) {
		return f.err(errors.New("its form is not one that can be changed by a command (a table [users.NAME] for each user); change it by hand"))
	}
	if err := newReader().readUsers(text, true); err != nil {
		return f.err(err)
	}
	return disk.Replace(string(f), []byte(text))
}

// normal lets an absent table equal an empty one.
func (u *usersFile) normal() *usersFile {
	if len(u.Users) == 0 {
		u.Users = nil
	}
	return u
}

func (f UsersFile) err(err error) error { return fmt.Errorf("%s: %w", string(f), err) }

func (f UsersFile) read(mayMake bool) (*usersFile, string, error) {
	raw, err := os.ReadFile(filepath.Clean(string(f)))
	if mayMake && errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil {
		return nil, "", err
	}
	is, err := decodeUsers(string(raw))
	if err == nil {
		err = newReader().readUsers(string(raw), true)
	}
	if err != nil {
		return nil, "", f.err(err)
	}
	return is, string(raw), nil
}

// editTable replaces the lines of the table [users.NAME]; of the tables below it the lines are left out where the
// table is. Comments and blank lines behind a table belong to what follows.
func editTable(text, name string, edit func(table []string) []string) string {
	var out, table, trailing []string
	inside, last := false, false // in the table, or in one below it; at the end of the text
	flush := func() {
		edited := edit(table)
		if len(edited) == 0 { // of the blank lines around it one remains, and none at the end
			if endsBlank(out) {
				trailing = withoutBlank(trailing)
			}
			for len(trailing) == 0 && last && endsBlank(out) && len(out) > 0 {
				out = out[:len(out)-1]
			}
		}
		out = append(append(out, edited...), trailing...)
		table, trailing = nil, nil
	}
	for line := range strings.Lines(text) {
		key := headerOf(line)
		ours := len(key) >= 2 && key[0] == "users" && key[1] == name
		switch {
		case key != nil && inside && !ours:
			flush()
			inside = false
		case ours && !inside:
			inside = true
		}
		blank := strings.TrimSpace(line)
		switch {
		case !inside:
			out = append(out, line)
		case blank == "" || blank[0] == '#':
			trailing = append(trailing, line)
		default:
			table = append(append(table, trailing...), line)
			trailing = nil
		}
	}
	if last = true; inside {
		flush()
	}
	return strings.Join(out, "")
}

// endsBlank reports whether lines end with a blank one, or there are none.
func endsBlank(lines []string) bool {
	return len(lines) == 0 || strings.TrimSpace(lines[len(lines)-1]) == ""
}

// withoutBlank leaves out the blank lines at the beginning.
func withoutBlank(lines []string) []string {
	for len(lines) > 0 && strings.TrimSpace(lines[0]) == "" {
		lines = lines[1:]
	}
	return lines
}

// headerOf gives the name of the table that the line begins, nil if it begins none.
func headerOf(line string) toml.Key {
	if !strings.HasPrefix(strings.TrimSpace(line), "[") {
		return nil
	}
	var any map[string]any
	meta, err := toml.Decode(line, &any)
	if err != nil || len(meta.Keys()) == 0 {
		return nil
	}
	keys := meta.Keys()
	return keys[len(keys)-1]
}

// keyOf is a name as a key of TOML.
func keyOf(name string) string {
	bare := !strings.ContainsFunc(name, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_'
	})
	if bare {
		return name
	}
	return strconv.Quote(name)
}

// CheckPassword says what is wrong with a password that somebody wants to have.
func CheckPassword(password []byte) error {
	switch {
	case len(password) == 0:
		return errors.New("the password is empty")
	case len(password) > passwordMax:
		return fmt.Errorf("the password is longer than %d bytes, which no client could send", passwordMax)
	}
	return nil
}

// passwordMax is the longest password that a CONNECT can carry.
const passwordMax = 65535

// IterationsDefault and IterationsMax bound the cost of a verifier.
const (
	IterationsDefault = scramIterations
	IterationsMax     = iterationsMax
)
