package local

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"emanet/internal/disk"
	"emanet/internal/store"
)

func TestADirectoryOfANewerFormatIsRefusedByName(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "format"), []byte("2\n"), 0o600))
	_, err := Open(dir, Options{})
	if !errors.Is(err, store.ErrFormat) || !strings.Contains(err.Error(), "format says 2") {
		t.Fatalf("%v, want ErrFormat with the number", err)
	}
}

func TestABrokerDBOfANewerSchemaIsRefusedByName(t *testing.T) {
	conn, err := connect(filepath.Join(t.TempDir(), "broker.db"), "", sqlite3.OPEN_READWRITE|sqlite3.OPEN_CREATE, 1<<20)
	must(t, err)
	defer disconnect(conn)
	must(t, conn.Exec(`PRAGMA user_version = 9`))
	if err := migrateSchema(conn, schemaMigrations); !errors.Is(err, store.ErrFormat) {
		t.Fatalf("%v, want ErrFormat", err)
	}
}

func TestADirectoryWithoutItsFormatIsNotTakenForANewOne(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "journal"), 0o700))
	if _, err := Open(dir, Options{}); !errors.Is(err, store.ErrCorrupt) {
		t.Fatalf("%v, want ErrCorrupt", err)
	}
}

func TestAFormatFileWithoutANumberIsDamage(t *testing.T) {
	for _, content := range []string{"", "x", "0", "1\nand more than fits into what is looked at"} {
		dir := t.TempDir()
		must(t, os.WriteFile(filepath.Join(dir, "format"), []byte(content), 0o600))
		if _, err := Open(dir, Options{}); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("%q: %v, want ErrCorrupt", content, err)
		}
	}
}

func TestAnOlderDirectoryIsMigratedStepByStep(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "format"), []byte("1\n"), 0o600))
	var ran []int
	fails := errors.New("the step from 2 fails")
	step := func(n int, err *error) migration {
		return func(_ disk.FS, got string) error {
			if got != dir {
				t.Errorf("step %d in %s", n, got)
			}
			ran = append(ran, n)
			return *err
		}
	}
	var none error
	steps := []migration{step(1, &none), step(2, &fails)}
	if err := openFormat(disk.OS(), dir, steps); !errors.Is(err, fails) {
		t.Fatalf("%v, want the step's error", err)
	}
	fails = nil
	must(t, openFormat(disk.OS(), dir, steps))
	must(t, openFormat(disk.OS(), dir, steps))
	if len(ran) != 3 || ran[0] != 1 || ran[1] != 2 || ran[2] != 2 {
		t.Fatalf("steps %v ran, want 1, then 2 again after its failure", ran)
	}
	if v, err := readFormat(disk.OS(), filepath.Join(dir, "format")); v != 3 || err != nil {
		t.Fatalf("format %d, %v, want 3", v, err)
	}
}

func TestAnOlderSchemaIsMigratedStepByStepOrNotAtAll(t *testing.T) {
	conn, err := connectWriter(filepath.Join(t.TempDir(), "broker.db"), "", 1<<20)
	must(t, err)
	defer disconnect(conn)
	must(t, migrateSchema(conn, schemaMigrations))
	next := append([]string{}, schemaMigrations...)
	next = append(next, `ALTER TABLE mailbox ADD COLUMN paused INTEGER; CREATE TABLE broken (`)
	if err := migrateSchema(conn, next); err == nil {
		t.Fatal("a broken step passed")
	}
	if v, err := userVersion(conn); v != 1 || err != nil {
		t.Fatalf("schema %d, %v, want 1", v, err)
	}
	next[1] = `ALTER TABLE mailbox ADD COLUMN paused INTEGER`
	must(t, migrateSchema(conn, next))
	must(t, conn.Exec(`INSERT INTO mailbox (id, next_seq, received, paused) VALUES (1, 1, x'', 1)`))
	if v, err := userVersion(conn); v != 2 || err != nil {
		t.Fatalf("schema %d, %v, want 2", v, err)
	}
}
