package topic

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// slowMatch says what a filter means in the fewest words: lists of levels. It is
// what Match, Trie and Cursor are compared with.
func slowMatch(filter, name string) bool {
	if strings.HasPrefix(name, "$") && (strings.HasPrefix(filter, "+") || strings.HasPrefix(filter, "#")) {
		return false
	}
	return slowLevels(strings.Split(filter, "/"), strings.Split(name, "/"))
}

func slowLevels(filter, name []string) bool {
	if len(filter) == 0 {
		return len(name) == 0
	}
	if filter[0] == "#" {
		return true
	}
	return len(name) > 0 && (filter[0] == "+" || filter[0] == name[0]) && slowLevels(filter[1:], name[1:])
}

var matchCases = []struct {
	filter, name string
	want         bool
}{
	// The examples of MQTT 5.0 section 4.7.
	{"sport/tennis/player1/#", "sport/tennis/player1", true},
	{"sport/tennis/player1/#", "sport/tennis/player1/ranking", true},
	{"sport/tennis/player1/#", "sport/tennis/player1/score/wimbledon", true},
	{"sport/#", "sport", true},
	{"sport/tennis/+", "sport/tennis/player1", true},
	{"sport/tennis/+", "sport/tennis/player1/ranking", false},
	{"sport/+", "sport", false},
	{"sport/+", "sport/", true},
	{"+/+", "/finance", true},
	{"/+", "/finance", true},
	{"+", "/finance", false},
	{"ACCOUNTS", "Accounts", false},

	// Empty levels are levels.
	{"a", "a/", false},
	{"a/", "a", false},
	{"/", "/", true},
	{"+", "", true},
	{"+/+", "/", true},
	{"+/+/+", "//", true},
	{"/#", "/", true},
	{"/#", "a", false},
	{"a//b", "a/x/b", false},
	{"a/+/b", "a//b", true},
	{"a/#", "ab", false},
	{"a/+/#", "a", false},
	{"a/+/#", "a/b", true},

	// Brokers have sent $SYS to `#` and `+/#`. [MQTT-4.7.2-1]
	{"#", "$SYS/uptime", false},
	{"+/#", "$SYS/uptime", false},
	{"+/uptime", "$SYS/uptime", false},
	{"+", "$SYS", false},
	{"$SYS/#", "$SYS/uptime", true},
	{"$SYS/+", "$SYS/uptime", true},
	{"$SYS/#", "$SYS", true},
	{"#", "a/$SYS", true},
	{"a/+", "a/$SYS", true},
}

func TestMatchFollowsTheExamplesOfTheSpecification(t *testing.T) {
	for _, c := range matchCases {
		if got := Match(c.filter, c.name); got != c.want {
			t.Errorf("Match(%q, %q) = %v, want %v", c.filter, c.name, got, c.want)
		}
		if got := slowMatch(c.filter, c.name); got != c.want {
			t.Errorf("slowMatch(%q, %q) = %v, want %v", c.filter, c.name, got, c.want)
		}
	}
}

func TestMatchMeansWhatListsOfLevelsMean(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		filter, name := drawFilter(t, "filter"), drawName(t, "name")
		if got, want := Match(filter, name), slowMatch(filter, name); got != want {
			t.Fatalf("Match(%q, %q) = %v, want %v", filter, name, got, want)
		}
	})
}

// Levels chosen to be mistaken for each other: prefixes, bytes on both sides of '/'
// in byte order, '$' in every place, empty, more than one byte a letter.
var literalLevel = rapid.SampledFrom([]string{
	"", "a", "b", "aa", "ab", "a!", "a.", "a0", "$", "$SYS", "a$", "!", ".", "0", "\x01", "é", "日本", "\U0010ffff",
	"%", "c", "d",
})

func drawName(t *rapid.T, label string) string {
	name := strings.Join(rapid.SliceOfN(literalLevel, 1, 5).Draw(t, label), "/")
	if name == "" {
		return "a"
	}
	return name
}

func drawFilter(t *rapid.T, label string) string {
	level := rapid.OneOf(literalLevel, literalLevel, rapid.Just("+"))
	levels := rapid.SliceOfN(level, 0, 5).Draw(t, label)
	if len(levels) == 0 || rapid.Bool().Draw(t, label+" ends in #") {
		levels = append(slices.Clone(levels), "#")
	}
	filter := strings.Join(levels, "/")
	if filter == "" {
		return "+"
	}
	if err := CheckFilter(filter); err != nil {
		t.Fatalf("drew a bad filter %q: %v", filter, err)
	}
	return filter
}
