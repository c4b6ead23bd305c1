package topic

import (
	"strings"
	"sync"
	"sync/atomic"
)

// Subscription is one entry of a [Trie]: who, and what they asked for.
type Subscription[K comparable, V any] struct {
	Key   K
	Value V
}

// Trie holds subscriptions keyed by (filter, K) and finds those whose filter
// matches a name. The zero value is empty and ready. All methods may be called
// from many goroutines.
//
// The cost of a match depends on the levels of the name and on what matches, not
// on how many subscriptions there are. A writer holds the lock for one filter at a
// time, so a match never waits behind a long change.
type Trie[K comparable, V any] struct {
	mu      sync.RWMutex
	root    node[K, V]
	count   int
	changes atomic.Uint64
}

// Set subscribes k to filter with value v, in place of an earlier value, which it
// returns. filter must have passed [CheckFilter]; the trie keeps no reference to it.
func (t *Trie[K, V]) Set(filter string, k K, v V) (old V, replaced bool) {
	path, pos, below := splitFilter(filter)
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.root.grow(path, pos)
	at := &n.exact
	if below {
		at = &n.below
	}
	if *at == nil {
		*at = new(leaf[K, V])
	}
	old, replaced = (*at).set(k, v)
	if !replaced {
		t.count++
	}
	t.changes.Add(1)
	return old, replaced
}

// Remove ends k's subscription to filter and returns its value. ok is false if
// there was none, which is not a change.
func (t *Trie[K, V]) Remove(filter string, k K) (old V, ok bool) {
	path, pos, below := splitFilter(filter)
	t.mu.Lock()
	defer t.mu.Unlock()
	old, ok = t.root.remove(path, pos, below, k)
	if ok {
		t.count--
		t.changes.Add(1)
	}
	return old, ok
}

// Match appends to dst every subscription whose filter matches name, in no
// particular order, and returns it with the version the answer belongs to. A key
// that subscribed with several matching filters is there once for each. It
// allocates only to grow dst.
func (t *Trie[K, V]) Match(dst []Subscription[K, V], name string) ([]Subscription[K, V], uint64) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.root.match(dst, name), t.Version()
}

// Version rises with every change and is never zero. An answer of [Trie.Match] is
// current as long as Version still returns the number that came with it: a change
// is visible here before its Set or Remove returns.
func (t *Trie[K, V]) Version() uint64 { return t.changes.Load() + 1 }

// Len returns the number of subscriptions.
func (t *Trie[K, V]) Len() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.count
}

// splitFilter cuts a closing '#' off: the trie keeps it as a property of the
// parent, because it matches the parent too. pos is where a walk over path starts:
// for "#" alone there is no level, hence len(path)+1.
func splitFilter(filter string) (path string, pos int, below bool) {
	if filter == "#" {
		return "", 1, true
	}
	path, below = strings.CutSuffix(filter, "/#")
	return path, 0, below
}
