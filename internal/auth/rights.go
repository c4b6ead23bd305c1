package auth

import "strings"

// Rights are what one client may read and write. They never change: other
// rights are another value. A nil *Rights allows everything, which is what
// everybody has where no ACL is configured.
//
// The order is mosquitto's: the rules of the user, those that deny first; then
// the patterns, those that deny first; what no rule is about is denied.
type Rights struct {
	own      rules
	patterns rules
}

// newRights gives the rights of a client: user is empty for one without.
func newRights(own, patterns rules, user, client string) *Rights {
	r := &Rights{own: own}
	// A name with a wildcard in it would turn a pattern about one client into one about many.
	if strings.ContainsAny(user, "+#") || strings.ContainsAny(client, "+#") {
		return r
	}
	for i := range patterns {
		if p := &patterns[i]; user != "" || !p.usesUser() {
			r.patterns = append(r.patterns, p.fill(user, client))
		}
	}
	return r
}

// MayRead tells whether messages of the topic may be delivered to the client.
func (r *Rights) MayRead(name string) bool { return r.allows(name, read) }

// MayWrite tells whether the client may publish to the topic.
func (r *Rights) MayWrite(name string) bool { return r.allows(name, write) }

func (r *Rights) allows(name string, want access) bool {
	if r == nil {
		return true
	}
	if allowed, decided := r.own.decide(name, want); decided {
		return allowed
	}
	allowed, _ := r.patterns.decide(name, want)
	return allowed
}

// MayReadSome tells whether there is a topic that the checked filter matches
// and that may be read: a subscription of which nothing could ever come is
// refused rather than granted.
func (r *Rights) MayReadSome(filter string) bool {
	if r == nil {
		return true
	}
	denied := r.own.filters(isDeny)
	if someOutside(filter, r.own.filters(allowsRead), denied) {
		return true
	}
	// Copied: denied may have room behind it.
	denied = append(denied[:len(denied):len(denied)], r.patterns.filters(isDeny)...)
	return someOutside(filter, r.patterns.filters(allowsRead), denied)
}

// MayReadAll tells whether every topic that the checked filter matches may be
// read. A member of a shared subscription must, for what it does not get another
// member does.
func (r *Rights) MayReadAll(filter string) bool {
	if r == nil {
		return true
	}
	own := r.own.filters(allowsRead)
	for _, d := range r.own.filters(isDeny) {
		if _, both := intersect(filter, d); both {
			return false
		}
	}
	// A topic that a pattern denies and no rule of the user's own allows.
	if someOutside(filter, r.patterns.filters(isDeny), own) {
		return false
	}
	return !isOutside(filter, append(own[:len(own):len(own)], r.patterns.filters(allowsRead)...))
}

func isDeny(a access) bool     { return a == deny }
func allowsRead(a access) bool { return a&read != 0 }

func (rs rules) filters(which func(access) bool) []string {
	var found []string
	for i := range rs {
		if which(rs[i].access) {
			found = append(found, rs[i].filter)
		}
	}
	return found
}

// someOutside tells whether a topic matches filter and one of the others, and
// none of those outside.
func someOutside(filter string, others, outside []string) bool {
	for _, other := range others {
		if both, ok := intersect(filter, other); ok && isOutside(both, outside) {
			return true
		}
	}
	return false
}
