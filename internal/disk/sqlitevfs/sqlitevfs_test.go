package sqlitevfs

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"emanet/internal/disk"
	"emanet/internal/disk/powercut"
)

// views makes names unique: the registry is the process's.
var views int

// connect registers the view and opens n connections in WAL mode, every commit flushed.
func connect(t *testing.T, fsys disk.FS, path string, n int) []*sqlite3.Conn {
	t.Helper()
	views++
	name := "test" + strconv.Itoa(views)
	t.Cleanup(Register(name, fsys, t.TempDir()))
	conns := make([]*sqlite3.Conn, n)
	for i := range conns {
		c, err := sqlite3.Open("file:" + path + "?vfs=" + name)
		if err != nil {
			t.Fatal(err)
		}
		conns[i] = c
		mustExec(t, c, "PRAGMA journal_mode=WAL")
		mustExec(t, c, "PRAGMA synchronous=FULL")
	}
	return conns
}

func closeAll(conns []*sqlite3.Conn) {
	for _, c := range conns {
		_ = c.Close() // of a dead process: nothing it says matters
	}
}

func mustExec(t *testing.T, c *sqlite3.Conn, sql string) {
	t.Helper()
	if err := c.Exec(sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func mustInt(t *testing.T, c *sqlite3.Conn, sql string) int {
	t.Helper()
	s, _, err := c.Prepare(sql)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	defer s.Close()
	if !s.Step() {
		t.Fatalf("%s: no row: %v", sql, s.Err())
	}
	return s.ColumnInt(0)
}

func mustText(t *testing.T, c *sqlite3.Conn, sql string) string {
	t.Helper()
	s, _, err := c.Prepare(sql)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	defer s.Close()
	if !s.Step() {
		t.Fatalf("%s: no row: %v", sql, s.Err())
	}
	return s.ColumnText(0)
}

func TestSeveralConnectionsShareADatabaseInWALMode(t *testing.T) {
	for name, fsys := range map[string]disk.FS{"power-cut disk": powercut.New(1), "operating system": disk.OS()} {
		t.Run(name, func(t *testing.T) {
			path := t.TempDir() + "/x.db"
			if err := fsys.MkdirAll(path[:len(path)-len("/x.db")]); err != nil {
				t.Fatal(err)
			}
			conns := connect(t, fsys, path, 3)
			defer closeAll(conns)
			if mode := mustText(t, conns[1], "PRAGMA journal_mode"); mode != "wal" {
				t.Fatalf("journal mode is %s", mode)
			}
			mustExec(t, conns[0], "CREATE TABLE t(x)")
			mustExec(t, conns[1], "BEGIN; SELECT count(*) FROM t")
			mustExec(t, conns[0], "INSERT INTO t VALUES(1)")
			if n := mustInt(t, conns[1], "SELECT count(*) FROM t"); n != 0 {
				t.Fatalf("a snapshot sees %d rows written after it", n)
			}
			mustExec(t, conns[1], "COMMIT")
			if n := mustInt(t, conns[1], "SELECT count(*) FROM t"); n != 1 {
				t.Fatalf("the next snapshot sees %d rows", n)
			}
			mustExec(t, conns[0], "BEGIN IMMEDIATE")
			if err := conns[2].Exec("BEGIN IMMEDIATE"); !errors.Is(err, sqlite3.BUSY) {
				t.Fatalf("a second writer gets %v, want BUSY", err)
			}
			mustExec(t, conns[0], "COMMIT")
			mustExec(t, conns[2], "PRAGMA wal_checkpoint(TRUNCATE)")
		})
	}
}

func TestNoCommittedTransactionIsLostToPowerCutsAndKills(t *testing.T) {
	rounds := 60
	if s := os.Getenv("EMANET_TEST_POWERCUTS"); s != "" {
		rounds, _ = strconv.Atoi(s)
	}
	for seed := range rounds {
		fsys := powercut.New(uint64(seed))
		if err := fsys.MkdirAll("/d"); err != nil {
			t.Fatal(err)
		}
		if err := fsys.SyncDir("/"); err != nil {
			t.Fatal(err)
		}
		committed, tried := 0, 0 // rows: answered, and sent
		for life := range 4 {
			conns := connect(t, fsys, "/d/x.db", 2)
			c := conns[0]
			found := 0
			if life == 0 {
				mustExec(t, c, "CREATE TABLE t(x INTEGER PRIMARY KEY, pad)")
			} else {
				if check := mustText(t, c, "PRAGMA integrity_check"); check != "ok" {
					t.Fatalf("seed %d life %d: %s", seed, life, check)
				}
				// After a kill a row may be there that is not flushed: found, not committed.
				found = mustInt(t, c, "SELECT coalesce(max(x), 0) FROM t")
				if found < committed || found > tried {
					t.Fatalf("seed %d life %d: row %d is the last, %d was committed, %d tried", seed, life, found, committed, tried)
				}
				if n := mustInt(t, c, "SELECT count(*) FROM t"); n != found {
					t.Fatalf("seed %d life %d: %d rows up to %d", seed, life, n, found)
				}
			}
			fsys.CutAfter(5 + (seed*7+life*13)%60)
			for n := found + 1; ; n++ {
				tried = n
				if c.Exec(fmt.Sprintf("INSERT INTO t VALUES(%d, randomblob(700))", n)) != nil {
					break
				}
				committed = n
				if n%7 == 0 && conns[1].Exec("PRAGMA wal_checkpoint(PASSIVE)") != nil {
					break
				}
			}
			var next *powercut.FS
			if seed%3 == 0 && life%2 == 0 {
				next = fsys.Kill()
			} else {
				next = fsys.Cut()
			}
			closeAll(conns)
			fsys = next
		}
	}
}

func TestAFullDiskIsToldAsSuch(t *testing.T) {
	fsys := powercut.New(1)
	conns := connect(t, fsys, "/x.db", 1)
	defer closeAll(conns)
	mustExec(t, conns[0], "CREATE TABLE t(x)")
	fsys.SetQuota(100_000)
	err := conns[0].Exec("INSERT INTO t VALUES(zeroblob(200000))")
	if !errors.Is(err, sqlite3.FULL) {
		t.Fatalf("a write beyond the quota gets %v, want FULL", err)
	}
	fsys.SetQuota(0)
	mustExec(t, conns[0], "INSERT INTO t VALUES(1)")
}

func TestAFailedFlushFailsTheCommit(t *testing.T) {
	fsys := powercut.New(1)
	conns := connect(t, fsys, "/x.db", 1)
	defer closeAll(conns)
	mustExec(t, conns[0], "CREATE TABLE t(x)")
	boom := errors.New("boom")
	fsys.SetHook(func(op powercut.Op) error {
		if op.Kind == powercut.Sync {
			return boom
		}
		return nil
	})
	err := conns[0].Exec("INSERT INTO t VALUES(1)")
	if !errors.Is(err, sqlite3.IOERR_FSYNC) {
		t.Fatalf("the commit gets %v, want IOERR_FSYNC", err)
	}
	fsys.SetHook(nil)
}
