package topic

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// The cursor against a scan with slowMatch, while the set changes between chunks
// and the walk is sometimes taken up again by its position or last name.
func TestACursorSeesWhatIsThereThroughoutExactlyOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var values Values[int]
		names := manyNames(t)
		throughout, ever := map[string]bool{}, map[string]bool{}
		for i, name := range names {
			if i%3 != 0 {
				values.Set(name, i)
				throughout[name], ever[name] = true, true
			}
		}
		filter := drawFilter(t, "filter")
		limit := rapid.SampledFrom([]int{1, 2, 7, 1000}).Draw(t, "limit")
		churn := rapid.Bool().Draw(t, "churn")
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "churn seed"), 0))

		seen := map[string]bool{}
		last := ""
		cursor := values.Walk(filter)
		for more := true; more; {
			var got []Value[int]
			got, more = cursor.Next(nil, limit)
			if len(got) > limit {
				t.Fatalf("%d values, limit %d", len(got), limit)
			}
			for _, v := range got {
				if !ever[v.Name] || !slowMatch(filter, v.Name) || seen[v.Name] || last != "" && compareLevels(last, v.Name) >= 0 {
					t.Fatalf("filter %q: %q after %q; seen before: %v", filter, v.Name, last, seen[v.Name])
				}
				seen[v.Name] = true
				last = v.Name
			}
			for i := 0; churn && i < 3; i++ {
				name := names[r.IntN(len(names)+1)%max(len(names), 1):]
				if len(name) == 0 {
					break
				}
				if r.IntN(2) == 0 {
					values.Set(name[0], 0)
					ever[name[0]] = true
				} else {
					values.Delete(name[0])
					delete(throughout, name[0])
				}
			}
			switch r.IntN(4) {
			case 0:
				cursor = values.WalkAfter(filter, cursor.Position())
			case 1:
				cursor = values.WalkAfter(filter, last)
			}
		}
		for name := range throughout {
			if slowMatch(filter, name) && !seen[name] {
				t.Fatalf("filter %q: %q was there throughout and not seen", filter, name)
			}
		}
	})
}

func walkAll(values *Values[int], filter string) (names []string, calls int) {
	cursor := values.Walk(filter)
	for more := true; more; calls++ {
		var got []Value[int]
		got, more = cursor.Next(nil, 1<<30)
		for _, v := range got {
			names = append(names, v.Name)
		}
	}
	return names, calls
}

// A broker once sent retained messages only to subscriptions without wildcards.
func TestRetainedValuesAreFoundByWildcards(t *testing.T) {
	var values Values[int]
	for i, name := range []string{"a", "a/", "a/b", "a/b/c", "a!", "b/b", "$SYS", "$SYS/b", "%", "/", "/b", "!"} {
		values.Set(name, i)
	}
	for filter, want := range map[string][]string{
		"#":        {"/", "/b", "!", "%", "a", "a/", "a/b", "a/b/c", "a!", "b/b"},
		"+/#":      {"/", "/b", "!", "%", "a", "a/", "a/b", "a/b/c", "a!", "b/b"},
		"+":        {"!", "%", "a", "a!"},
		"a/#":      {"a", "a/", "a/b", "a/b/c"},
		"a/+":      {"a/", "a/b"},
		"+/b":      {"/b", "a/b", "b/b"},
		"+/b/#":    {"/b", "a/b", "a/b/c", "b/b"},
		"+/+/c":    {"a/b/c"},
		"a":        {"a"},
		"a/b":      {"a/b"},
		"$SYS/#":   {"$SYS", "$SYS/b"}, // [MQTT-4.7.2-1] speaks of leading wildcards only
		"$SYS/+":   {"$SYS/b"},
		"none":     nil,
		"none/#":   nil,
		"a/b/c/+":  nil,
		"z/+/none": nil,
	} {
		if got, _ := walkAll(&values, filter); !slices.Equal(got, want) {
			t.Errorf("filter %q: %q, want %q", filter, got, want)
		}
	}
}

// 1,000 devices with 100 names each: a walk that looked at every name would need a
// hundred calls, since one looks at no more than cursorSteps.
func TestACursorStepsOverSubtreesThatCannotMatch(t *testing.T) {
	var values Values[int]
	for device := range 1000 {
		for i := range 99 {
			values.Set(fmt.Sprintf("device%d/reading/%d", device, i), i)
		}
		values.Set(fmt.Sprintf("device%d/status", device), device)
	}
	for filter, want := range map[string]struct{ matches, calls int }{
		"+/status":         {1000, 3},
		"+/reading/7":      {1000, 3},
		"+/none":           {0, 3},
		"+/+":              {1000, 3},
		"device77/#":       {100, 1},
		"device77/status":  {1, 1},
		"device77/+/+":     {99, 1},
		"device77/none/#":  {0, 1},
		"none/+/+":         {0, 1},
		"device999/+/98/#": {1, 1},
	} {
		got, calls := walkAll(&values, filter)
		if len(got) != want.matches || calls > want.calls {
			t.Errorf("filter %q: %d matches in %d calls, want %d in at most %d", filter, len(got), calls, want.matches, want.calls)
		}
	}
}

func TestACursorStepsOverHiddenNamesAtOnce(t *testing.T) {
	var values Values[int]
	values.Set("a", 0)
	for i := range 5 * cursorSteps {
		values.Set(fmt.Sprint("$SYS/", i), i)
	}
	for _, filter := range []string{"#", "+/#", "+"} {
		if got, calls := walkAll(&values, filter); len(got) != 1 || calls != 1 {
			t.Errorf("filter %q: %d matches in %d calls, want 1 in 1", filter, len(got), calls)
		}
	}
}

// The awkward positions are the deleted last name of a run, and of all runs.
func TestACursorGoesOnBehindANameThatWasDeleted(t *testing.T) {
	var values Values[int]
	const n = 5 * runMax
	for i := range n {
		values.Set(fmt.Sprintf("a/%04d", i), i)
	}
	for i := range n {
		name := fmt.Sprintf("a/%04d", i)
		values.Delete(name)
		cursor := values.WalkAfter("a/+", name)
		got, _ := cursor.Next(nil, 1)
		if want := i + 1; want < n && (len(got) != 1 || got[0].Value != want) || want == n && len(got) != 0 {
			t.Errorf("behind deleted %s: %v", name, got)
		}
		values.Set(name, i)
	}
}

func TestACursorWithoutRoomSaysOnlyWhetherThereIsMore(t *testing.T) {
	var values Values[int]
	cursor := values.Walk("#")
	if got, more := cursor.Next(nil, 0); len(got) != 0 || more {
		t.Errorf("empty set: %v, %v", got, more)
	}
	values.Set("a", 1)
	if got, more := cursor.Next(nil, 0); len(got) != 0 || !more {
		t.Errorf("a value not taken yet: %v, %v", got, more)
	}
	if got, more := cursor.Next(nil, 1); len(got) != 1 || more && cursor.Position() != "a" {
		t.Errorf("the value: %v, %v", got, more)
	}
}

func TestACursorOverAllSeesWhatNoWildcardMatches(t *testing.T) {
	var values Values[int]
	for _, name := range []string{"a", "$SYS/a", "$x", "a/b", "/"} {
		values.Set(name, 0)
	}
	cursor := values.All()
	got, more := cursor.Next(nil, 10)
	if len(got) != 5 || more {
		t.Fatalf("%d of 5 values, more: %v", len(got), more)
	}
}
