package local

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/ncruces/go-sqlite3"

	"emanet/internal/disk"
	"emanet/internal/store"
)

// migration brings a directory from one format to the next. It must bear being run again, because a crash
// may come between it and the new number in the file format.
type migration func(fsys disk.FS, dir string) error

// migrations: the n-th leads from format n+1 to n+2. There is one format so far.
var migrations []migration

// openFormat makes sure that the directory has the current format, or gives it to a new one.
func openFormat(fsys disk.FS, dir string, steps []migration) error {
	current := len(steps) + 1
	path := filepath.Join(dir, "format")
	got, err := readFormat(fsys, path)
	if errors.Is(err, disk.ErrNotExist) {
		if err := refuseForeign(fsys, dir); err != nil {
			return err
		}
		return writeFormat(fsys, path, current)
	}
	if err != nil {
		return err
	}
	if got > current {
		return fmt.Errorf("%w: %s says %d, this emanet knows up to %d", store.ErrFormat, path, got, current)
	}
	for ; got < current; got++ {
		if err := steps[got-1](fsys, dir); err != nil {
			return fmt.Errorf("migrate from format %d to %d: %w", got, got+1, err)
		}
		if err := writeFormat(fsys, path, got+1); err != nil {
			return err
		}
	}
	return nil
}

// refuseForeign keeps a directory that lost its format from being taken for a new one.
func refuseForeign(fsys disk.FS, dir string) error {
	for _, name := range []string{"journal", "broker.db"} {
		_, err := fsys.Stat(filepath.Join(dir, name))
		if err == nil {
			return fmt.Errorf("%w: there is %s but no file format", store.ErrCorrupt, filepath.Join(dir, name))
		}
		if !errors.Is(err, disk.ErrNotExist) {
			return err
		}
	}
	return nil
}

// formatMax bounds the file: a number and a line end.
const formatMax = 32

func readFormat(fsys disk.FS, path string) (int, error) {
	f, err := fsys.OpenFile(path, disk.ReadOnly)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return 0, err
	}
	b := make([]byte, min(size, formatMax))
	if n, err := f.ReadAt(b, 0); n < len(b) {
		return 0, fmt.Errorf("read %s: %w", path, err)
	}
	v, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || v < 1 || size > formatMax {
		return 0, fmt.Errorf("%w: %s holds no format number", store.ErrCorrupt, path)
	}
	return v, nil
}

func writeFormat(fsys disk.FS, path string, v int) error {
	next := path + ".new"
	f, err := fsys.OpenFile(next, disk.Create)
	if err != nil {
		return err
	}
	err = f.Truncate(0)
	if err == nil {
		_, err = f.WriteAt([]byte(strconv.Itoa(v)+"\n"), 0)
	}
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", next, err)
	}
	if err := fsys.Rename(next, path); err != nil {
		return err
	}
	return fsys.SyncDir(filepath.Dir(path))
}

// schemaMigrations are SQL scripts: the n-th leads from schema n to n+1, the first makes a new file.
var schemaMigrations = []string{schemaSQL}

// migrateSchema brings broker.db to the current schema, each step in one transaction with its number.
func migrateSchema(conn *sqlite3.Conn, steps []string) error {
	version, err := userVersion(conn)
	if err != nil {
		return err
	}
	if version > len(steps) {
		return fmt.Errorf("%w: broker.db has schema %d, this emanet knows up to %d", store.ErrFormat, version, len(steps))
	}
	for ; version < len(steps); version++ {
		err := conn.Exec(fmt.Sprintf("BEGIN IMMEDIATE; %s; PRAGMA user_version = %d; COMMIT", steps[version], version+1))
		if err != nil {
			if !conn.GetAutocommit() {
				err = errors.Join(err, conn.Exec(`ROLLBACK`))
			}
			return fmt.Errorf("bring broker.db from schema %d to %d: %w", version, version+1, err)
		}
	}
	return nil
}

func userVersion(conn *sqlite3.Conn) (int, error) {
	s, err := prepare(conn, `PRAGMA user_version`)
	if err != nil {
		return 0, err
	}
	defer s.Close()
	v, err := number(s)
	return int(v), err
}

// Format tells the format of a data directory, 0 when it holds no data, and the newest that is known here, without
// changing anything. Its errors are those that Open would have.
func Format(dir string) (got, known int, err error) {
	known = len(migrations) + 1
	got, err = readFormat(disk.OS(), filepath.Join(dir, "format"))
	switch {
	case errors.Is(err, disk.ErrNotExist):
		return 0, known, refuseForeign(disk.OS(), dir)
	case err != nil:
		return 0, known, err
	case got > known:
		return got, known, fmt.Errorf("%w: it is %d, this emanet knows up to %d", store.ErrFormat, got, known)
	}
	return got, known, nil
}
