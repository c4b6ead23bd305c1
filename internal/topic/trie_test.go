package topic

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

type subscriber struct {
	filter string
	client int
}

// The trie against a map scanned with slowMatch, over random histories of
// subscribing and unsubscribing; its shape is checked as well.
func TestTrieFindsWhatAScanOfAllSubscriptionsFinds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var trie Trie[int, string]
		model := map[subscriber]string{}
		clients := rapid.SampledFrom([]int{1, 3, 60}).Draw(t, "clients")
		filters := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) string { return drawFilter(t, "f") }), 1, 60).Draw(t, "filters")
		version := trie.Version()
		for step := range rapid.IntRange(1, 200).Draw(t, "steps") {
			s := subscriber{
				rapid.SampledFrom(filters).Draw(t, "filter"),
				rapid.IntRange(1, clients).Draw(t, "client"),
			}
			want, had := model[s]
			changed := true
			if rapid.IntRange(0, 4).Draw(t, "op") < 3 {
				v := fmt.Sprint(step)
				if old, replaced := trie.Set(s.filter, s.client, v); old != want || replaced != had {
					t.Fatalf("Set(%v) = %q, %v, want %q, %v", s, old, replaced, want, had)
				}
				model[s] = v
			} else {
				if old, ok := trie.Remove(s.filter, s.client); old != want || ok != had {
					t.Fatalf("Remove(%v) = %q, %v, want %q, %v", s, old, ok, want, had)
				}
				delete(model, s)
				changed = had
			}
			if now := trie.Version(); (now > version) != changed {
				t.Fatalf("version %d -> %d, changed: %v", version, now, changed)
			} else {
				version = now
			}
		}
		checkTrie(t, &trie, model, rapid.SliceOfN(rapid.Custom(func(t *rapid.T) string { return drawName(t, "n") }), 20, 20).Draw(t, "names"))

		for s := range model {
			trie.Remove(s.filter, s.client)
		}
		if r := trie.root; r.plus != nil || r.kids != nil || r.exact != nil || r.below != nil || trie.Len() != 0 {
			t.Fatalf("everything removed, but the root holds %+v, Len %d", r, trie.Len())
		}
	})
}

func checkTrie(t *rapid.T, trie *Trie[int, string], model map[subscriber]string, names []string) {
	if trie.Len() != len(model) {
		t.Fatalf("Len %d, want %d", trie.Len(), len(model))
	}
	checkShape(t, &trie.root, true)
	for _, name := range names {
		var want []string
		for s, v := range model {
			if slowMatch(s.filter, name) {
				want = append(want, fmt.Sprint(s.client, ":", v))
			}
		}
		subs, version := trie.Match(nil, name)
		var got []string
		for _, s := range subs {
			got = append(got, fmt.Sprint(s.Key, ":", s.Value))
		}
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Fatalf("Match(%q) = %q, want %q", name, got, want)
		}
		if version != trie.Version() {
			t.Fatalf("version %d, want %d", version, trie.Version())
		}
	}
}

// checkShape fails if a node that should have been pruned or folded is left.
func checkShape(t *rapid.T, n *node[int, string], root bool) {
	children := map[string]*node[int, string]{}
	if n.kids != nil {
		if n.kids.len() == 0 {
			t.Fatalf("node %q has an empty set of children", n.label)
		}
		maps.Copy(children, n.kids.many)
		for _, k := range n.kids.few {
			children[k.level] = k.node
		}
	}
	if n.plus != nil {
		children["+"] = n.plus
	}
	for _, l := range []*leaf[int, string]{n.exact, n.below} {
		if l == nil {
			continue
		}
		if len(l.subs) == 0 {
			t.Fatalf("node %q has an empty leaf", n.label)
		}
		if l.index != nil && len(l.index) != len(l.subs) {
			t.Fatalf("node %q: index of %d for %d subscribers", n.label, len(l.index), len(l.subs))
		}
	}
	if !root && n.exact == nil && n.below == nil && len(children) < 2 {
		t.Fatalf("node %q has no subscriber and %d children", n.label, len(children))
	}
	for level, child := range children {
		if firstLevel(child.label) != level {
			t.Fatalf("child %q is filed under %q", child.label, level)
		}
		checkShape(t, child, false)
	}
}

