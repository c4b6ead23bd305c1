package app

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"emanet/internal/doctor"
)

func TestADirectoryOfANewerEmanetIsAProblem(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]doctor.Level{"1\n": doctor.OK, "999\n": doctor.Problem, "what\n": doctor.Problem} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "format"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		err := Doctor(Need{Dir: dir}, &out, true)
		if (want == doctor.Problem) != errors.Is(err, ErrUnfit) {
			t.Errorf("format %q: %v", text, err)
		}
		var report struct {
			Fit      bool
			Findings []doctor.Finding
		}
		if err := json.Unmarshal(out.Bytes(), &report); err != nil {
			t.Fatalf("%v in %s", err, &out)
		}
		last := report.Findings[len(report.Findings)-1]
		if report.Fit != (want == doctor.OK) || last.Check != "format" || last.Level != want {
			t.Errorf("format %q: fit is %v, %+v", text, report.Fit, last)
		}
	}
}

func TestAFileIsNoDataDirectoryAndNothingElseIsSaidOfIt(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := Doctor(Need{Dir: name}, &out, false); !errors.Is(err, ErrUnfit) || strings.Count(out.String(), "problem") != 1 {
		t.Errorf("%v:\n%s", err, &out)
	}
	var usage UsageError
	if err := Doctor(Need{}, &out, false); !errors.As(err, &usage) {
		t.Errorf("no name: %v", err)
	}
}

func TestAFindingIsALineAndWhatToChangeTheNext(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	err := show([]doctor.Finding{
		{Check: "clock", Level: doctor.OK, Found: "it is right", Change: "nothing"},
		{Check: "files", Level: doctor.Warning, Found: "too few", Change: "more"},
	}, true, &out, false)
	want := "ok       clock  it is right\nwarning  files  too few\n                -> more\n"
	if err != nil || out.String() != want {
		t.Errorf("%v:\n%s", err, strings.ReplaceAll(out.String(), " ", "·"))
	}
}
