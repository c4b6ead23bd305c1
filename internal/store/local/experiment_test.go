package local

import (
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"

	"emanet/internal/message"
	"emanet/internal/store"
)

// recorder stands in for a journal: it keeps the records of the batches.
type recorder struct {
	batch   *store.Batch
	records [][]byte
	lsn     store.LSN
}

func newRecorder() *recorder {
	r := &recorder{}
	r.batch = store.NewBatch(r, 1, 1)
	return r
}

func (r *recorder) begin() *store.Batch { r.batch.Reset(nil, r.lsn+1); return r.batch }
func (r *recorder) Abort()              {}
func (r *recorder) Commit(buf []byte) store.LSN {
	r.records = append(r.records, buf)
	r.lsn++
	return r.lsn
}

// layouts are the page layouts that docs/adr/0001-packed-pages.md compares.
type layout struct {
	name    string
	geo     geometry
	sqlite  int    // page size
	replace string // of the entry_page table
	rows    bool
}

func geometryOf(entries int) geometry {
	g := defaultGeometry()
	g.pageEntries, g.pageBytes = entries, entries*256
	return g
}

const withoutRowid = `CREATE TABLE entry_page (
	id INTEGER, mailbox INTEGER NOT NULL, priority INTEGER NOT NULL, first_seq INTEGER NOT NULL, last_seq INTEGER NOT NULL,
	count INTEGER NOT NULL, data BLOB NOT NULL, PRIMARY KEY (mailbox, priority, first_seq)) WITHOUT ROWID;`

func layouts() []layout {
	var all []layout
	for _, entries := range []int{64, 256, 1024} {
		for _, page := range []int{4096, 8192, 16384} {
			all = append(all, layout{name: fmt.Sprintf("pages=%d/sqlite=%d", entries, page), geo: geometryOf(entries), sqlite: page})
		}
	}
	return append(all,
		layout{name: "pages=256/sqlite=8192/without-rowid", geo: geometryOf(256), sqlite: 8192, replace: withoutRowid},
		layout{name: "rows/sqlite=8192", geo: geometryOf(1), sqlite: 8192, rows: true},
		layout{name: "rows/sqlite=4096", geo: geometryOf(1), sqlite: 4096, rows: true})
}

func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func peakRSS() float64 {
	b, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			n, _ := strconv.Atoi(strings.Fields(rest)[0])
			return float64(n) / 1024
		}
	}
	return 0
}

// BenchmarkLayout folds b.N messages of 100 bytes for one mailbox in transactions of 100,000, reads them back and
// settles them all, without a journal. Run with -benchtime=1000000x.
func BenchmarkLayout(b *testing.B) {
	for _, l := range layouts() {
		b.Run(l.name, func(b *testing.B) { benchmarkLayout(b, l) })
	}
}

func benchmarkLayout(b *testing.B, l layout) {
	resetPeak()
	path := filepath.Join(b.TempDir(), "broker.db")
	conn, write := openLayout(b, path, l)
	defer disconnect(conn)
	const chunk = 100_000
	n := newNet()
	last := uint64(b.N)
	var fold, settle time.Duration
	for from := uint64(1); from <= last; from += chunk {
		n.reset()
		records := publishRecords(from, min(from+chunk-1, last))
		fold += takes(b, conn, n, records, write)
	}
	size := fileSize(path)
	paging := cpu()
	if read := page(b, path, conn, l.rows); read != b.N {
		b.Fatalf("read %d of %d", read, b.N)
	}
	paging = cpu() - paging
	for from := uint64(1); from <= last && l.replace == ""; from += chunk {
		n.reset()
		settle += takes(b, conn, n, settleRecords(from, min(from+chunk-1, last)), write)
	}
	per := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 / float64(b.N) }
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(per(fold), "us-fold/msg")
	b.ReportMetric(per(settle), "us-settle/msg")
	b.ReportMetric(float64(size)/float64(b.N), "B-file/msg")
	b.ReportMetric(peakRSS(), "MiB-peak")
	b.ReportMetric(per(paging), "us-page/msg")
}

// openLayout makes a database of a layout and gives what writes to it.
func openLayout(b *testing.B, path string, l layout) (*sqlite3.Conn, func(*net) error) {
	conn, err := connect(path, "", sqlite3.OPEN_READWRITE|sqlite3.OPEN_CREATE, foldCache)
	must(b, err)
	must(b, conn.Exec(fmt.Sprintf(`PRAGMA page_size=%d; PRAGMA auto_vacuum=INCREMENTAL; PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA wal_autocheckpoint=0`, l.sqlite)))
	schema := schemaSQL
	if l.replace != "" {
		from, to := strings.Index(schema, "CREATE TABLE entry_page"), strings.Index(schema, "-- Ranges that")
		schema = schema[:from] + l.replace + schema[to:]
	}
	must(b, conn.Exec(schema))
	if l.rows {
		return conn, rowsWriter(b, conn)
	}
	w, err := newWriter(conn, l.geo, slog.New(slog.DiscardHandler))
	must(b, err)
	return conn, func(n *net) error { _, err := w.write(n); return err }
}

