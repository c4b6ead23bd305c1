package mqttserver

import "sync"

// list is a queue from a pool: what is idle has none, what is busy finds one that has grown already.
type list[T any] struct{ items []T }

// listKept is the capacity up to which a list goes back to its pool.
const listKept = 8192

var (
	answerLists = sync.Pool{New: func() any { return &list[answer]{make([]answer, 0, 16)} }}
	liveLists   = sync.Pool{New: func() any { return &list[liveMessage]{make([]liveMessage, 0, 16)} }}
)

// queue appends to l, or to one from the pool when there is none yet.
func queue[T any](l *list[T], pool *sync.Pool, item T) *list[T] {
	if l == nil {
		l = pool.Get().(*list[T])
	}
	l.items = append(l.items, item)
	return l
}

func (l *list[T]) len() int {
	if l == nil {
		return 0
	}
	return len(l.items)
}

// first takes the first n items off: the list to be handled, and the rest.
func (l *list[T]) first(n int, pool *sync.Pool) (taken, rest *list[T]) {
	switch {
	case n == 0:
		return nil, l
	case n == len(l.items):
		return l, nil
	}
	taken = pool.Get().(*list[T])
	taken.items = append(taken.items, l.items[:n]...)
	left := copy(l.items, l.items[n:])
	clear(l.items[left:])
	l.items = l.items[:left]
	return taken, l
}

// all are the items, none of nil.
func (l *list[T]) all() []T {
	if l == nil {
		return nil
	}
	return l.items
}

// done gives l back; its items are handled.
func (l *list[T]) done(pool *sync.Pool) {
	if l == nil || cap(l.items) > listKept {
		return
	}
	clear(l.items)
	l.items = l.items[:0]
	pool.Put(l)
}
