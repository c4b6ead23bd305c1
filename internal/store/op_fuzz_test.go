package store_test

import (
	"errors"
	"testing"

	"emanet/internal/message"
	"emanet/internal/store"
)

// recorder is an engine that only keeps the last record.
type recorder struct{ record []byte }

func (r *recorder) Commit(buf []byte) store.LSN { r.record = buf; return 1 }
func (r *recorder) Abort()                      { r.record = nil }

// everyOperation is a record with one of each.
func everyOperation() []byte {
	r := &recorder{}
	b := store.NewBatch(r, 7, 3)
	b.Reset(nil, 1)
	m := &message.Message{Topic: "a/b", Payload: []byte("x"), QoS: 1}
	var id uint64
	b.Message(m, &id)
	box := b.MailboxCreate()
	b.Entry(box, &store.Entry{Seq: 1, MessageID: id})
	b.Entry(box, &store.Entry{Seq: 2, Priority: 9, Attr: 1, Released: true, Deliveries: 3, ExpiresAt: 5, Tag: "t", MessageID: 4})
	b.Settle(box, 9, store.SeqRange{From: 1, To: 300}, 2, 10)
	b.Release(box, 0, 1, 4)
	b.Deliveries(box, 0, 1, 2)
	b.Put("session", "c", []byte(`{}`))
	b.Delete("session", "c")
	b.DeletePrefix("sub", "c")
	b.Retain(m, true)
	b.Retain(m, false)
	b.Unretain("a/b")
	b.Received(box, 65535)
	b.Unreceived(box, 1)
	b.MailboxDelete(box)
	b.Commit()
	return r.record
}

func TestABatchDecodesToItsOperationsInOrder(t *testing.T) {
	var kinds []store.OpKind
	ops := store.NewOps(everyOperation())
	for ops.Next() {
		op := ops.Op()
		kinds = append(kinds, op.Kind)
		switch {
		case op.Kind == store.OpEntry && op.Range.From == 1:
			if op.MessageID != 7 || op.Mailbox != 3 || op.Priority != 0 || op.Released {
				t.Errorf("first entry: %+v", op)
			}
		case op.Kind == store.OpEntry:
			if op.MessageID != 4 || op.Priority != 9 || op.Attr != 1 || !op.Released || op.Deliveries != 3 || op.ExpiresAt != 5 || string(op.Tag) != "t" {
				t.Errorf("second entry: %+v", op)
			}
		case op.Kind == store.OpSettle:
			if op.Range != (store.SeqRange{From: 1, To: 300}) || op.Count != 2 || op.Bytes != 10 || op.Priority != 9 {
				t.Errorf("settle: %+v", op)
			}
		case op.Kind == store.OpRetainLast:
			if op.MessageID != 7 || len(op.Body) == 0 {
				t.Errorf("retain last: %+v", op)
			}
		}
	}
	if ops.Err() != nil {
		t.Fatal(ops.Err())
	}
	want := []store.OpKind{
		store.OpMessage, store.OpMailboxCreate, store.OpEntry, store.OpEntry, store.OpSettle, store.OpRelease, store.OpDeliveries,
		store.OpPut, store.OpDelete, store.OpDeletePrefix, store.OpRetainLast, store.OpRetain, store.OpUnretain,
		store.OpReceived, store.OpUnreceived, store.OpMailboxDelete,
	}
	if len(kinds) != len(want) {
		t.Fatalf("kinds %v, want %v", kinds, want)
	}
	for i := range want {
		if kinds[i] != want[i] {
			t.Fatalf("kinds %v, want %v", kinds, want)
		}
	}
}

func FuzzOpsNeverPanicAndDamageIsCorrupt(f *testing.F) {
	whole := everyOperation()
	f.Add(whole)
	f.Add(whole[:len(whole)/2])
	f.Add([]byte{1, 1, 0xff, 0xff, 0xff, 0xff, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		n := 0
		ops := store.NewOps(b)
		for ops.Next() {
			if n++; n > len(b) {
				t.Fatal("more operations than bytes")
			}
			op := ops.Op()
			if len(op.Body)+len(op.Key)+len(op.Value)+len(op.Tag) > len(b) {
				t.Fatalf("fields longer than the record: %+v", op)
			}
		}
		if err := ops.Err(); err != nil && !errors.Is(err, store.ErrCorrupt) {
			t.Fatalf("%v, want ErrCorrupt", err)
		}
	})
}
