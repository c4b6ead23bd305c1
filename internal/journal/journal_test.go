package journal

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"go.uber.org/goleak"

	"emanet/internal/disk"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// small is a journal of four segments of 4 KiB, so that tests reach its edges at once.
func small() Options { return Options{SegmentBytes: 4096, Segments: 4} }

func mustOpen(t testing.TB, dir string, o Options) *Journal {
	t.Helper()
	j, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func mustStart(t testing.TB, dir string, o Options) *Journal {
	t.Helper()
	j := mustOpen(t, dir, o)
	if err := j.Start(0); err != nil {
		t.Fatal(err)
	}
	return j
}

func mustClose(t testing.TB, j *Journal) {
	t.Helper()
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

// appendRecord appends without waiting.
func appendRecord(j *Journal, c Class, payload []byte) (LSN, error) {
	buf, err := j.Begin(c, len(payload))
	if err != nil {
		return 0, err
	}
	return j.Commit(append(buf, payload...)), nil
}

// mustAppend appends and waits for the flush.
func mustAppend(t testing.TB, j *Journal, payload string) LSN {
	t.Helper()
	lsn, err := appendRecord(j, Control, []byte(payload))
	if err != nil {
		t.Fatal(err)
	}
	awaitFlush(j)
	return lsn
}

func awaitFlush(j *Journal) {
	done := make(chan struct{})
	if j.NotifyTail(&Waiter{F: func(LSN) { close(done) }}) {
		<-done
	}
}

type record struct {
	lsn     LSN
	payload string
}

func readAll(t testing.TB, j *Journal, after LSN) []record {
	t.Helper()
	records, err := tryReadAll(j, after)
	if err != nil {
		t.Fatal(err)
	}
	return records
}

func tryReadAll(j *Journal, after LSN) (records []record, err error) {
	r := j.NewReader(after)
	var c Chunk
	for {
		if c, err = r.Next(c.Buf(), 1000); err != nil {
			return records, err
		}
		if c.Len() == 0 {
			return records, nil
		}
		before := len(records)
		for lsn, payload := range c.All() {
			records = append(records, record{lsn, string(payload)})
		}
		if len(records)-before != c.Len() || records[len(records)-1].lsn > c.Last() {
			return records, fmt.Errorf("chunk of %d records up to %d yields %d up to %d", c.Len(), c.Last(), len(records)-before, records[len(records)-1].lsn)
		}
	}
}

func wantRecords(t testing.TB, got, want []record) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d records, want %d", len(got), len(want))
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("record %d is (%d, %.40q), want (%d, %.40q)", i, got[i].lsn, got[i].payload, want[i].lsn, want[i].payload)
		}
	}
}

func TestRecordsAreReadBackInOrderAlsoAfterAReopen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := mustStart(t, dir, small())
	var want []record
	for i := range 60 {
		payload := fmt.Sprint("record ", i, string(bytes.Repeat([]byte{'x'}, i)))
		want = append(want, record{mustAppend(t, j, payload), payload})
	}
	wantRecords(t, readAll(t, j, 0), want)
	wantRecords(t, readAll(t, j, want[30].lsn), want[31:])
	mustClose(t, j)

	j = mustOpen(t, dir, small())
	wantRecords(t, readAll(t, j, 0), want)
	if err := j.Start(0); err != nil {
		t.Fatal(err)
	}
	lsn := mustAppend(t, j, "after the reopen")
	if lsn <= want[59].lsn {
		t.Fatalf("LSN %d after the reopen is not above %d", lsn, want[59].lsn)
	}
	wantRecords(t, readAll(t, j, want[58].lsn), []record{want[59], {lsn, "after the reopen"}})
	mustClose(t, j)
}

func TestASecondJournalOnTheSameDirectoryIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := mustOpen(t, dir, small())
	if _, err := Open(dir, small()); !errors.Is(err, disk.ErrLocked) {
		t.Fatalf("second Open answers %v, want ErrLocked", err)
	}
	mustClose(t, j)
	mustClose(t, mustOpen(t, dir, small()))
}