// takes is the CPU time of netting records, writing the net effect and a checkpoint.
func takes(b *testing.B, conn *sqlite3.Conn, n *net, records [][]byte, write func(*net) error) time.Duration {
	start := cpu()
	for i, rec := range records {
		must(b, n.add(store.LSN(i+1), rec))
	}
	must(b, write(n))
	_, _, err := conn.WALCheckpoint("main", sqlite3.CHECKPOINT_PASSIVE)
	must(b, err)
	return cpu() - start
}

// publishRecords has a message and its entry in mailbox 1 in each record.
func publishRecords(from, to uint64) [][]byte {
	r := &recorder{}
	r.batch = store.NewBatch(r, from, 1)
	m := message.Message{Topic: "plant/7/temperature", Payload: make([]byte, 100), ReceivedAt: 1_790_000_000_000, QoS: 1}
	for seq := from; seq <= to; seq++ {
		batch := r.begin()
		var id uint64
		batch.Message(&m, &id)
		batch.Entry(1, &store.Entry{Seq: seq, Attr: 1, MessageID: id})
		batch.Commit()
	}
	return r.records
}

// settleRecords settles a hundred at a time.
func settleRecords(from, to uint64) [][]byte {
	r := newRecorder()
	for ; from <= to; from += 100 {
		end := min(from+99, to)
		batch := r.begin()
		batch.Settle(1, 0, store.SeqRange{From: from, To: end}, end-from+1, int64(end-from+1)*119)
		batch.Commit()
	}
	return r.records
}

// page reads the backlog back, 256 entries with their messages at a time.
func page(b *testing.B, path string, conn *sqlite3.Conn, rows bool) (read int) {
	if rows {
		s, err := prepare(conn, `SELECT e.seq, m.body FROM e JOIN m ON m.id = e.message WHERE mailbox = 1 AND priority = 0 AND seq > ? ORDER BY seq LIMIT 256`)
		must(b, err)
		after := uint64(0)
		for {
			n := 0
			more, err := s.row(after)
			for ; more; more, err = s.more() {
				_, derr := message.Decode(s.ColumnRawBlob(1))
				must(b, derr)
				after = s.uint(0)
				n++
			}
			must(b, err)
			s.done()
			if n == 0 {
				return read
			}
			read += n
		}
	}
	r, err := newReader(path, "")
	must(b, err)
	defer r.close()
	for after := uint64(0); ; {
		es, err := r.entries(1, 0, after, maxSeq, 256, math.MaxInt64)
		must(b, err)
		if len(es) == 0 {
			return read
		}
		read += len(es)
		after = es[len(es)-1].Seq
	}
}

// rowsWriter is the layout that lost: a row for each message and one for each entry.
func rowsWriter(b *testing.B, conn *sqlite3.Conn) func(*net) error {
	must(b, conn.Exec(`CREATE TABLE m (id INTEGER PRIMARY KEY, refs INTEGER, body BLOB);
		CREATE TABLE e (mailbox INTEGER, priority INTEGER, seq INTEGER, message INTEGER, attr INTEGER, PRIMARY KEY (mailbox, priority, seq)) WITHOUT ROWID`))
	prep := func(sql string) *statement { s, err := prepare(conn, sql); must(b, err); return s }
	begin, commit := prep(`BEGIN IMMEDIATE`), prep(`COMMIT`)
	msg, entry := prep(`INSERT INTO m VALUES (?, ?, ?)`), prep(`INSERT INTO e VALUES (?, ?, ?, ?, ?)`)
	drop := prep(`DELETE FROM e WHERE mailbox = ? AND priority = ? AND seq BETWEEN ? AND ? RETURNING message`)
	unref, gone := prep(`UPDATE m SET refs = refs - 1 WHERE id = ?`), prep(`DELETE FROM m WHERE id = ? AND refs = 0`)
	return func(n *net) error {
		must(b, begin.exec())
		for i := range n.messages {
			must(b, msg.exec(n.messages[i].id, n.messages[i].refs, n.messages[i].body))
		}
		for _, m := range n.sortedMailboxes() {
			for _, l := range m.lanes {
				for i := range l.entries {
					e := &l.entries[i]
					must(b, entry.exec(m.id, int(l.priority), e.seq, e.message, int(e.attr)))
				}
				for _, r := range l.settledRanges() {
					var ids []uint64
					ok, err := drop.row(m.id, int(l.priority), r.From, r.To)
					for ; ok; ok, err = drop.more() {
						ids = append(ids, drop.uint(0))
					}
					must(b, err)
					drop.done()
					for _, id := range ids {
						must(b, unref.exec(id))
						must(b, gone.exec(id))
					}
				}
			}
		}
		return commit.exec()
	}
}

func fileSize(path string) int64 {
	st, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return st.Size()
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
