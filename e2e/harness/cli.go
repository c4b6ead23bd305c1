package harness

import (
	"bytes"
	"errors"
	"os/exec"
	"strings"
	"testing"
)

// Emanet runs a subcommand of emanet with this on its standard input and gives its exit code and what it printed.
func Emanet(t testing.TB, input string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	bin, err := Binary()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bin, args...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &errs
	var exit *exec.ExitError
	if err := cmd.Run(); errors.As(err, &exit) {
		code = exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	return code, out.String(), errs.String()
}

// MustEmanet is Emanet for what has to succeed; it gives what was printed.
func MustEmanet(t testing.TB, input string, args ...string) string {
	t.Helper()
	code, out, errs := Emanet(t, input, args...)
	if code != 0 {
		t.Fatalf("emanet %s: exit code %d, saying %s", strings.Join(args, " "), code, errs)
	}
	return out
}
