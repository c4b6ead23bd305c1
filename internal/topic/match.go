package topic

import "strings"

// Match reports whether a checked filter matches a checked name. It is the plain
// reference the faster structures are tested against; use it where one filter
// meets one name.
//
// '+' matches exactly one level, also an empty one [MQTT-4.7.1-2]; '#' matches its
// parent and everything below it, so "a/#" matches "a" [MQTT-4.7.1-1]; a filter
// that begins with a wildcard matches no name that begins with '$' [MQTT-4.7.2-1].
// "$share/..." has no special meaning here.
func Match(filter, name string) bool {
	if hidden(name) && leadsWithWildcard(filter) {
		return false // [MQTT-4.7.2-1]
	}
	f, n := 0, 0
	for f <= len(filter) {
		fEnd := levelEnd(filter, f)
		level := filter[f:fEnd]
		if level == "#" {
			return true
		}
		if n > len(name) {
			return false
		}
		nEnd := levelEnd(name, n)
		if level != "+" && level != name[n:nEnd] {
			return false
		}
		f, n = fEnd+1, nEnd+1
	}
	return n > len(name)
}

// A walk over levels keeps one offset: that of the level it stands on. After the
// last level it is len(s)+1, which tells "nothing left" from "an empty level left"
// without a flag and without a slice of levels.

// levelEnd returns the offset of the '/' that ends the level at pos, or len(s).
func levelEnd(s string, pos int) int {
	if i := strings.IndexByte(s[pos:], '/'); i >= 0 {
		return pos + i
	}
	return len(s)
}

// firstLevel returns s up to its first '/'.
func firstLevel(s string) string { return s[:levelEnd(s, 0)] }

// hidden reports whether leading wildcards must not match name. [MQTT-4.7.2-1]
func hidden(name string) bool { return len(name) > 0 && name[0] == '$' }

func leadsWithWildcard(filter string) bool {
	return len(filter) > 0 && (filter[0] == '+' || filter[0] == '#')
}
