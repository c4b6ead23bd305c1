package topic

// compare orders names level by level, each level by its bytes: the order of the
// names' bytes with '/' below all others (U+0000 cannot occur). A name comes right
// before everything under it, and everything under it before its next sibling:
//
//	a  <  a/b  <  a/b/c  <  a!  <  b
//
// So the names under any prefix of levels lie side by side, which is what lets a
// cursor step over a subtree by one search.
func compare[A, B string | []byte](a A, b B) int {
	n := min(len(a), len(b))
	i := 0
	for i+8 <= n && load8(a, i) == load8(b, i) {
		i += 8
	}
	for ; i < n; i++ {
		x, y := a[i], b[i]
		if x == y {
			continue
		}
		if y != '/' && (x < y || x == '/') {
			return -1
		}
		return 1
	}
	return len(a) - len(b)
}

// load8 reads eight bytes at once; the compiler makes one load of it. Names under
// one prefix share most of their bytes, and searches compare little else.
func load8[T string | []byte](s T, i int) uint64 {
	_ = s[i+7]
	return uint64(s[i]) | uint64(s[i+1])<<8 | uint64(s[i+2])<<16 | uint64(s[i+3])<<24 |
		uint64(s[i+4])<<32 | uint64(s[i+5])<<40 | uint64(s[i+6])<<48 | uint64(s[i+7])<<56
}
