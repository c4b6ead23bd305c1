package topic

import (
	"fmt"
	"runtime"
	"testing"
)

// session stands for what a broker files under a filter: a pointer as key, options
// of 8 bytes as value.
type session struct{ _ int }

type options struct {
	_    uint32 // identifier
	_, _ uint8  // QoS, flags
}

var sizes = []int{1_000, 100_000, 1_000_000}

// heapAfter returns what build left on the heap, in bytes.
func heapAfter(build func()) uint64 {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	build()
	runtime.GC()
	runtime.ReadMemStats(&after)
	return after.HeapAlloc - before.HeapAlloc
}

// fill subscribes n sessions of their own to one of four shapes of filter each.
func fill(trie *Trie[*session, options], n int) {
	sessions := make([]session, n)
	for i := range n {
		filter := deviceName(i, "temperature")
		switch i % 4 {
		case 1:
			filter = fmt.Sprintf("plant/%d/device%d/+", i%50, i)
		case 2:
			filter = fmt.Sprintf("plant/+/device%d/alarm", i)
		case 3:
			filter = fmt.Sprintf("plant/%d/device%d/#", i%50, i)
		}
		trie.Set(filter, &sessions[i], options{})
	}
}

func deviceName(i int, reading string) string {
	return fmt.Sprintf("plant/%d/device%d/%s", i%50, i, reading)
}

// The bar: a match costs the same at a thousand and at a million subscriptions.
// With few names the walk is in the processor's caches and this shows; names of
// 1,024 devices spread over all subscriptions add what cache misses cost.
func BenchmarkTrieMatch(b *testing.B) {
	for _, n := range sizes {
		var trie Trie[*session, options]
		heap := heapAfter(func() { fill(&trie, n) })
		for _, devices := range []int{16, 1024} {
			names := make([]string, devices)
			for i := range names {
				names[i] = deviceName((i*(n/devices)+i)%n, "alarm")
			}
			dst := make([]Subscription[*session, options], 0, 64)
			b.Run(fmt.Sprintf("subscriptions=%d/names=%d", n, devices), func(b *testing.B) {
				b.ReportAllocs()
				matches := 0
				for i := 0; b.Loop(); i++ {
					dst, _ = trie.Match(dst[:0], names[i%devices])
					matches += len(dst)
				}
				b.ReportMetric(float64(matches)/float64(b.N), "matches/op")
				b.ReportMetric(float64(heap)/float64(n), "heap-B/sub")
			})
		}
		runtime.KeepAlive(&trie)
	}
}

// One filter of 10,000 subscribers, in which one comes and goes.
func BenchmarkTrieFanOutChurn(b *testing.B) {
	for _, n := range []int{10, 10_000, 1_000_000} {
		var trie Trie[*session, options]
		sessions := make([]session, n+1)
		for i := range n {
			trie.Set("plant/+/status", &sessions[i], options{})
		}
		b.Run(fmt.Sprintf("subscribers=%d", n), func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				trie.Set("plant/+/status", &sessions[n], options{})
				trie.Remove("plant/+/status", &sessions[n])
			}
		})
	}
}

func BenchmarkTrieChurn(b *testing.B) {
	for _, n := range sizes {
		var trie Trie[*session, options]
		fill(&trie, n)
		b.Run(fmt.Sprintf("subscriptions=%d", n), func(b *testing.B) {
			s := new(session)
			for i := 0; b.Loop(); i++ {
				filter := "plant/7/visitor/status"
				trie.Set(filter, s, options{})
				trie.Remove(filter, s)
			}
		})
	}
}

func BenchmarkTrieMatchParallel(b *testing.B) {
	var trie Trie[*session, options]
	fill(&trie, 100_000)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		dst := make([]Subscription[*session, options], 0, 64)
		for pb.Next() {
			dst, _ = trie.Match(dst[:0], "plant/7/device57/alarm")
		}
	})
}

func fillValues(values *Values[*session], names []string) {
	value := new(session)
	for i := range names {
		// A step coprime to the number: every name once, in no order.
		values.Set(names[i*7919%len(names)], value)
	}
}

func valueNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = deviceName(i/10, fmt.Sprint("reading", i%10))
		if i%10 == 0 {
			names[i] = deviceName(i/10, "status")
		}
	}
	return names
}

// heap-B/value is without the names themselves, which the caller shares.
func BenchmarkValuesSetGet(b *testing.B) {
	for _, n := range sizes {
		names := valueNames(n)
		var values Values[*session]
		heap := heapAfter(func() { fillValues(&values, names) })
		b.Run(fmt.Sprintf("get/values=%d", n), func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				values.Get(names[i*7919%n])
			}
			b.ReportMetric(float64(heap)/float64(n), "heap-B/value")
		})
		b.Run(fmt.Sprintf("replace/values=%d", n), func(b *testing.B) {
			value := new(session)
			for i := 0; b.Loop(); i++ {
				values.Set(names[i*7919%n], value)
			}
		})
		b.Run(fmt.Sprintf("delete+set/values=%d", n), func(b *testing.B) {
			value := new(session)
			for i := 0; b.Loop(); i++ {
				values.Delete(names[i*7919%n])
				values.Set(names[i*7919%n], value)
			}
		})
	}
}

// Each op is a whole walk in chunks of 256.
func BenchmarkCursor(b *testing.B) {
	const n = 1_000_000
	var values Values[*session]
	fillValues(&values, valueNames(n))
	for _, filter := range []string{
		"plant/+/+/status", "#", "plant/7/#", "plant/7/device57/status", "plant/+/device57/+",
	} {
		b.Run(fmt.Sprintf("filter=%s", filter), func(b *testing.B) {
			dst := make([]Value[*session], 0, 256)
			matches := 0
			for b.Loop() {
				cursor := values.Walk(filter)
				for more := true; more; {
					dst, more = cursor.Next(dst[:0], 256)
					matches += len(dst)
				}
			}
			b.ReportMetric(float64(matches)/float64(b.N), "matches/op")
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(max(matches, 1)), "ns/match")
		})
	}
}
