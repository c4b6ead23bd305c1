package topic

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func FuzzChecks(f *testing.F) {
	for _, c := range matchCases {
		f.Add(c.filter)
		f.Add(c.name)
	}
	f.Add("$share/g/a/+")
	f.Add("$share/g")
	f.Add("a\x00")
	f.Add("\xff/+")
	f.Fuzz(func(t *testing.T, s string) {
		name, filter := CheckName(s), CheckFilter(s)
		if CheckNameBytes([]byte(s)) != name {
			t.Errorf("%q: bytes and string disagree", s)
		}
		common := s != "" && len(s) <= MaxBytes && utf8.ValidString(s) && !strings.Contains(s, "\x00") &&
			strings.Count(s, "/") < MaxLevels
		if want := common && !strings.ContainsAny(s, "+#"); (name == nil) != want {
			t.Errorf("CheckName(%q) = %v, want good: %v", s, name, want)
		}
		levels := strings.Split(s, "/")
		for i, level := range levels {
			if strings.ContainsAny(level, "+#") && level != "+" && (level != "#" || i != len(levels)-1) {
				common = false
			}
		}
		if (filter == nil) != common {
			t.Errorf("CheckFilter(%q) = %v, want good: %v", s, filter, common)
		}

		group, inner, shared, err := ParseShared(s)
		switch {
		case shared != strings.HasPrefix(s, "$share/"):
			t.Errorf("ParseShared(%q): shared is %v", s, shared)
		case !shared && (inner != s || group != "" || err != nil):
			t.Errorf("ParseShared(%q) = %q, %q, %v", s, group, inner, err)
		case shared && err == nil && ("$share/"+group+"/"+inner != s || CheckFilter(inner) != nil || CheckName(group) != nil || strings.Contains(group, "/")):
			t.Errorf("ParseShared(%q) = %q, %q", s, group, inner)
		}
	})
}

// All ways to match agree, whatever else is in the trie and the set.
func FuzzMatch(f *testing.F) {
	for _, c := range matchCases {
		f.Add(c.filter, "a/+", c.name, "a/b")
		f.Add("a/#", c.filter, "a/b/c", c.name)
	}
	f.Fuzz(func(t *testing.T, filter, otherFilter, name, otherName string) {
		if CheckFilter(filter) != nil || CheckFilter(otherFilter) != nil || CheckName(name) != nil || CheckName(otherName) != nil {
			t.Skip()
		}
		want := slowMatch(filter, name)
		if got := Match(filter, name); got != want {
			t.Errorf("Match(%q, %q) = %v", filter, name, got)
		}

		var trie Trie[int, int]
		trie.Set(otherFilter, 1, 1)
		trie.Set(filter, 2, 2)
		trie.Set(otherFilter+"x", 3, 3) // need not be a filter: nothing may panic
		for range 2 {
			found := false
			subs, _ := trie.Match(nil, name)
			for _, s := range subs {
				found = found || s.Key == 2
			}
			if found != want {
				t.Errorf("trie: %q finds %q beside %q: %v", name, filter, otherFilter, found)
			}
			trie.Remove(otherFilter, 1)
		}

		var values Values[int]
		values.Set(otherName, 1)
		values.Set(name, 2)
		values.Set(name+"/x", 3)
		found := 0
		cursor := values.Walk(filter)
		for more := true; more; {
			var got []Value[int]
			if got, more = cursor.Next(nil, 1); len(got) == 1 && got[0].Name == name {
				found++
			}
		}
		if found > 1 || (found == 1) != want {
			t.Errorf("cursor: %q finds %q beside %q %d times", filter, name, otherName, found)
		}
	})
}
