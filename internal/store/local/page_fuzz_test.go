package local

import (
	"bytes"
	"errors"
	"log/slog"
	"reflect"
	"testing"

	"github.com/ncruces/go-sqlite3"
	_ "github.com/ncruces/go-sqlite3/vfs/memdb"

	"emanet/internal/message"
	"emanet/internal/store"
)

func somePageEntries() []pageEntry {
	return []pageEntry{
		{seq: 5, message: 100}, {seq: 6, message: 101}, {seq: 9, message: 90, attr: 3, tag: []byte("t")},
		{seq: 10, message: 91, attr: 3, tag: []byte("t"), expiresAt: 7, deliveries: 2}, {seq: 11, message: 92, released: true},
	}
}

func TestAnEntryPageGivesBackItsEntries(t *testing.T) {
	var w entryWriter
	want := somePageEntries()
	for i := range want {
		w.add(&want[i])
	}
	got, err := decodeEntries(w.first, w.data)
	must(t, err)
	for i := range got {
		if len(got[i].tag) == 0 {
			got[i].tag = nil
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("got %+v, want %+v", got, want)
	}
}

func TestAnEntryOfAPlainStreamTakesOneByte(t *testing.T) {
	var w entryWriter
	for i := range uint64(256) {
		w.add(&pageEntry{seq: 1000 + i, message: 5000 + i, attr: 1})
	}
	if len(w.data) > 256+8 {
		t.Fatalf("256 entries take %d bytes", len(w.data))
	}
}

// FuzzEntryPage: whatever a page holds, reading it ends, without a panic, and what was read packs and reads again.
func FuzzEntryPage(f *testing.F) {
	var w entryWriter
	for _, e := range somePageEntries() {
		w.add(&e)
	}
	f.Add(w.first, w.data)
	f.Add(uint64(1), []byte{0xff, 0xff})
	f.Fuzz(func(t *testing.T, first uint64, data []byte) {
		entries, err := decodeEntries(first, data)
		if err != nil {
			if !errors.Is(err, store.ErrCorrupt) {
				t.Fatalf("%v, want ErrCorrupt", err)
			}
			return
		}
		if len(entries) > len(data) {
			t.Fatalf("%d entries in %d bytes", len(entries), len(data))
		}
		if len(entries) == 0 {
			return
		}
		var w entryWriter
		for i := range entries {
			w.add(&entries[i])
		}
		again, err := decodeEntries(w.first, w.data)
		if err != nil || len(again) != len(entries) {
			t.Fatalf("%+v became %+v, %v", entries, again, err)
		}
		for i := range again {
			again[i].tag, entries[i].tag = append([]byte{}, again[i].tag...), append([]byte{}, entries[i].tag...)
			if !reflect.DeepEqual(again[i], entries[i]) {
				t.Fatalf("%+v became %+v", entries[i], again[i])
			}
		}
	})
}

func FuzzMessagePage(f *testing.F) {
	var w messageWriter
	w.add(messageRef{7, 1, 3}, []byte("abc"))
	w.add(messageRef{9, 2, 0}, nil)
	f.Add(w.first, w.data, appendRefs(nil, w.first, w.refs))
	f.Add(uint64(0), []byte{0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}, []byte{1})
	f.Fuzz(func(t *testing.T, first uint64, data, refs []byte) {
		r := newMessageReader(first, data)
		size := 0
		for _, body, ok := r.next(); ok; _, body, ok = r.next() {
			if size += len(body) + 2; size > len(data) {
				t.Fatal("bodies longer than the page")
			}
		}
		if r.err != nil && !errors.Is(r.err, store.ErrCorrupt) {
			t.Fatalf("%v, want ErrCorrupt", r.err)
		}
		decoded, err := decodeRefs(nil, first, refs)
		if err != nil {
			return
		}
		again, err := decodeRefs(nil, first, appendRefs(nil, first, decoded))
		if err != nil || len(again) != len(decoded) || len(decoded) > 0 && !reflect.DeepEqual(again, decoded) {
			t.Fatalf("%v became %v, %v", decoded, again, err)
		}
	})
}

// FuzzProperties: what the column of a retained message says is read without a panic, and survives writing.
func FuzzProperties(f *testing.F) {
	f.Add(encodeProperties(&message.Properties{HasCorrelation: true, Correlation: []byte{1}, User: []message.Pair{{Key: "k", Value: "v"}}}))
	f.Add(encodeProperties(&message.Properties{User: []message.Pair{{Key: "\xff", Value: ""}}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := decodeProperties(b)
		if err != nil {
			return
		}
		again, err := decodeProperties(encodeProperties(p))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(again.Correlation, p.Correlation) || again.ContentType != p.ContentType || !reflect.DeepEqual(again.User, p.User) {
			t.Fatalf("%+v became %+v", p, again)
		}
	})
}

// FuzzNet: any record that decodes, in any state, folds without a panic: a fold stops for no record.
func FuzzNet(f *testing.F) {
	r := newRecorder()
	b := r.begin()
	var id uint64
	b.Message(&message.Message{Topic: "t"}, &id)
	b.Entry(1, &store.Entry{Seq: 1, MessageID: id})
	b.Settle(1, 0, store.SeqRange{From: 1, To: 1}, 1, 1)
	b.Release(1, 0, 1, 1)
	b.Commit()
	f.Add(r.records[0], r.records[0])
	conn, err := connect("/fuzz.db", "memdb", sqlite3.OPEN_READWRITE|sqlite3.OPEN_CREATE, 1<<20)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = disconnect(conn) })
	must(f, migrateSchema(conn, schemaMigrations))
	geo := defaultGeometry()
	geo.pageEntries = 4
	w, err := newWriter(conn, geo, slog.New(slog.DiscardHandler))
	must(f, err)
	f.Fuzz(func(t *testing.T, a, b []byte) {
		for i, record := range [][]byte{a, b} {
			n := newNet()
			if n.add(store.LSN(i+1), record) != nil {
				return
			}
			if _, err := w.write(n); err != nil {
				t.Fatal(err)
			}
		}
	})
}
