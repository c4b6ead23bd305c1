package auth

import (
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// verifierOf is the text of a verifier of the password.
func verifierOf(t testing.TB, password string) string {
	t.Helper()
	v, err := newSCRAM([]byte(password), scramIterations)
	if err != nil {
		t.Fatal(err)
	}
	return v.text()
}

// put writes a file of a test and gives its path.
func put(t testing.TB, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func open(t testing.TB, files Files) *Users {
	t.Helper()
	u, err := Open(files)
	if err != nil {
		t.Fatal(err)
	}
	return u
}
