package storetest

import (
	"fmt"
	"maps"
	"slices"
)

func (b *batch) record() {
	rng := b.m.rng
	kind := []string{"session", "sub"}[rng.IntN(2)]
	key := fmt.Sprintf("c%d\x00f%d", rng.IntN(4), rng.IntN(4))
	switch rng.IntN(6) {
	case 0:
		b.Delete(kind, key)
		delete(b.state.Records, [2]string{kind, key})
		b.note("delete %s %q", kind, key)
	case 1:
		prefix := key[:2+rng.IntN(2)]
		b.DeletePrefix(kind, prefix)
		maps.DeleteFunc(b.state.Records, func(k [2]string, _ string) bool {
			return k[0] == kind && len(k[1]) >= len(prefix) && k[1][:len(prefix)] == prefix
		})
		b.note("delete %s %q and on", kind, prefix)
	default:
		value := fmt.Sprintf(`{"n":%d}`, rng.IntN(1000))
		b.Put(kind, key, []byte(value))
		b.state.Records[[2]string{kind, key}] = value
		b.note("put %s %q", kind, key)
	}
}

func (b *batch) retain() {
	m := b.message()
	if b.m.rng.IntN(3) == 0 {
		b.Unretain(m.Topic)
		delete(b.state.Retained, m.Topic)
		b.note("unretain %q", m.Topic)
		return
	}
	if !b.publish {
		return
	}
	m.Retain = true
	b.Retain(m, false)
	b.state.Retained[m.Topic] = render(m)
	b.note("retain %q", m.Topic)
}

func (b *batch) received() {
	boxes := slices.Sorted(maps.Keys(b.state.Mailboxes))
	if len(boxes) == 0 {
		return
	}
	box, id := boxes[b.m.rng.IntN(len(boxes))], uint16(1+b.m.rng.IntN(5))
	m := b.state.Mailboxes[box]
	if m.Received[id] {
		b.Unreceived(box, id)
		delete(m.Received, id)
		b.note("unreceived %d/%d", box, id)
		return
	}
	b.Received(box, id)
	m.Received[id] = true
	b.note("received %d/%d", box, id)
}

func (b *batch) deleteMailbox() {
	boxes := slices.Sorted(maps.Keys(b.state.Mailboxes))
	if len(boxes) == 0 || b.m.rng.IntN(2) == 0 {
		return
	}
	box := boxes[b.m.rng.IntN(len(boxes))]
	b.MailboxDelete(box)
	delete(b.state.Mailboxes, box)
	b.note("delete mailbox %d", box)
}
