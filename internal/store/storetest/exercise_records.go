package storetest

import (
	"testing"

	"emanet/internal/message"
	"emanet/internal/store"
)

func exerciseRecords(t *testing.T, sub *Subject) {
	s, _ := open(t, sub)
	control(t, s, func(b *store.Batch) {
		b.Put("session", "a", []byte(`{"n":1}`))
		b.Put("sub", "a", []byte(`{"n":2}`))
		b.Put("session", "b\x00c", []byte(`{"n":3}`))
		b.Delete("session", "never there")
	})
	must(t, s.Sync())
	control(t, s, func(b *store.Batch) {
		b.Put("session", "a", []byte(`{"n":4}`))
		b.Delete("session", "b\x00c")
		b.Put("will", "a", []byte(`{"n":5}`))
		b.Delete("will", "a")
	})
	want := &State{Records: map[[2]string]string{{"session", "a"}: `{"n":4}`, {"sub", "a"}: `{"n":2}`}}
	reopened(t, sub, s, func(t *testing.T, how string, _ store.Store, st *State) {
		equal(t, how, st.String(), want.String())
	})
}

func exerciseDeletePrefix(t *testing.T, sub *Subject) {
	s, _ := open(t, sub)
	control(t, s, func(b *store.Batch) {
		for _, k := range []string{"a\x00x", "a\x00y", "a", "aa\x00x", "b\x00x", "\xff\xff", "\xff\xffz"} {
			b.Put("sub", k, []byte("1"))
		}
		b.Put("other", "a\x00x", []byte("1"))
	})
	must(t, s.Sync())
	control(t, s, func(b *store.Batch) {
		b.Put("sub", "a\x00w", []byte("2"))
		b.DeletePrefix("sub", "a\x00")
		b.Put("sub", "a\x00y", []byte("3"))
		b.DeletePrefix("sub", "\xff\xff")
	})
	want := &State{Records: map[[2]string]string{
		{"sub", "a"}: "1", {"sub", "aa\x00x"}: "1", {"sub", "b\x00x"}: "1", {"sub", "a\x00y"}: "3", {"other", "a\x00x"}: "1",
	}}
	reopened(t, sub, s, func(t *testing.T, how string, _ store.Store, st *State) {
		equal(t, how, st.String(), want.String())
	})
}

func exerciseRetained(t *testing.T, sub *Subject) {
	s, _ := open(t, sub)
	full := &message.Message{
		Topic: "full", Payload: []byte{0, 0xff}, ReceivedAt: 5, ExpiresAt: 9, QoS: 2, Retain: true,
		Properties: &message.Properties{
			HasPayloadFormat: true, HasContentType: true, ContentType: "text/\"x\"", HasResponseTopic: true,
			HasCorrelation: true, Correlation: []byte{0, 1}, User: []message.Pair{{Key: "a", Value: "b"}, {Key: "a", Value: ""}},
		},
	}
	binary := &message.Message{Topic: "binary", Retain: true, Properties: &message.Properties{User: []message.Pair{{Key: "\xff", Value: "\x00"}}}}
	later := &message.Message{Topic: "twice", Payload: []byte("second"), Retain: true}
	control(t, s, func(b *store.Batch) {
		b.Retain(full, false)
		b.Retain(binary, false)
		b.Retain(&message.Message{Topic: "twice", Payload: []byte("first")}, false)
		b.Retain(&message.Message{Topic: "gone"}, false)
		b.Unretain("never there")
	})
	must(t, s.Sync())
	control(t, s, func(b *store.Batch) {
		var id uint64
		b.Message(later, &id)
		b.Retain(later, true)
		b.Unretain("gone")
	})
	want := &State{Retained: map[string]string{"full": render(full), "binary": render(binary), "twice": render(later)}}
	reopened(t, sub, s, func(t *testing.T, how string, _ store.Store, st *State) {
		equal(t, how, st.String(), want.String())
	})
}

func exerciseReceived(t *testing.T, sub *Subject) {
	s, _ := open(t, sub)
	box := newBox(t, s)
	control(t, s, func(b *store.Batch) { b.Received(box, 1); b.Received(box, 65535); b.Received(box, 3) })
	must(t, s.Sync())
	control(t, s, func(b *store.Batch) {
		b.Unreceived(box, 1)
		b.Received(box, 2)
		b.Received(box, 7)
		b.Unreceived(box, 7)
	})
	want := newState()
	want.Mailboxes[box] = newMailbox()
	want.Mailboxes[box].Received = map[uint16]bool{2: true, 3: true, 65535: true}
	reopened(t, sub, s, func(t *testing.T, how string, _ store.Store, st *State) {
		equal(t, how, st.String(), want.String())
	})
}
