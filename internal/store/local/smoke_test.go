package local_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"emanet/internal/journal"
	"emanet/internal/message"
	"emanet/internal/store"
	"emanet/internal/store/local"
)

func small() local.Options {
	return local.Options{
		Journal:  journal.Options{SegmentBytes: 256 << 10, Segments: 8},
		WALBytes: 256 << 10, BallastBytes: 64 << 10, FoldEvery: 20 * time.Millisecond,
	}
}

type state struct {
	records   map[string]string
	retained  map[string]*message.Message
	mailboxes map[uint64]store.MailboxState
}

func newState() *state {
	return &state{map[string]string{}, map[string]*message.Message{}, map[uint64]store.MailboxState{}}
}

func (s *state) Record(kind, key string, value []byte) error {
	s.records[kind+"/"+key] = string(value)
	return nil
}
func (s *state) Retained(m *message.Message) error  { s.retained[m.Topic] = m; return nil }
func (s *state) Mailbox(m store.MailboxState) error { s.mailboxes[m.ID] = m; return nil }

func open(t *testing.T, dir string) (*local.Store, *state) {
	t.Helper()
	s, err := local.Open(dir, small())
	if err != nil {
		t.Fatal(err)
	}
	st := newState()
	if err := s.Load(st); err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	return s, st
}

func TestSmoke(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s, _ := open(t, dir)
	b, err := s.Begin(store.Control, 1000)
	if err != nil {
		t.Fatal(err)
	}
	box := b.MailboxCreate()
	b.Put("session", "c", []byte(`{"mailbox":1}`))
	b.Commit()
	for i := range 1000 {
		b, err := s.Begin(store.Publish, 1000)
		if err != nil {
			t.Fatal(err)
		}
		m := &message.Message{Topic: "a/b", Payload: []byte(fmt.Sprint(i)), QoS: 1}
		var id uint64
		b.Message(m, &id)
		b.Entry(box, &store.Entry{Seq: uint64(i + 1), MessageID: id})
		b.Commit()
	}
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	es, err := s.ReadEntries(box, 0, 0, 1<<62, 2000)
	if err != nil || len(es) != 1000 {
		t.Fatal(len(es), err)
	}
	b, _ = s.Begin(store.Control, 1000)
	b.Settle(box, 0, store.SeqRange{From: 1, To: 500}, 500, 0)
	b.Commit()
	t.Log(s.Stats(), s.Alarms())
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, st := open(t, dir)
	t.Logf("%+v", st)
	t.Log(s.Stats(), s.Alarms())
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
