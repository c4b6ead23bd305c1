package local

import (
	"maps"
	"slices"
	"strings"

	"emanet/internal/store"
)

// sortedRecords gives the newest values of the records that no later prefix deletion took, by kind and key.
func (n *net) sortedRecords() ([]recordKey, []netRecord) {
	keys := slices.SortedFunc(maps.Keys(n.records), compareKeys)
	gone := make([]bool, len(keys))
	for p, at := range n.prefixes {
		i, _ := slices.BinarySearchFunc(keys, p, compareKeys)
		for ; i < len(keys) && keys[i].kind == p.kind && strings.HasPrefix(keys[i].key, p.key); i++ {
			gone[i] = gone[i] || n.records[keys[i]].at < at
		}
	}
	kept, values := keys[:0], make([]netRecord, 0, len(keys))
	for i, k := range keys {
		if !gone[i] {
			kept, values = append(kept, k), append(values, n.records[k])
		}
	}
	return kept, values
}

func compareKeys(a, b recordKey) int {
	if c := strings.Compare(a.kind, b.kind); c != 0 {
		return c
	}
	return strings.Compare(a.key, b.key)
}

// sortedMailboxes gives the mailboxes in the order of their ids: neighbours in the file, and the same
// order in every run.
func (n *net) sortedMailboxes() []*netMailbox {
	all := make([]*netMailbox, 0, len(n.mailboxes))
	for _, m := range n.mailboxes {
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b *netMailbox) int { return compare(a.id, b.id) })
	return all
}

func compare(a, b uint64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// settledRanges are the lane's settled ranges of entries on pages, ascending and disjoint.
func (l *netLane) settledRanges() []store.SeqRange { return mergeRanges(l.settled) }

// mergeRanges sorts ranges and joins those that touch or overlap, in place.
func mergeRanges(rs []store.SeqRange) []store.SeqRange {
	slices.SortFunc(rs, func(a, b store.SeqRange) int { return compare(a.From, b.From) })
	out := rs[:0]
	for _, r := range rs {
		if k := len(out); k > 0 && r.From <= out[k-1].To+1 {
			out[k-1].To = max(out[k-1].To, r.To)
			continue
		}
		out = append(out, r)
	}
	return out
}

// mergedChanges are the lane's changes by ascending seq, one for each entry.
func (l *netLane) mergedChanges() []entryChange {
	slices.SortStableFunc(l.changes, func(a, b entryChange) int { return compare(a.seq, b.seq) })
	out := l.changes[:0]
	for _, c := range l.changes {
		if k := len(out); k > 0 && out[k-1].seq == c.seq {
			out[k-1].released = out[k-1].released || c.released
			if c.counted {
				out[k-1].deliveries, out[k-1].counted = c.deliveries, true
			}
			continue
		}
		out = append(out, c)
	}
	return out
}
