package topic

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// compareLevels is the order of names in the fewest words.
func compareLevels(a, b string) int {
	return slices.Compare(strings.Split(a, "/"), strings.Split(b, "/"))
}

func TestNamesAreOrderedLevelByLevel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		prefix := rapid.SampledFrom([]string{"", "0123456", "01234567", "012345678/"}).Draw(t, "prefix")
		a, b := prefix+drawName(t, "a"), prefix+drawName(t, "b")
		want := compareLevels(a, b)
		if got := compare(a, []byte(b)); sign(got) != want {
			t.Fatalf("compare(%q, %q) = %d, want %d", a, b, got, want)
		}
	})
}

func sign(n int) int { return max(-1, min(1, n)) }

// manyNames returns names of few levels, many enough to fill several runs. A seed
// stands for them, so that a failing case has one small cause.
func manyNames(t *rapid.T) []string {
	levels := []string{"", "a", "b", "aa", "a!", "a.", "$", "$SYS", "!", "0", "é", "日本", "status", "x"}
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	names := make([]string, rapid.SampledFrom([]int{0, 1, 30, 700}).Draw(t, "size"))
	for i := range names {
		parts := make([]string, 1+r.IntN(5))
		for j := range parts {
			parts[j] = levels[r.IntN(len(levels))]
		}
		names[i] = strings.Join(parts, "/")
		if names[i] == "" {
			names[i] = "a"
		}
	}
	return names
}

func TestValuesHoldWhatAMapHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var values Values[int]
		model := map[string]int{}
		names := append(manyNames(t), "a")
		set := func(name string, v int) {
			want, had := model[name]
			if old, replaced := values.Set(name, v); old != want || replaced != had {
				t.Fatalf("Set(%q) = %d, %v, want %d, %v", name, old, replaced, want, had)
			}
			model[name] = v
		}
		remove := func(name string) {
			want, had := model[name]
			if old, ok := values.Delete(name); old != want || ok != had {
				t.Fatalf("Delete(%q) = %d, %v, want %d, %v", name, old, ok, want, had)
			}
			delete(model, name)
		}
		if rapid.Bool().Draw(t, "in order") {
			slices.SortFunc(names, compareLevels)
		}
		for i, name := range names {
			set(name, i)
		}
		checkValues(t, &values, model)
		for i, name := range names {
			switch i % 4 {
			case 0:
				set(name, -i)
			default:
				remove(name)
			}
		}
		checkValues(t, &values, model)
		for _, name := range names {
			remove(name)
		}
		if len(values.runs) != 0 {
			t.Fatalf("everything removed, but %d runs are left", len(values.runs))
		}
	})
}

func checkValues(t *rapid.T, values *Values[int], model map[string]int) {
	if values.Len() != len(model) {
		t.Fatalf("Len %d, want %d", values.Len(), len(model))
	}
	for name, want := range model {
		if got, ok := values.Get(name); !ok || got != want {
			t.Fatalf("Get(%q) = %d, %v, want %d", name, got, ok, want)
		}
	}
	var all []string
	for _, ref := range values.runs {
		if len(ref.run.names) == 0 || len(ref.run.names) > runMax || ref.first != ref.run.names[0] || len(ref.run.names) != len(ref.run.values) {
			t.Fatalf("bad run %+v", ref)
		}
		all = append(all, ref.run.names...)
	}
	if want := slices.SortedFunc(maps.Keys(model), compareLevels); !slices.Equal(all, want) {
		t.Fatalf("order %q, want %q", all, want)
	}
}

func TestMemoryOfRunsIsGivenBack(t *testing.T) {
	var values Values[int]
	const n = 100_000
	for i := range n {
		values.Set(fmt.Sprint("a/", i), i)
	}
	for i := range n - 10 {
		values.Delete(fmt.Sprint("a/", i))
	}
	if len(values.runs) > 2 || cap(values.runs) > 200 {
		t.Errorf("10 values left in %d runs, room for %d", len(values.runs), cap(values.runs))
	}
}
