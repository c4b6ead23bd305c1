package store_test

import (
	"math"
	"strings"
	"testing"

	"emanet/internal/message"
	"emanet/internal/store"
)

// counting is a Sealer that keeps the size of the last batch.
type counting struct{ size int }

func (c *counting) Commit(buf []byte) store.LSN { c.size = len(buf); return 1 }
func (c *counting) Abort()                      { c.size = 0 }

func TestNoOperationTakesMoreThanItsSizeSays(t *testing.T) {
	const huge = math.MaxInt64
	s := &counting{}
	b := store.NewBatch(s, huge, huge)
	tag, key := strings.Repeat("t", 300), strings.Repeat("k", 300)
	m := &message.Message{Topic: "t", Payload: make([]byte, 300), ReceivedAt: huge, Retain: true, QoS: 2}
	var id uint64
	for _, c := range []struct {
		name string
		size int
		add  func()
	}{
		{"message", store.SizeMessage + m.EncodedMax(), func() { b.Message(m, &id) }},
		{"entry", store.SizeEntry + len(tag), func() {
			b.Entry(huge, &store.Entry{
				Seq: huge, Priority: 255, Attr: 255, Released: true, Deliveries: math.MaxUint32, ExpiresAt: huge, Tag: tag, MessageID: huge,
			})
		}},
		{"settle", store.SizeSettle, func() { b.Settle(huge, 255, store.SeqRange{From: 1, To: huge}, huge, huge) }},
		{"release", store.SizeSmall, func() { b.Release(huge, 255, huge, huge) }},
		{"deliveries", store.SizeSmall, func() { b.Deliveries(huge, 255, huge, math.MaxUint32) }},
		{"put", store.SizeRecord + 2*len(key) + 300, func() { b.Put(key, key, make([]byte, 300)) }},
		{"delete", store.SizeRecord + 2*len(key), func() { b.Delete(key, key) }},
		{"delete prefix", store.SizeRecord + 2*len(key), func() { b.DeletePrefix(key, key) }},
		{"retain", store.SizeMessage + m.EncodedMax(), func() { b.Retain(m, false) }},
		{"retain the last", store.SizeSmall, func() { b.Retain(m, true) }},
		{"unretain", store.SizeSmall + len(key), func() { b.Unretain(key) }},
		{"received", store.SizeSmall, func() { b.Received(huge, 65535) }},
		{"unreceived", store.SizeSmall, func() { b.Unreceived(huge, 65535) }},
		{"mailbox", store.SizeSmall, func() { b.MailboxCreate() }},
		{"mailbox deleted", store.SizeSmall, func() { b.MailboxDelete(huge) }},
	} {
		b.Reset(nil, 1)
		c.add()
		if b.Commit(); s.size == 0 || s.size > c.size {
			t.Errorf("%s: %d bytes, its size says %d", c.name, s.size, c.size)
		}
	}
}
