package conformance

import (
	"flag"
	"os"
	"slices"
	"testing"
)

var update = flag.Bool("update", false, "write docs/conformance/mqtt.md")

func TestTheTableFollowsFromTheTree(t *testing.T) {
	t.Parallel()
	lists := map[string][]statement{}
	for _, spec := range specifications {
		lists[spec.name] = spec.load(t)
	}
	want := table(lists, scanTree(t))
	if *update {
		if err := os.WriteFile(folder("mqtt.md"), []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(folder("mqtt.md"))
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Error("docs/conformance/mqtt.md is not what the tags say: run make conformance and commit the change")
	}
}

func TestEveryTagNamesAStatement(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, spec := range specifications {
		for _, s := range spec.load(t) {
			known[s.id] = true
		}
	}
	s := scanTree(t)
	for _, wrong := range s.wrong {
		t.Error(wrong)
	}
	for tag, f := range s.statements {
		if !known[tag] {
			t.Errorf("%s names no statement: %v", tag, slices.Concat(f.code, f.tests))
		}
	}
}

func TestEveryStatementOfTheServerThatAppliesHasATest(t *testing.T) {
	t.Parallel()
	s := scanTree(t)
	for _, spec := range specifications {
		for _, st := range spec.load(t) {
			if status(st, s.statements[st.id]) == untested {
				t.Errorf("%s has no test: %s", st.id, st.says)
			}
		}
	}
}

func TestEveryLikeIsAStatementOf50(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, s := range specifications[0].load(t) {
		known[s.id] = true
	}
	for _, s := range specifications[1].load(t) {
		if s.like != "" && !known[s.like] {
			t.Errorf("%s is said to be like %s, which is none", s.id, s.like)
		}
	}
}