func TestTrieFollowsTheExamplesOfTheSpecification(t *testing.T) {
	for _, c := range matchCases {
		var trie Trie[string, int]
		trie.Set(c.filter, "client", 1)
		trie.Set("other/levels", "client", 2)
		if subs, _ := trie.Match(nil, c.name); (len(subs) == 1) != c.want {
			t.Errorf("%q found by %q: %v, want %v", c.filter, c.name, subs, c.want)
		}
	}
}

func TestAClientWithOverlappingFiltersIsFoundOncePerFilter(t *testing.T) {
	var trie Trie[string, int]
	for id, filter := range []string{"#", "a/#", "a/+", "a/b", "+/b", "a/b/#", "b/#"} {
		trie.Set(filter, "client", id)
	}
	subs, _ := trie.Match(nil, "a/b")
	var ids []int
	for _, s := range subs {
		ids = append(ids, s.Value)
	}
	slices.Sort(ids)
	if want := []int{0, 1, 2, 3, 4, 5}; !slices.Equal(ids, want) {
		t.Errorf("subscription identifiers %v, want %v", ids, want)
	}
}

func TestMatchAppendsToWhatIsThere(t *testing.T) {
	var trie Trie[string, int]
	trie.Set("a", "client", 1)
	dst := []Subscription[string, int]{{"before", 0}}
	dst, _ = trie.Match(dst, "a")
	if len(dst) != 2 || dst[0].Key != "before" || dst[1].Key != "client" {
		t.Errorf("got %v", dst)
	}
}

func TestMatchAllocatesNothing(t *testing.T) {
	var trie Trie[int, int]
	for i := range 1000 {
		trie.Set(fmt.Sprintf("plant/%d/+/alarm", i), i, i)
		trie.Set("plant/#", i, i)
		trie.Set("+/+/+/alarm", i, i)
	}
	dst := make([]Subscription[int, int], 0, 4000)
	if n := testing.AllocsPerRun(100, func() { dst, _ = trie.Match(dst[:0], "plant/7/line/alarm") }); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
	if len(dst) != 2001 {
		t.Errorf("%d matches, want 2001", len(dst))
	}
}

func TestABurstOfSubscribersIsGivenBack(t *testing.T) {
	var trie Trie[int, int]
	const burst = 10_000
	for i := range burst {
		trie.Set("fan", i, i)
		trie.Set(fmt.Sprint("wide/", i), i, i)
	}
	for i := range burst - 10 {
		trie.Remove("fan", i)
		trie.Remove(fmt.Sprint("wide/", i), i)
	}
	if fan := trie.root.child("fan").exact; cap(fan.subs) > 200 {
		t.Errorf("10 subscribers hold room for %d", cap(fan.subs))
	}
	if wide := trie.root.child("wide").kids; wide.peak > 200 {
		t.Errorf("10 children hold a map that had %d", wide.peak)
	}
	if subs, _ := trie.Match(nil, fmt.Sprint("wide/", burst-1)); len(subs) != 1 {
		t.Errorf("the last subscriber was lost: %v", subs)
	}
	if subs, _ := trie.Match(nil, "fan"); len(subs) != 10 {
		t.Errorf("%d subscribers left, want 10", len(subs))
	}
}

func TestNodesKeepNoPartOfTheCallersFilter(t *testing.T) {
	// A label cut from a removed 64 KiB filter would keep all of it for as long as
	// the short filter that shares a node with it.
	var trie Trie[int, int]
	long := "a/" + strings.Repeat("x", 60_000)
	trie.Set(long, 1, 1)
	trie.Set("a/b", 1, 1)
	trie.Remove(long, 1)
	if n := trie.root.child("a"); n == nil || n.label != "a/b" {
		t.Fatalf("want one node a/b, got %+v", n)
	}
	if level := trie.root.kids.few[0].level; level != "a" {
		t.Errorf("filed under %q", level)
	}
}
