package powercut

import (
	"maps"
	"path/filepath"
	"slices"
)

// A node is what a name stands for: a file, or a directory if file is nil.
type node struct{ file *inode }

// names is the directory tree twice, like a file's content, with the changes between the two.
type names struct {
	cache   map[string]*node
	durable map[string]*node
	log     []nameChange
}

// A nameChange takes from away and puts what under to; either may be missing.
type nameChange struct {
	from, to string
	what     *node
}

func newNames() names {
	return names{cache: map[string]*node{}, durable: map[string]*node{}}
}

// lookup knows the roots of relative and absolute paths without being told.
func (t *names) lookup(name string) *node {
	if isRoot(name) {
		return &node{}
	}
	return t.cache[name]
}

func isRoot(name string) bool { return name == filepath.Dir(name) }

func (t *names) change(c nameChange) {
	c.apply(t.cache)
	t.log = append(t.log, c)
}

func (c nameChange) apply(tree map[string]*node) {
	// After a cut that kept only some changes the name may stand for something else.
	if c.from != "" && tree[c.from] == c.what {
		delete(tree, c.from)
	}
	if c.to != "" {
		tree[c.to] = c.what
	}
}

// in says whether the change is to the names in dir. A rename between two directories is one
// transaction: it is durable with either.
func (c nameChange) in(dir string) bool {
	return c.from != "" && filepath.Dir(c.from) == dir || c.to != "" && filepath.Dir(c.to) == dir
}

func (t *names) sync(dir string) {
	t.log = slices.DeleteFunc(t.log, func(c nameChange) bool {
		if c.in(dir) {
			c.apply(t.durable)
			return true
		}
		return false
	})
}

// lose keeps the changes that keep chooses, and drops what lost its directory.
func (t *names) lose(keep func() bool) {
	for _, c := range t.log {
		if keep() {
			c.apply(t.durable)
		}
	}
	t.log = nil
	for _, name := range slices.Sorted(maps.Keys(t.durable)) { // parents first
		dir := filepath.Dir(name)
		if !isRoot(dir) && (t.durable[dir] == nil || t.durable[dir].file != nil) {
			delete(t.durable, name)
		}
	}
	t.cache = maps.Clone(t.durable)
}
