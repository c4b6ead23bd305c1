// Package spelling finds what a misspelt name was meant to be.
package spelling

// Nearest gives the known name closest to name by edit distance, "" if none is
// known.
func Nearest(name string, known []string) string {
	best, bestDistance := "", 1<<30
	for _, k := range known {
		if d := distance(name, k); d < bestDistance {
			best, bestDistance = k, d
		}
	}
	return best
}

// distance is the number of single-byte insertions, deletions and
// replacements between a and b (Levenshtein), with one row of the table kept.
// Names longer than maxName count as far from everything: the work is the
// product of the lengths and a file is not trusted to be short.
func distance(a, b string) int {
	if len(a) > maxName || len(b) > maxName {
		return maxName
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

const maxName = 100
