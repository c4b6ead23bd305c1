package conformance

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// statement is one numbered normative statement of a specification.
type statement struct {
	id   string // MQTT-3.8.3-4 or MQTT311-3.8.3-4
	side string // whom it binds: server, client or both
	says string // what it asks, in our words
	not  string // why it does not apply to emanet; empty if it does
	// like is the statement of 5.0 that asks the same of a server: code tagged
	// with that one keeps this one as well. Tests are not shared.
	like string
}

// specification is one version of MQTT: all statements of its appendix B.
type specification struct {
	name, prefix, file string
	// total is how many statements there are, holes the numbers that the
	// specification itself leaves out: both guard the list against a lost line.
	total int
	holes []string
}

var specifications = []specification{
	{name: "MQTT 5.0", prefix: "MQTT-", file: "statements-5.0.tsv", total: 251, holes: []string{"MQTT-2.2.1-1"}},
	{name: "MQTT 3.1.1", prefix: "MQTT311-", file: "statements-3.1.1.tsv", total: 141},
}

// root is the repository as seen from this package's folder.
const root = "../.."

func folder(name string) string { return filepath.Join(root, "docs", "conformance", name) }

func (s specification) load(t *testing.T) []statement {
	t.Helper()
	text, err := os.ReadFile(folder(s.file))
	if err != nil {
		t.Fatal(err)
	}
	statements, err := parseStatements(string(text), s.prefix)
	if err != nil {
		t.Fatalf("%s: %v", s.file, err)
	}
	return statements
}

// parseStatements reads lines of id, side, what it says, why it does not apply,
// and its like of 5.0, the last two often empty; the first line names the
// columns.
func parseStatements(text, prefix string) (out []statement, err error) {
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		fields := strings.Split(line, "\t")
		switch {
		case i == 0:
			continue
		case len(fields) < 3 || len(fields) > 5:
			return nil, fmt.Errorf("line %d has %d fields", i+1, len(fields))
		case !strings.HasPrefix(fields[0], prefix):
			return nil, fmt.Errorf("line %d: %s is not of this version", i+1, fields[0])
		case !slices.Contains([]string{"server", "client", "both"}, fields[1]):
			return nil, fmt.Errorf("line %d binds %q, which is nobody", i+1, fields[1])
		}
		s := statement{id: fields[0], side: fields[1], says: fields[2]}
		if len(fields) > 3 {
			s.not = fields[3]
		}
		if len(fields) > 4 {
			s.like = fields[4]
		}
		out = append(out, s)
	}
	return out, nil
}

// gaps lists the numbers that are missing between 1 and a section's last one,
// and those that come twice or out of order.
func gaps(statements []statement) (out []string) {
	last := map[string]int{}
	for _, s := range statements {
		cut := strings.LastIndexByte(s.id, '-')
		section, number := s.id[:cut], s.id[cut+1:]
		n, err := strconv.Atoi(number)
		if err != nil || n <= last[section] {
			out = append(out, s.id)
			continue
		}
		for missing := last[section] + 1; missing < n; missing++ {
			out = append(out, fmt.Sprintf("%s-%d", section, missing))
		}
		last[section] = n
	}
	return out
}

func TestTheListsOfStatementsAreWhole(t *testing.T) {
	t.Parallel()
	for _, spec := range specifications {
		statements := spec.load(t)
		if len(statements) != spec.total {
			t.Errorf("%s has %d statements, and %d are listed", spec.name, spec.total, len(statements))
		}
		if got := gaps(statements); !slices.Equal(got, spec.holes) {
			t.Errorf("%s: missing or out of order: %v, expected of the specification itself: %v", spec.name, got, spec.holes)
		}
	}
}

func TestAListWithALostLineIsNotWhole(t *testing.T) {
	t.Parallel()
	list := []statement{{id: "MQTT-3.1.0-1"}, {id: "MQTT-3.1.0-3"}, {id: "MQTT-3.1.2-1"}, {id: "MQTT-3.1.2-1"}}
	if got, want := gaps(list), []string{"MQTT-3.1.0-2", "MQTT-3.1.2-1"}; !slices.Equal(got, want) {
		t.Errorf("gaps %v, not %v", got, want)
	}
}
