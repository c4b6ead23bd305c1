package topic

const (
	// Up to kidsFew children are scanned: cheaper in time than a hash and a third
	// of its memory. A map goes back to a list only at half of that, so that a
	// client that comes and goes does not convert each time.
	kidsFew = 8

	// shrinkRatio is how far a map or slice must have emptied before it is rebuilt:
	// Go's maps never shrink, and a burst of subscribers must not cost for ever.
	shrinkRatio = 8
)

// kids are the children of a node whose first level is literal, by that level.
type kids[K comparable, V any] struct {
	few  []kid[K, V]
	many map[string]*node[K, V] // nil as long as few serves
	peak int                    // most entries many has held since it was built
}

type kid[K comparable, V any] struct {
	level string
	node  *node[K, V]
}

func (s *kids[K, V]) len() int {
	switch {
	case s == nil:
		return 0
	case s.many != nil:
		return len(s.many)
	}
	return len(s.few)
}

func (s *kids[K, V]) get(level string) *node[K, V] {
	if s == nil {
		return nil
	}
	if s.many != nil {
		return s.many[level]
	}
	for i := range s.few {
		if s.few[i].level == level {
			return s.few[i].node
		}
	}
	return nil
}

// any returns one of the children.
func (s *kids[K, V]) any() *node[K, V] {
	for _, n := range s.many {
		return n
	}
	return s.few[0].node
}

func (s *kids[K, V]) put(level string, n *node[K, V]) {
	if s.many != nil {
		// Deleted first so that the key is this string: it lies in n's label, the
		// old one would pin a label that is gone.
		delete(s.many, level)
		s.many[level] = n
		s.peak = max(s.peak, len(s.many))
		return
	}
	for i := range s.few {
		if s.few[i].level == level {
			s.few[i] = kid[K, V]{level, n}
			return
		}
	}
	if len(s.few) < kidsFew {
		s.few = append(s.few, kid[K, V]{level, n})
		return
	}
	s.many = make(map[string]*node[K, V], 2*kidsFew)
	for _, k := range s.few {
		s.many[k.level] = k.node
	}
	s.many[level] = n
	s.few, s.peak = nil, len(s.many)
}

func (s *kids[K, V]) drop(level string) {
	if s.many != nil {
		delete(s.many, level)
		s.shrink()
		return
	}
	for i := range s.few {
		if s.few[i].level == level {
			last := len(s.few) - 1
			s.few[i] = s.few[last]
			s.few[last] = kid[K, V]{}
			s.few = s.few[:last]
			return
		}
	}
}

func (s *kids[K, V]) shrink() {
	switch {
	case len(s.many) <= kidsFew/2:
		s.few = make([]kid[K, V], 0, kidsFew)
		for level, n := range s.many {
			s.few = append(s.few, kid[K, V]{level, n})
		}
		s.many, s.peak = nil, 0
	case len(s.many)*shrinkRatio < s.peak:
		many := make(map[string]*node[K, V], len(s.many))
		for level, n := range s.many {
			many[level] = n
		}
		s.many, s.peak = many, len(many)
	}
}

func (n *node[K, V]) child(level string) *node[K, V] {
	if level == "+" {
		return n.plus
	}
	return n.kids.get(level)
}

// put makes child a child of n, in place of one with the same first level.
func (n *node[K, V]) put(child *node[K, V]) {
	level := firstLevel(child.label)
	if level == "+" {
		n.plus = child
		return
	}
	if n.kids == nil {
		n.kids = new(kids[K, V])
	}
	n.kids.put(level, child)
}

func (n *node[K, V]) drop(child *node[K, V]) {
	level := firstLevel(child.label)
	if level == "+" {
		n.plus = nil
		return
	}
	n.kids.drop(level)
	if n.kids.len() == 0 {
		n.kids = nil
	}
}
