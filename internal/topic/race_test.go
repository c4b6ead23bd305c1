package topic

import (
	"fmt"
	"sync"
	"testing"
)

// Both structures under writers, with some entries nobody touches: those must be
// found every time. Run with -race.
func TestReadersFindWhatWritersLeaveAlone(t *testing.T) {
	const stable, rounds = 300, 500
	var trie Trie[int, int]
	var values Values[int]
	for i := range stable {
		trie.Set(fmt.Sprintf("plant/%d/+", i), i, i)
		trie.Set("plant/#", i, i)
		values.Set(fmt.Sprintf("plant/%d/stable", i), i)
	}

	var writers, readers sync.WaitGroup
	written := make(chan struct{})
	for w := range 2 {
		writers.Go(func() {
			for i := range rounds {
				k := stable + w*rounds + i
				filter, name := fmt.Sprintf("plant/%d/+/%d", i%stable, k), fmt.Sprintf("plant/%d/%d", i%stable, k)
				trie.Set(filter, k, k)
				trie.Set("plant/#", k, k)
				values.Set(name, k)
				if i%3 != 0 {
					trie.Remove(filter, k)
					trie.Remove("plant/#", k)
					values.Delete(name)
				}
			}
		})
	}
	for r := range 2 {
		readers.Go(func() {
			var dst []Subscription[int, int]
			for i := r; ; i++ {
				var before, version uint64
				before = trie.Version()
				dst, version = trie.Match(dst[:0], fmt.Sprintf("plant/%d/x", i%stable))
				if version < before {
					t.Errorf("version went from %d to %d", before, version)
				}
				own := 0
				for _, s := range dst {
					if s.Key < stable {
						own++
					}
				}
				if own != stable+1 {
					t.Errorf("found %d stable subscriptions, want %d", own, stable+1)
				}
				if got := walkStable(&values); got != stable {
					t.Errorf("walked over %d stable values, want %d", got, stable)
				}
				select {
				case <-written:
					return
				default:
				}
			}
		})
	}
	writers.Wait()
	close(written)
	readers.Wait()
}

func walkStable(values *Values[int]) (found int) {
	cursor := values.Walk("plant/+/stable")
	for more := true; more; {
		var got []Value[int]
		got, more = cursor.Next(nil, 64)
		found += len(got)
	}
	return found
}
