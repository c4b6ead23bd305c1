package local

import (
	_ "embed"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/ncruces/go-sqlite3"

	"emanet/internal/store"
)

//go:embed schema.sql
var schemaSQL string

// sqlitePage is the size of a page in broker.db: a packed page spans several either way, and fewer larger
// ones cost less (docs/adr/0001-packed-pages.md).
const sqlitePage = 8192

// busyTimeout bounds how long a connection waits for another: ours never meet for long, but people open
// the live file with tools of theirs.
const busyTimeout = 5 * time.Second

// connect opens broker.db. vfs is empty for the operating system's files.
func connect(path, vfs string, flags sqlite3.OpenFlag, cacheBytes int) (*sqlite3.Conn, error) {
	uri := url.URL{Scheme: "file", OmitHost: true, Path: path}
	if vfs != "" {
		uri.RawQuery = url.Values{"vfs": {vfs}}.Encode()
	}
	conn, err := sqlite3.OpenFlags(uri.String(), flags|sqlite3.OPEN_URI)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	err = errors.Join(
		conn.BusyTimeout(busyTimeout),
		conn.Exec(fmt.Sprintf(`PRAGMA cache_size = -%d; PRAGMA temp_store = MEMORY; PRAGMA trusted_schema = OFF`, cacheBytes>>10)),
	)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("set up %s: %w", path, err), conn.Close())
	}
	return conn, nil
}

// connectWriter opens broker.db for the fold and brings it to the state in which everything else finds it.
func connectWriter(path, vfs string, cacheBytes int) (*sqlite3.Conn, error) {
	conn, err := connect(path, vfs, sqlite3.OPEN_READWRITE|sqlite3.OPEN_CREATE, cacheBytes)
	if err != nil {
		return nil, err
	}
	// auto_vacuum and page_size count only before the first table. synchronous=FULL is what makes a commit
	// flush in this driver: without it there is no flush at all in WAL mode (measured).
	err = conn.Exec(fmt.Sprintf(`PRAGMA page_size = %d; PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL;
		PRAGMA synchronous = FULL; PRAGMA secure_delete = OFF; PRAGMA wal_autocheckpoint = 0; PRAGMA journal_size_limit = -1`, sqlitePage))
	if err == nil {
		_, err = conn.FileControl("main", sqlite3.FCNTL_PERSIST_WAL, true)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("set up %s: %w", path, err), conn.Close())
	}
	return conn, nil
}

// disconnect closes a connection with the statements that were prepared on it.
func disconnect(conn *sqlite3.Conn) error {
	for _, s := range slices.Collect(conn.Stmts()) { // closing one takes it off the list
		_ = s.Close() // repeats the error of its last run
	}
	return conn.Close()
}

// database is broker.db with the connection that alone writes it.
type database struct {
	opt    Options
	path   string
	conn   *sqlite3.Conn
	writer *writer

	folded                   store.LSN // as found
	nextMessage, nextMailbox uint64    // as found
	// checkpointed: one checkpoint since the start took everything.
	checkpointed bool
	walBytes     int64 // in the WAL and not known to be in broker.db
	roomy        bool  // WAL and ballast have their size

	freePages, allPages *statement
}

// foldCache is SQLite's page cache of the connection that folds.
const foldCache = 4 << 20

func openDatabase(path string, opt Options) (*database, error) {
	conn, err := connectWriter(path, opt.VFS, foldCache)
	if err != nil {
		return nil, err
	}
	d := &database{opt: opt, path: path, conn: conn}
	if err := d.open(); err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", path, err), disconnect(conn))
	}
	return d, nil
}

func (d *database) open() error {
	if err := migrateSchema(d.conn, schemaMigrations); err != nil {
		return err
	}
	// Not the writer's setting alone: it also tells how much of the WAL is in use.
	d.conn.WALHook(func(_ *sqlite3.Conn, _ string, pages int) error {
		d.walBytes = int64(pages) * (sqlitePage + walFrameHeader)
		return nil
	})
	var err error
	if d.writer, err = newWriter(d.conn, d.opt.geometry, d.opt.Logger); err != nil {
		return err
	}
	d.writer.beforeCommit = d.extend
	if d.freePages, err = prepare(d.conn, `PRAGMA freelist_count`); err != nil {
		return err
	}
	if d.allPages, err = prepare(d.conn, `PRAGMA page_count`); err != nil {
		return err
	}
	if err := d.conn.BusyTimeout(restartTimeout); err != nil {
		return err
	}
	if err := d.readMeta(); err != nil {
		return err
	}
	d.roomy, err = d.hasRoom()
	return err
}

// restartTimeout is how long a checkpoint waits for readers before the fold goes on with a longer WAL.
const restartTimeout = 200 * time.Millisecond

// walFrameHeader is what the WAL adds to a page.
const walFrameHeader = 24

func (d *database) readMeta() error {
	s, err := prepare(d.conn, `SELECT key, value FROM meta`)
	if err != nil {
		return err
	}
	defer s.Close()
	more, err := s.row()
	for ; more; more, err = s.more() {
		switch s.ColumnText(0) {
		case metaFolded:
			d.folded = store.LSN(s.uint(1))
		case metaNextMessage:
			d.nextMessage = s.uint(1)
		case metaNextMailbox:
			d.nextMailbox = s.uint(1)
		}
	}
	return err
}

func (d *database) close() error {
	if d == nil {
		return nil
	}
	return disconnect(d.conn)
}
