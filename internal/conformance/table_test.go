package conformance

import (
	"fmt"
	"strings"
)

// What the table says of a statement.
const (
	tested     = "tested"
	breach     = "client's duty; the server's part in it is tested"
	clients    = "client's duty"
	notApplies = "does not apply"
	untested   = "**untested**"
)

// status judges one statement. A duty of clients alone needs no test of ours;
// where there is one, it shows what the server does to who neglects it.
func status(s statement, f *found) string {
	has := f != nil && len(f.tests) > 0
	switch {
	case s.not != "":
		return notApplies
	case s.side == "client" && has:
		return breach
	case s.side == "client":
		return clients
	case has:
		return tested
	}
	return untested
}

const head = `# MQTT conformance

<!-- Written by "make conformance" from the clause tags in the tree: edit the tags, or the lists of statements beside
this file, and write it again. -->

Every normative statement of MQTT 5.0 and of MQTT 3.1.1 (appendix B of each), what it asks in our words, the code that
keeps it and the tests that would fail if the server broke it.

%s
**How it is made.** The lists of statements are [statements-5.0.tsv](statements-5.0.tsv) and
[statements-3.1.1.tsv](statements-3.1.1.tsv). Everything else is read from the Go files: a tag such as
` + "`[MQTT-3.8.3-4]`" + ` (5.0) or ` + "`[MQTT311-3.8.3-4]`" + ` (3.1.1, whose numbers differ) at a line of code, or in a test or in what a test
uses. CI fails when this file does not follow from the tree, when a tag names no statement, and when a statement that
binds the server and applies has no test.

Code that serves both versions is often tagged for 5.0 only; it stands in the table of 3.1.1 as well where the two ask the
same. Tests are never shared in this way.

**What "tested" means.** At least one test says, by the tag, that it fails when the server breaks the statement. Tests of
package e2e talk to a real broker process over TCP; the others run inside one process. A statement may have several
sides, and the tag does not say that every one of them is tested. *Client's duty* binds clients only; where the server
can see it neglected, or makes it possible, a test shows what it does. *Does not apply* has its reason in the table. All
of it is about the default flags: one that departs from a statement says so in its help, as ` + "`--mqtt-min-keep-alive`" + ` does.

`

// table writes the document.
func table(lists map[string][]statement, s *scan) string {
	var summary, body strings.Builder
	summary.WriteString("| | statements | tested | client's duty | of these, the server's part tested | does not apply | untested |\n")
	summary.WriteString("| --- | --- | --- | --- | --- | --- | --- |\n")
	for _, spec := range specifications {
		count := map[string]int{}
		fmt.Fprintf(&body, "## %s\n\n| statement | asks | code | tests | status |\n| --- | --- | --- | --- | --- |\n", spec.name)
		for _, st := range lists[spec.name] {
			f := s.statements[st.id]
			verdict := status(st, f)
			count[verdict]++
			if st.not != "" {
				verdict += ": " + st.not
			}
			var code, tests []place
			if f != nil {
				code, tests = f.code, f.tests
			}
			if like := s.statements[st.like]; like != nil {
				code = merge(code, like.code)
			}
			fmt.Fprintf(&body, "| %s | %s | %s | %s | %s |\n", st.id, strings.ReplaceAll(st.says, "|", "\\|"), places(code), places(tests), verdict)
		}
		body.WriteByte('\n')
		fmt.Fprintf(&summary, "| %s | %d | %d | %d | %d | %d | %d |\n", spec.name, len(lists[spec.name]), count[tested],
			count[clients]+count[breach], count[breach], count[notApplies], count[untested])
	}
	return fmt.Sprintf(head, summary.String()) + strings.TrimSuffix(body.String(), "\n")
}

// places names declarations without their lines, so that the table changes only
// when they do.
func places(list []place) string {
	var out []string
	pkg := ""
	for _, p := range list {
		if name := strings.TrimPrefix(p.pkg, "internal/"); name != pkg {
			pkg = name
			out = append(out, pkg+": "+p.name)
		} else {
			out[len(out)-1] += ", " + p.name
		}
	}
	return strings.Join(out, "<br>")
}
