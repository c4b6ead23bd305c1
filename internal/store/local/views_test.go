package local_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"emanet/internal/message"
	"emanet/internal/store"
	"emanet/internal/store/local"
)

// TestPeopleReadTheLiveFileWithSQLite: the views show plain columns while the store runs.
func TestPeopleReadTheLiveFileWithSQLite(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	s, err := local.Open(dir, small())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Load(&boxes{}); err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	b, err := s.Begin(store.Publish, 4096)
	if err != nil {
		t.Fatal(err)
	}
	box := b.MailboxCreate()
	b.Put("session", "probe", []byte(`{"mailbox":1,"expiry":3600,"attached":true}`))
	b.Put("sub", "probe\x00plant/+", []byte(`{"client":"probe","filter":"plant/+","qos":1,"rh":2}`))
	b.Put("will", "probe", []byte(`{"client":"probe"}`))
	m := &message.Message{Topic: "plant/7", Payload: []byte("hot"), QoS: 1, Properties: &message.Properties{HasContentType: true, ContentType: "text/plain"}}
	var id uint64
	b.Message(m, &id)
	b.Entry(box, &store.Entry{Seq: 1, MessageID: id})
	b.Retain(m, true)
	b.Commit()
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ sql, want string }{
		{`SELECT client, attached, expiry_seconds, mailbox, pending, pending_bytes FROM sessions`, "probe|1|3600|1|1|10"},
		{`SELECT client, filter, qos, retain_handling FROM subscriptions`, "probe|plant/+|1|2"},
		{`SELECT client FROM wills`, "probe"},
		{`SELECT id, next_seq, pending FROM mailboxes`, "1|2|1"},
		{`SELECT topic, CAST(payload AS TEXT), qos, properties FROM retained`, `plant/7|hot|1|{"content_type":"text/plain"}`},
		{`SELECT sessions, subscriptions, retained, pending FROM counters`, "1|1|1|1"},
	} {
		if got := query(t, filepath.Join(dir, "broker.db"), c.sql); got != c.want {
			t.Errorf("%s: %q, want %q", c.sql, got, c.want)
		}
		if shell, err := exec.LookPath("sqlite3"); err == nil {
			out, err := exec.Command(shell, "-readonly", filepath.Join(dir, "broker.db"), c.sql).CombinedOutput()
			if got := strings.TrimSpace(string(out)); err != nil || got != c.want {
				t.Errorf("sqlite3 -readonly: %s: %q, %v, want %q", c.sql, got, err, c.want)
			}
		}
	}
}

// query gives the rows as the sqlite3 shell does.
func query(t *testing.T, path, sql string) string {
	t.Helper()
	conn, err := sqlite3.OpenFlags("file:"+path, sqlite3.OPEN_READONLY|sqlite3.OPEN_URI)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	stmt, _, err := conn.Prepare(sql)
	if err != nil {
		t.Fatal(err)
	}
	defer stmt.Close()
	var rows []string
	for stmt.Step() {
		var row []string
		for i := range stmt.ColumnCount() {
			row = append(row, stmt.ColumnText(i))
		}
		rows = append(rows, strings.Join(row, "|"))
	}
	if err := stmt.Err(); err != nil {
		t.Fatal(err)
	}
	return strings.Join(rows, "\n")
}
