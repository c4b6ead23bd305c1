package conformance

import (
	"slices"
	"strings"
	"testing"
)

// A tree of two files: what the scan finds in it is what the table rests on.
var tree = map[string]string{
	"internal/thing/thing.go": `package thing
// Do keeps its word ([MQTT-1.0.0-1]).
func Do() {
	again() // [MQTT-1.0.0-2] [MQTT311-1.0.0-2]
}
func again() {}
`,
	"internal/thing/thing_test.go": `package thing
// [MQTT-1.0.0-1]
func TestDo(t *testing.T) { check() }
func TestNothing(t *testing.T) {}
func TestTable(t *testing.T) { for range cases {} }
func check() { deeper() }
func deeper() {} // [MQTT-1.0.0-2]
func unused() {} // [MQTT-1.0.0-3]
var cases = []string{
	"one", // [MQTT311-1.0.0-2]
}
func TestName_MQTT_1_0_0_4(t *testing.T) {}
// MQTT-1.0.0-4 and [MQTT3-1.0.0-4] and [MQTT-1-0.0-4]
`,
}

func TestTheScanFindsWhoKeepsAStatementAndWhoTestsIt(t *testing.T) {
	t.Parallel()
	s := &scan{statements: map[string]*found{}}
	if err := s.addPackage("internal/thing", tree); err != nil {
		t.Fatal(err)
	}
	s.sort()
	names := func(list []place) string {
		var out []string
		for _, p := range list {
			out = append(out, p.name)
		}
		return strings.Join(out, " ")
	}
	for _, want := range []struct{ tag, code, tests string }{
		{"MQTT-1.0.0-1", "Do", "TestDo"},
		{"MQTT-1.0.0-2", "Do", "TestDo"},
		{"MQTT311-1.0.0-2", "Do", "TestTable"},
	} {
		f := s.statements[want.tag]
		if f == nil || names(f.code) != want.code || names(f.tests) != want.tests {
			t.Errorf("%s: %+v", want.tag, f)
		}
	}
	if f := s.statements["MQTT-1.0.0-3"]; f != nil {
		t.Errorf("nobody uses it, yet %+v", f)
	}
	for _, meant := range []string{": MQTT-1.0.0-4 is", ": MQTT3-1.0.0-4 is", ": MQTT-1-0.0-4 is", ": _MQTT_1_0_0_4 is"} {
		if !slices.ContainsFunc(s.wrong, func(wrong string) bool { return strings.Contains(wrong, meant) }) {
			t.Errorf("%q is not among %q", meant, s.wrong)
		}
	}
}

func TestAStatementIsJudgedByWhomItBindsAndWhatTestsIt(t *testing.T) {
	t.Parallel()
	has := &found{tests: []place{{}}}
	for _, test := range []struct {
		statement
		found *found
		want  string
	}{
		{statement{side: "server"}, nil, untested},
		{statement{side: "both"}, &found{code: []place{{}}}, untested},
		{statement{side: "both"}, has, tested},
		{statement{side: "client"}, nil, clients},
		{statement{side: "client"}, has, breach},
		{statement{side: "server", not: "why"}, has, notApplies},
	} {
		if got := status(test.statement, test.found); got != test.want {
			t.Errorf("%+v with %+v is %q, not %q", test.statement, test.found, got, test.want)
		}
	}
}
