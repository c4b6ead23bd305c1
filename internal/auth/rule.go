// Package auth says who may log in and what each user may do: users and topic
// rules from emanet's own TOML file and from mosquitto's password and ACL
// files, checked as mosquitto checks them. It knows no protocol: servers ask
// it for a login and for the Rights that follow.
package auth

import (
	"slices"
	"strings"

	"emanet/internal/topic"
)

// access is what a rule allows. A rule that allows nothing denies.
type access uint8

const (
	deny      access = 0
	read      access = 1
	write     access = 2
	readwrite access = read | write
)

// accessWords are the words of mosquitto's ACL file, which the TOML file shares.
var accessWords = map[string]access{"read": read, "write": write, "readwrite": readwrite, "deny": deny}

// rule is one line of an ACL: filter is a topic filter, or, in a pattern, what
// becomes one when %u and %c are replaced.
type rule struct {
	filter string
	access access
	// begins is how every topic of the filter begins: most rules are not about a topic, and this tells it sooner.
	begins string
}

func newRule(filter string, a access) rule {
	begins, rest := filter, strings.IndexAny(filter, "+#")
	if rest >= 0 {
		begins = filter[:rest]
		if filter[rest] == '#' { // the level above is meant as well
			begins = strings.TrimSuffix(begins, "/")
		}
	}
	return rule{filter, a, begins}
}

func (r *rule) isAbout(name string) bool {
	return strings.HasPrefix(name, r.begins) && topic.Match(r.filter, name)
}

// rules are in order of precedence: what denies comes first, so that it wins
// over what allows, wherever it stands in its file.
type rules []rule

// order brings rules as their files have them into that order.
func (rs rules) order() {
	slices.SortStableFunc(rs, func(a, b rule) int {
		switch denies := isDeny(a.access); {
		case denies == isDeny(b.access):
			return 0
		case denies:
			return -1
		}
		return 1
	})
}

// decide looks for the first rule about the topic that denies, or allows what is wanted.
func (rs rules) decide(name string, want access) (allowed, decided bool) {
	for i := range rs {
		r := &rs[i]
		if r.access != deny && r.access&want == 0 || !r.isAbout(name) {
			continue
		}
		return r.access != deny, true
	}
	return false, false
}

// usesUser tells whether a pattern speaks of the user, so that it says nothing to clients without one.
func (r *rule) usesUser() bool { return strings.Contains(r.filter, "%u") }

// fill replaces %u and %c.
func (r *rule) fill(user, client string) rule {
	if !strings.Contains(r.filter, "%") {
		return *r
	}
	// One pass: what a name contains is not replaced again.
	return newRule(strings.NewReplacer("%c", client, "%u", user).Replace(r.filter), r.access)
}
