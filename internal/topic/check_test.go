package topic

import (
	"strings"
	"testing"
)

// The same table judges names in both forms and filters: what a string is worth as
// one says little about the other.
func TestNamesAndFiltersAreJudgedAsTheSpecificationSays(t *testing.T) {
	levels := func(n int) string { return strings.Repeat("/", n-1) }
	for _, c := range []struct {
		topic        string
		name, filter error
	}{
		{"", ErrEmpty, ErrEmpty}, // [MQTT-4.7.3-1]
		{"/", nil, nil},
		{"//", nil, nil},
		{"a", nil, nil},
		{"/finance", nil, nil},
		{"Accounts payable", nil, nil},
		{"$SYS/uptime", nil, nil},
		{"\ufeffa/日本", nil, nil}, // a BOM is kept, [MQTT-1.5.4-3]
		{"\x01", nil, nil},

		{"+", ErrWildcard, nil}, // [MQTT-3.3.2-2]
		{"#", ErrWildcard, nil},
		{"+/+/#", ErrWildcard, nil},
		{"/+", ErrWildcard, nil},
		{"+/", ErrWildcard, nil},
		{"sport/tennis/#", ErrWildcard, nil},
		{"sport/tennis#", ErrWildcard, ErrHashNotLast}, // [MQTT-4.7.1-1]
		{"sport/tennis/#/ranking", ErrWildcard, ErrHashNotLast},
		{"#/", ErrWildcard, ErrHashNotLast},
		{"##", ErrWildcard, ErrHashNotLast},
		{"+#", ErrWildcard, ErrPlusNotAlone}, // [MQTT-4.7.1-2]
		{"sport+", ErrWildcard, ErrPlusNotAlone},
		{"+sport", ErrWildcard, ErrPlusNotAlone},
		{"a/++/b", ErrWildcard, ErrPlusNotAlone},
		{"a/+b/c", ErrWildcard, ErrPlusNotAlone},

		{"a\x00b", ErrNul, ErrNul}, // [MQTT-4.7.3-2]; a broker once acknowledged this filter
		{"+/\x00", ErrWildcard, ErrNul},
		{"a/\xff", ErrNotUTF8, ErrNotUTF8}, // [MQTT-1.5.4-1]
		{"a/\xc0\x80", ErrNotUTF8, ErrNotUTF8},
		{"a/\xed\xa0\x80", ErrNotUTF8, ErrNotUTF8}, // a surrogate

		{strings.Repeat("a", MaxBytes), nil, nil}, // [MQTT-4.7.3-3]
		{strings.Repeat("a", MaxBytes+1), ErrTooLong, ErrTooLong},
		{levels(MaxLevels), nil, nil},
		{levels(MaxLevels + 1), ErrTooManyLevels, ErrTooManyLevels},
	} {
		shown := c.topic[:min(len(c.topic), 40)]
		if got := CheckName(c.topic); got != c.name {
			t.Errorf("CheckName(%q) = %v, want %v", shown, got, c.name)
		}
		if got := CheckNameBytes([]byte(c.topic)); got != c.name {
			t.Errorf("CheckNameBytes(%q) = %v, want %v", shown, got, c.name)
		}
		if got := CheckFilter(c.topic); got != c.filter {
			t.Errorf("CheckFilter(%q) = %v, want %v", shown, got, c.filter)
		}
	}
}

func TestSharedSubscriptionsAreRecognisedAlsoWhenMalformed(t *testing.T) {
	for _, c := range []struct {
		filter, group, inner string
		shared               bool
		err                  error
	}{
		{"$share/consumers/sport/+", "consumers", "sport/+", true, nil},
		{"$share/g/#", "g", "#", true, nil},
		{"$share/g//", "g", "/", true, nil},
		{"$share/g/$share/h/a", "g", "$share/h/a", true, nil},
		{"$share//a", "", "", true, ErrNoShareName}, // [MQTT-4.8.2-1]
		{"$share/", "", "", true, ErrNoShareName},
		{"$share/+/a", "", "", true, ErrShareName}, // [MQTT-4.8.2-2]
		{"$share/g#/a", "", "", true, ErrShareName},
		{"$share/#", "", "", true, ErrShareName},
		{"$share/g", "", "", true, ErrNoShareFilter},
		{"$share/g/", "", "", true, ErrNoShareFilter},
		{"$share/g/a/#/b", "", "", true, ErrHashNotLast},
		{"$share/g\x00/a", "", "", true, ErrNul},
		{"$share/\xff/a", "", "", true, ErrNotUTF8},
		{"$share", "", "$share", false, nil},
		{"$shared/g/a", "", "$shared/g/a", false, nil},
		{"a/$share/g/b", "", "a/$share/g/b", false, nil},
		{"a/#/b", "", "a/#/b", false, nil}, // not its business
	} {
		group, inner, shared, err := ParseShared(c.filter)
		if group != c.group || inner != c.inner || shared != c.shared || err != c.err {
			t.Errorf("ParseShared(%q) = %q, %q, %v, %v, want %q, %q, %v, %v",
				c.filter, group, inner, shared, err, c.group, c.inner, c.shared, c.err)
		}
	}
}

func TestCheckingTopicsAllocatesNothing(t *testing.T) {
	name := []byte("plant/übersicht/line/7/temperature/very/long/so/that/no/small/buffer/serves")
	if n := testing.AllocsPerRun(100, func() { _ = CheckNameBytes(name) }); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}
