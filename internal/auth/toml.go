package auth

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"emanet/internal/spelling"
	"emanet/internal/topic"
)

// usersFile is emanet's own file:
//
//	[users.alice]
//	password = "SCRAM-SHA-256$4096:<salt>$<stored key>:<server key>"
//	tags = ["monitoring"]
//	topics = [
//	  { access = "readwrite", topic = "site/1/#" },
//	  { access = "deny", topic = "site/1/keys" },
//	]
//
//	[anonymous]                # clients without a user name
//	topics = [ { access = "read", topic = "public/#" } ]
//
//	[[patterns]]               # everybody
//	access = "readwrite"
//	topic = "devices/%u/#"
type usersFile struct {
	Users     map[string]userEntry `toml:"users"`
	Anonymous anonymousEntry       `toml:"anonymous"`
	Patterns  []ruleEntry          `toml:"patterns"`
}

type userEntry struct {
	Password string      `toml:"password"`
	Tags     []string    `toml:"tags"`
	Topics   []ruleEntry `toml:"topics"`
}

type anonymousEntry struct {
	Topics []ruleEntry `toml:"topics"`
}

type ruleEntry struct {
	Access string `toml:"access"`
	Topic  string `toml:"topic"`
}

// The tags there are. Both may read /metrics where it asks for a user.
const (
	TagAdministrator = "administrator"
	TagMonitoring    = "monitoring"
)

var (
	tags       = []string{TagAdministrator, TagMonitoring}
	topKeys    = []string{"users", "anonymous", "patterns"}
	userKeys   = []string{"password", "tags", "topics"}
	ruleKeys   = []string{"access", "topic"}
	nobodyKeys = []string{"topics"}
)

// decodeUsers reads the form of a users file, and refuses keys that it does not know.
func decodeUsers(text string) (*usersFile, error) {
	var f usersFile
	meta, err := toml.Decode(text, &f)
	if err != nil {
		var where toml.ParseError
		if errors.As(err, &where) {
			return nil, fmt.Errorf("line %d: %s", where.Position.Line, strings.TrimSpace(where.Message))
		}
		return nil, err
	}
	if unknown := meta.Undecoded(); len(unknown) > 0 {
		key := unknown[0]
		if len(key) > 2 && key[0] == "users" && key[2] == "vhosts" {
			return nil, fmt.Errorf("user %q: vhosts: virtual hosts come with AMQP, which emanet does not speak yet", key[1])
		}
		if !slices.Contains(topKeys, key[0]) {
			key = key[:1]
		}
		known := knownBeside(key)
		return nil, fmt.Errorf("unknown key %s; the nearest known one is %s", key, spelling.Nearest(key[len(key)-1], known))
	}
	return &f, nil
}

// knownBeside lists the keys that may stand where an unknown one was found.
func knownBeside(key toml.Key) []string {
	switch {
	case len(key) == 1:
		return topKeys
	case key[0] == "patterns":
		return ruleKeys
	case key[0] == "anonymous" && len(key) == 2:
		return nobodyKeys
	case key[0] == "anonymous":
		return ruleKeys
	case len(key) <= 3:
		return userKeys
	}
	return ruleKeys
}

// checked makes a user and its rules of an entry. Without a password the user is nil: such a name is for certificates.
func (e *userEntry) checked(name string) (*user, rules, error) {
	if err := CheckName(name); err != nil {
		return nil, nil, err
	}
	rs, err := checkedRules(e.Topics)
	if err != nil {
		return nil, nil, err
	}
	for _, tag := range e.Tags {
		if !slices.Contains(tags, tag) {
			return nil, nil, fmt.Errorf("unknown tag %.40q; the nearest known one is %s", tag, spelling.Nearest(tag, tags))
		}
	}
	u := &user{name: name, tags: e.Tags}
	if e.Password == "" {
		return nil, rs, nil
	}
	v, err := parseSCRAM(e.Password)
	if err != nil {
		return nil, nil, fmt.Errorf("password: %w", err)
	}
	u.verifier, u.proof = v, v.text()
	return u, rs, nil
}

func checkedRules(entries []ruleEntry) (rules, error) {
	var rs rules
	for i := range entries {
		e := &entries[i]
		a, known := accessWords[e.Access]
		if !known {
			return nil, fmt.Errorf("topics: access %.40q is none of read, write, readwrite and deny", e.Access)
		}
		if err := topic.CheckFilter(e.Topic); err != nil {
			return nil, fmt.Errorf("topics: %.80q: %w", e.Topic, err)
		}
		rs = append(rs, newRule(e.Topic, a))
	}
	return rs, nil
}
