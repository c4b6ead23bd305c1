package topic

// verdict is what a cursor learns from one name.
type verdict int

const (
	probeNext  verdict = iota // no match; the next name may be one
	probeMatch                // a match
	probeSeek                 // no match, nor any name below the cursor's target
	probeEnd                  // no match, nor any name above
)

// beyond as the last level makes a target above everything under the levels before
// it and below their next sibling: UTF-8 has no such byte.
const beyond = "\xff"

// probe compares name with the filter level by level. At the first level that
// differs it knows the lowest name above that could still match, which it leaves in
// target.
func (c *Cursor[V]) probe(name string) verdict {
	filter := c.filter
	if hidden(name) && leadsWithWildcard(filter) {
		c.target = append(c.target[:0], '$'+1) // [MQTT-4.7.2-1]
		return probeSeek
	}
	plusEnd := -1 // end of the last level in name that a '+' stands for
	f, n := 0, 0
	for f <= len(filter) {
		fEnd := levelEnd(filter, f)
		level := filter[f:fEnd]
		if level == "#" {
			return probeMatch // also name = parent of '#' [MQTT-4.7.1-1]
		}
		if n > len(name) {
			// name is an ancestor of what could match.
			if level == "+" {
				return probeNext
			}
			c.target = append(append(c.target[:0], name...), '/')
			c.target = append(c.target, literalLevels(filter[f:])...)
			return probeSeek
		}
		nEnd := levelEnd(name, n)
		switch have := name[n:nEnd]; {
		case level == "+":
			plusEnd = nEnd
		case have < level:
			c.target = append(append(c.target[:0], name[:n]...), literalLevels(filter[f:])...)
			return probeSeek
		case have > level:
			// Too far in this subtree. Only a '+' before can still take another level.
			if plusEnd < 0 {
				return probeEnd
			}
			c.seekBeyond(name[:plusEnd])
			return probeSeek
		}
		f, n = fEnd+1, nEnd+1
	}
	if n > len(name) {
		return probeMatch
	}
	c.seekBeyond(name[:n-1]) // name lies deeper than the filter reaches, like its siblings
	return probeSeek
}

// seekBeyond sets the target behind levels and all names under them.
func (c *Cursor[V]) seekBeyond(levels string) {
	c.target = append(append(c.target[:0], levels...), "/"+beyond...)
}

// literalLevels returns the levels of filter before its first wildcard, without the
// '/' that follows them. The caller knows that the first level is one.
func literalLevels(filter string) string {
	for i := 0; i < len(filter); i++ {
		if (filter[i] == '+' || filter[i] == '#') && i > 0 {
			return filter[:i-1]
		}
	}
	return filter
}
