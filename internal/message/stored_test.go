package message_test

import (
	"testing"

	"emanet/internal/message"
)

func TestStoredSizeIsTopicAndPayloadWithoutDecoding(t *testing.T) {
	for _, m := range []*message.Message{whole(), {Topic: "t"}, {Topic: "a/b", Payload: []byte("xyz"), ReceivedAt: 5, ExpiresAt: 3}} {
		if got, want := message.StoredSize(m.Append(nil)), int64(len(m.Topic)+len(m.Payload)); got != want {
			t.Errorf("StoredSize %d, want %d", got, want)
		}
	}
	if got := message.StoredSize([]byte{0x10, 0, 1}); got != 0 {
		t.Errorf("StoredSize of a torn form is %d, want 0", got)
	}
}
