package auth

import (
	"errors"
	"fmt"
	"iter"
	"strings"

	"emanet/internal/topic"
)

// lines yields the lines of a file with their numbers.
func lines(text string) iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		number := 0
		for line := range strings.Lines(text) {
			number++
			if !yield(number, strings.TrimRight(line, " \t\r\n\v\f")) {
				return
			}
		}
	}
}

// parsePasswords reads a file that mosquitto_passwd has written, a user a line:
//
//	name:$7$101$<salt>$<hash>
//
// It reports the first line that it does not understand, by its number.
func parsePasswords(text string, add func(*user) error) error {
	for number, line := range lines(text) {
		if line == "" || line[0] == '#' {
			continue
		}
		u, err := parsePassword(line)
		if err == nil {
			err = add(u)
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
	}
	return nil
}

func parsePassword(line string) (*user, error) {
	name, hash, found := strings.Cut(line, ":")
	if !found {
		return nil, errors.New("no ':' between a user name and a password")
	}
	name = strings.Trim(name, " \t")
	if err := CheckName(name); err != nil {
		return nil, err
	}
	v, err := parseMosquittoHash(strings.Trim(hash, " \t"))
	if err != nil {
		return nil, fmt.Errorf("user %q: %w", name, err)
	}
	return &user{name: name, verifier: v, proof: v.text()}, nil
}

// aclSink takes what an ACL file says. section is a user's name, "" before the first.
type aclSink interface {
	topic(section string, r rule) error
	pattern(r rule)
}

// parseACL reads mosquitto's ACL file:
//
//	# before the first "user": for clients without a user name
//	topic [read|write|readwrite|deny] FILTER
//	user NAME
//	topic …
//	pattern [read|write|readwrite|deny] FILTER, with %u and %c, for everybody
//
// Words are parted by spaces; a filter goes up to the end of its line. It
// reports the first line that it does not understand, by its number.
func parseACL(text string, to aclSink) error {
	section := ""
	for number, line := range lines(text) {
		if line == "" || line[0] == '#' {
			continue
		}
		if err := parseACLLine(line, &section, to); err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
	}
	return nil
}

func parseACLLine(line string, section *string, to aclSink) error {
	word, rest, _ := strings.Cut(strings.TrimLeft(line, " "), " ")
	rest = strings.TrimLeft(rest, " ")
	switch word {
	case "":
		return nil
	case "user":
		name := strings.Trim(rest, " \t")
		if err := CheckName(name); err != nil {
			return err
		}
		*section = name
		return nil
	case "topic", "pattern":
		r, err := parseRule(rest)
		switch {
		case err != nil:
			return err
		case word == "pattern":
			to.pattern(r)
			return nil
		}
		return to.topic(*section, r)
	}
	return fmt.Errorf("%.40q is none of topic, user and pattern", word)
}

// parseRule reads what stands behind "topic" or "pattern". A word alone is a
// filter, also if it is "read".
func parseRule(text string) (rule, error) {
	filter, allowed := text, readwrite
	if word, rest, found := strings.Cut(text, " "); found {
		a, known := accessWords[word]
		if !known {
			return rule{}, fmt.Errorf("%.40q is none of read, write, readwrite and deny", word)
		}
		filter, allowed = strings.TrimLeft(rest, " "), a
	}
	if err := topic.CheckFilter(filter); err != nil {
		return rule{}, fmt.Errorf("%.80q: %w", filter, err)
	}
	return newRule(filter, allowed), nil
}
