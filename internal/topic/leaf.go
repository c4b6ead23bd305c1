package topic

// leafIndexed is the number of subscribers of one filter above which a leaf keeps
// an index: below, comparing keys one by one is faster than a hash.
const leafIndexed = 16

// leaf holds the subscribers of one filter. They lie side by side, so that a match
// copies them in one move; the index makes Set and Remove independent of how many
// there are.
type leaf[K comparable, V any] struct {
	subs  []Subscription[K, V]
	index map[K]int // offset in subs; nil while there are few
}

func (l *leaf[K, V]) find(k K) int {
	if l.index != nil {
		if i, ok := l.index[k]; ok {
			return i
		}
		return -1
	}
	for i := range l.subs {
		if l.subs[i].Key == k {
			return i
		}
	}
	return -1
}

func (l *leaf[K, V]) set(k K, v V) (old V, replaced bool) {
	if i := l.find(k); i >= 0 {
		old, l.subs[i].Value = l.subs[i].Value, v
		return old, true
	}
	if l.subs == nil {
		l.subs = make([]Subscription[K, V], 0, 1) // most filters have one subscriber
	}
	l.subs = append(l.subs, Subscription[K, V]{k, v})
	if l.index != nil {
		l.index[k] = len(l.subs) - 1
	} else if len(l.subs) > leafIndexed {
		l.reindex()
	}
	return old, false
}

func (l *leaf[K, V]) remove(k K) (old V, ok bool) {
	i := l.find(k)
	if i < 0 {
		return old, false
	}
	old = l.subs[i].Value
	last := len(l.subs) - 1
	if l.index != nil {
		l.index[l.subs[last].Key] = i
		delete(l.index, k)
	}
	l.subs[i] = l.subs[last]
	l.subs[last] = Subscription[K, V]{}
	l.subs = l.subs[:last]
	if cap(l.subs) > leafIndexed && len(l.subs)*shrinkRatio < cap(l.subs) {
		l.subs = append(make([]Subscription[K, V], 0, len(l.subs)), l.subs...)
		l.reindex()
	}
	return old, true
}

// reindex builds the index anew, or leaves none if it would not pay.
func (l *leaf[K, V]) reindex() {
	l.index = nil
	if len(l.subs) <= leafIndexed/2 {
		return
	}
	l.index = make(map[K]int, len(l.subs))
	for i := range l.subs {
		l.index[l.subs[i].Key] = i
	}
}
