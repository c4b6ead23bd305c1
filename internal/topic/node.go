package topic

import "strings"

// node is one vertex of a [Trie]. Chains without branches are folded into one
// node: its label holds one or more levels of a filter, '+' included, so that a
// subscription of its own costs one node however many levels it has.
//
// Invariants: below the root every node has a leaf or at least two children;
// siblings differ in their first level.
type node[K comparable, V any] struct {
	label string      // levels from the parent to here; empty and unused in the root
	plus  *node[K, V] // the child whose label begins with the level "+"
	kids  *kids[K, V] // all other children; nil if none
	exact *leaf[K, V] // subscribers whose filter ends here
	below *leaf[K, V] // subscribers whose filter ends here with "/#"
}

// grow returns the node for path[pos:], creating and splitting nodes as needed.
func (n *node[K, V]) grow(path string, pos int) *node[K, V] {
	for pos <= len(path) {
		rest := path[pos:]
		child := n.child(firstLevel(rest))
		if child == nil {
			// A copy, so that a long-lived node never pins the packet or the longer
			// filter that its label was cut from.
			child = &node[K, V]{label: strings.Clone(rest)}
			n.put(child)
			return child
		}
		shared := commonLevels(child.label, rest)
		if shared < len(child.label) {
			upper := &node[K, V]{label: strings.Clone(child.label[:shared])}
			child.label = strings.Clone(child.label[shared+1:])
			upper.put(child)
			n.put(upper)
			child = upper
		}
		n, pos = child, pos+shared+1
	}
	return n
}

// remove deletes k from the leaf at path[pos:] and folds up what that leaves empty.
func (n *node[K, V]) remove(path string, pos int, below bool, k K) (old V, ok bool) {
	if pos > len(path) {
		at := &n.exact
		if below {
			at = &n.below
		}
		if *at == nil {
			return old, false
		}
		old, ok = (*at).remove(k)
		if ok && len((*at).subs) == 0 {
			*at = nil
		}
		return old, ok
	}
	rest := path[pos:]
	child := n.child(firstLevel(rest))
	if child == nil || commonLevels(child.label, rest) != len(child.label) {
		return old, false
	}
	old, ok = child.remove(path, pos+len(child.label)+1, below, k)
	if ok {
		n.tidy(child)
	}
	return old, ok
}

// tidy restores the invariants after something below child went: an empty child
// goes, one with nothing but a single child of its own becomes one with it.
func (n *node[K, V]) tidy(child *node[K, V]) {
	if child.exact != nil || child.below != nil {
		return
	}
	only, children := child.plus, child.kids.len()
	if only != nil {
		children++
	} else if children == 1 {
		only = child.kids.any()
	}
	switch children {
	case 0:
		n.drop(child)
	case 1:
		only.label = child.label + "/" + only.label
		n.put(only)
	}
}

// match appends the subscriptions that match name, seen from the root.
func (n *node[K, V]) match(dst []Subscription[K, V], name string) []Subscription[K, V] {
	if !hidden(name) {
		return n.matchFrom(dst, name, 0)
	}
	// Neither '#' nor '+' at the root may see a '$' name. [MQTT-4.7.2-1]
	child := n.kids.get(firstLevel(name))
	if child == nil {
		return dst
	}
	if pos, ok := walkLabel(child.label, name, 0); ok {
		dst = child.matchFrom(dst, name, pos)
	}
	return dst
}

// matchFrom appends the subscriptions below n that match name[pos:]. It recurses
// for '+' only, the literal child is the next turn of the loop.
func (n *node[K, V]) matchFrom(dst []Subscription[K, V], name string, pos int) []Subscription[K, V] {
	for {
		if n.below != nil {
			dst = append(dst, n.below.subs...)
		}
		if pos > len(name) {
			if n.exact != nil {
				dst = append(dst, n.exact.subs...)
			}
			return dst
		}
		if n.plus != nil {
			if next, ok := walkLabel(n.plus.label, name, pos); ok {
				dst = n.plus.matchFrom(dst, name, next)
			}
		}
		if n.kids == nil {
			return dst
		}
		child := n.kids.get(name[pos:levelEnd(name, pos)])
		if child == nil {
			return dst
		}
		next, ok := walkLabel(child.label, name, pos)
		if !ok {
			return dst
		}
		n, pos = child, next
	}
}

// walkLabel consumes the levels of name[pos:] that label matches and returns the
// offset of the level after them; ok is false if label does not match.
func walkLabel(label, name string, pos int) (next int, ok bool) {
	for i := 0; ; {
		if i < len(label) && label[i] == '+' {
			i, pos = i+1, levelEnd(name, pos)
		} else {
			for i < len(label) && label[i] != '/' {
				if pos == len(name) || name[pos] != label[i] {
					return 0, false
				}
				i++
				pos++
			}
			if pos < len(name) && name[pos] != '/' {
				return 0, false
			}
		}
		pos++ // past the '/', or past the end
		if i == len(label) {
			return pos, true
		}
		i++
		if pos > len(name) {
			return 0, false
		}
	}
}

// commonLevels returns the length in bytes of the longest run of whole levels that
// a and b begin with. The caller knows that they share the first level.
func commonLevels(a, b string) int {
	shared := 0
	for i := 0; ; i++ {
		aEnds := i == len(a) || a[i] == '/'
		bEnds := i == len(b) || b[i] == '/'
		if aEnds && bEnds {
			shared = i
		}
		if i == len(a) || i == len(b) || a[i] != b[i] {
			return shared
		}
	}
}
