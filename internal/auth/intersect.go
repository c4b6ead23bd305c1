package auth

import (
	"strings"

	"emanet/internal/topic"
)

// intersect gives the filter of the topics that both filters match; false if
// there are none. Two filters that share topics always have one filter for them.
func intersect(a, b string) (string, bool) {
	as, bs := strings.Split(a, "/"), strings.Split(b, "/")
	// [MQTT-4.7.2-1]: a wildcard does not stand for a first level that begins with '$'.
	if hides(as[0]) && isWild(bs[0]) || hides(bs[0]) && isWild(as[0]) {
		return "", false
	}
	var both []string
	for i := 0; ; i++ {
		switch {
		case i < len(as) && as[i] == "#":
			return joined(both, bs[min(i, len(bs)):])
		case i < len(bs) && bs[i] == "#":
			return joined(both, as[min(i, len(as)):])
		case i >= len(as) || i >= len(bs):
			name := strings.Join(both, "/")
			return name, len(as) == len(bs) && name != ""
		case as[i] == "+":
			both = append(both, bs[i])
		case bs[i] == "+" || as[i] == bs[i]:
			both = append(both, as[i])
		default:
			return "", false
		}
	}
}

// joined is a filter that both filters agree on up to the '#' of one of them,
// and of which the rest is the other's. '#' stands for no level at all as well;
// what is left then may be empty, which is no topic.
func joined(both, rest []string) (string, bool) {
	filter := strings.Join(append(both, rest...), "/")
	return filter, filter != ""
}

func hides(level string) bool  { return strings.HasPrefix(level, "$") }
func isWild(level string) bool { return level == "+" || level == "#" }

// nobodys is a level that no rule names: U+0000 is in no checked filter.
const nobodys = "\x00"

// isOutside tells whether some topic matches filter and none of the others. It
// looks at examples that stand for all: for '+' a level that nobody names, for
// which no other level could be outside of more; for '#' any number of those,
// up to one more than the longest of the others has levels, from where on only
// a '#' of theirs can match, and matches all.
func isOutside(filter string, others []string) bool {
	var near []string
	longest := 0
	for _, other := range others {
		if _, both := intersect(filter, other); both {
			near = append(near, other)
			longest = max(longest, strings.Count(other, "/")+1)
		}
	}
	if len(near) == 0 {
		return true
	}
	example := strings.Split(filter, "/")
	open := example[len(example)-1] == "#"
	if open {
		example = example[:len(example)-1]
	}
	for i, level := range example {
		if level == "+" {
			example[i] = nobodys
		}
	}
	for {
		if name := strings.Join(example, "/"); name != "" && !matchesAny(near, name) {
			return true
		}
		if !open || len(example) > longest || len(example) >= topic.MaxLevels {
			return false
		}
		example = append(example, nobodys)
	}
}

func matchesAny(filters []string, name string) bool {
	for _, f := range filters {
		if topic.Match(f, name) {
			return true
		}
	}
	return false
}
