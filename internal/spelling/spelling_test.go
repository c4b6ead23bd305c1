package spelling

import (
	"strings"
	"testing"
)

func TestTheNearestNameIsFound(t *testing.T) {
	known := []string{"password", "tags", "topics", "vhosts"}
	for name, want := range map[string]string{
		"pasword": "password", "tag": "tags", "topic": "topics", "vhost": "vhosts", "passwords": "password",
		strings.Repeat("x", 1000): "password", // as far from all
	} {
		if got := Nearest(name, known); got != want {
			t.Errorf("%.20q is nearest to %q, not to %q", name, want, got)
		}
	}
	if got := Nearest("x", nil); got != "" {
		t.Errorf("nothing is known, and %q was found", got)
	}
}

func TestTheDistanceCountsSingleEdits(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "", 1}, {"mqtt", "mqt", 1}, {"kitten", "sitting", 3}, {"ab", "ba", 2}} {
		if got := distance(test.a, test.b); got != test.want {
			t.Errorf("distance of %q and %q is %d, want %d", test.a, test.b, got, test.want)
		}
	}
}
