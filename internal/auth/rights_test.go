package auth

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"emanet/internal/topic"
)

// The property tests meet every filter and topic of a small world, so that
// brute force can say what is true. Filters have up to worldDepth levels, topics
// two more: beyond that nothing new can happen.
const worldDepth = 3

var worldLevels = []string{"a", "b", "", "$s"}

// worldTopics are all names of the world; "z" is a level that no filter names.
var worldTopics = func() []string {
	var all []string
	var grow func(levels []string)
	grow = func(levels []string) {
		if name := strings.Join(levels, "/"); name != "" {
			all = append(all, name)
		}
		if len(levels) == worldDepth+2 {
			return
		}
		for _, l := range append([]string{"z"}, worldLevels...) {
			grow(append(levels[:len(levels):len(levels)], l))
		}
	}
	grow(nil)
	return all
}()

var worldFilter = rapid.Custom(func(t *rapid.T) string {
	levels := rapid.SliceOfN(rapid.SampledFrom(append([]string{"+", "+"}, worldLevels...)), 0, worldDepth).Draw(t, "levels")
	if len(levels) == 0 || rapid.Bool().Draw(t, "open") {
		levels = append(levels, "#")
	}
	filter := strings.Join(levels, "/")
	if topic.CheckFilter(filter) != nil {
		return "+"
	}
	return filter
})

var worldRules = rapid.Custom(func(t *rapid.T) rules {
	var rs rules
	for range rapid.IntRange(0, 4).Draw(t, "rules") {
		rs = append(rs, newRule(worldFilter.Draw(t, "filter"), rapid.SampledFrom([]access{deny, read, write, readwrite}).Draw(t, "access")))
	}
	rs.order()
	return rs
})

func TestTwoFiltersMeetInTheFilterThatIntersectGives(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := worldFilter.Draw(t, "a"), worldFilter.Draw(t, "b")
		both, ok := intersect(a, b)
		if ok && topic.CheckFilter(both) != nil {
			t.Fatalf("%q and %q meet in %q, which is no filter", a, b, both)
		}
		for _, name := range worldTopics {
			want := topic.Match(a, name) && topic.Match(b, name)
			if got := ok && topic.Match(both, name); got != want {
				t.Fatalf("%q and %q meet in %q (%v), and about %q that says %v", a, b, both, ok, name, got)
			}
		}
	})
}

func TestAFilterMayBeSubscribedToExactlyIfSomeTopicOfItMayBeRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := &Rights{own: worldRules.Draw(t, "own"), patterns: worldRules.Draw(t, "patterns")}
		filter := worldFilter.Draw(t, "filter")
		some, all := false, true
		for _, name := range worldTopics {
			if topic.Match(filter, name) {
				some = some || r.MayRead(name)
				all = all && r.MayRead(name)
			}
		}
		if got := r.MayReadSome(filter); got != some {
			t.Errorf("some of %q may be read: %v, by brute force %v (own %v, patterns %v)", filter, got, some, r.own, r.patterns)
		}
		if got := r.MayReadAll(filter); got != all {
			t.Errorf("all of %q may be read: %v, by brute force %v (own %v, patterns %v)", filter, got, all, r.own, r.patterns)
		}
	})
}

func TestRulesAreAskedInMosquittosOrder(t *testing.T) {
	own := rules{newRule("a/#", readwrite), newRule("a/secret", deny), newRule("b", read)}
	patterns := rules{newRule("%u/%c/#", readwrite), newRule("all", read), newRule("a/b", deny), newRule("c/%c", deny)}
	own.order()
	patterns.order()
	r := newRights(own, patterns, "u1", "c1")
	for _, c := range []struct {
		name        string
		read, write bool
		why         string
	}{
		{"a/x", true, true, "a rule of the user's own"},
		{"a/secret", false, false, "a denial wins wherever it stands"},
		{"b", true, false, "read is not write"},
		{"a/b", true, true, "the user's own rules come before patterns that deny"},
		{"u1/c1/x", true, true, "a pattern about this client"},
		{"u2/c1/x", false, false, "a pattern about another user"},
		{"all", true, false, "a pattern about everybody"},
		{"d", false, false, "no rule is about it"},
		{"$SYS/x", false, false, "a wildcard is not about topics that begin with $ [MQTT-4.7.2-1]"},
	} {
		if got := r.MayRead(c.name); got != c.read {
			t.Errorf("%s: read %v; %s", c.name, got, c.why)
		}
		if got := r.MayWrite(c.name); got != c.write {
			t.Errorf("%s: write %v; %s", c.name, got, c.why)
		}
	}
}

func TestANameWithAWildcardInItGetsNothingByPatterns(t *testing.T) {
	patterns := rules{newRule("dev/%u/%c", readwrite), newRule("all", readwrite)}
	for _, name := range []string{"+", "#", "a+b"} {
		if newRights(nil, patterns, name, "c").MayRead("all") || newRights(nil, patterns, "u", name).MayRead("all") {
			t.Errorf("%q got rights by a pattern", name)
		}
	}
	if !newRights(nil, patterns, "u", "c").MayRead("all") {
		t.Error("others got none")
	}
}

func TestAPatternAboutTheUserSaysNothingToAnAnonymousClient(t *testing.T) {
	r := newRights(nil, rules{newRule("u/%u/#", readwrite), newRule("c/%c", readwrite)}, "", "c1")
	if r.MayRead("u//x") || r.MayRead("u/%u/x") {
		t.Error("it took the empty name for a user's")
	}
	if !r.MayRead("c/c1") {
		t.Error("a pattern about its client id was passed over")
	}
}

func TestWhatANameContainsIsNotReplacedAgain(t *testing.T) {
	if r := newRights(nil, rules{newRule("x/%u/%c", readwrite)}, "%c", "k"); !r.MayRead("x/%c/k") || r.MayRead("x/k/k") {
		t.Error("a percent sign in a user name was taken for a place to fill")
	}
}

func TestWithoutAnACLEverythingIsAllowed(t *testing.T) {
	var r *Rights
	if !r.MayRead("x") || !r.MayWrite("$SYS/x") || !r.MayReadSome("#") || !r.MayReadAll("#") {
		t.Error("a nil Rights refused something")
	}
}

func BenchmarkMayReadAmongAHundredRules(b *testing.B) {
	var rs rules
	for i := range 100 {
		rs = append(rs, newRule(fmt.Sprintf("site/%d/+/state", i), read))
	}
	r := &Rights{own: rs}
	b.ReportAllocs()
	for b.Loop() {
		r.MayRead("site/99/pump/state")
	}
}

func TestARuleIsAboutTheTopicsOfItsFilter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newRule(worldFilter.Draw(t, "filter"), read)
		for _, name := range worldTopics {
			if got, want := r.isAbout(name), topic.Match(r.filter, name); got != want {
				t.Fatalf("%q about %q: %v", r.filter, name, got)
			}
		}
	})
}
