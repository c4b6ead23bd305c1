package message_test

import (
	"bytes"
	"errors"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"

	"emanet/internal/message"
)

func whole() *message.Message {
	return &message.Message{
		Topic: "plant/7/alarm", Payload: []byte("hot\x00"), ReceivedAt: 1_790_000_000_123, ExpiresAt: 1_790_000_060_123,
		QoS: 2, Retain: true,
		Properties: &message.Properties{
			HasPayloadFormat: true, PayloadIsUTF8: true,
			HasContentType: true, HasResponseTopic: true, ResponseTopic: "re/ply",
			HasCorrelation: true, Correlation: []byte{0, 1, 2},
			User: []message.Pair{{Key: "a", Value: "1"}, {Key: "a", Value: ""}, {Key: "", Value: "z"}},
		},
	}
}

func TestAMessageComesBackFromItsStoredFormAsItWas(t *testing.T) {
	for _, m := range []*message.Message{whole(), {Topic: "t"}, {Topic: "t", Payload: []byte("x"), ReceivedAt: 5, ExpiresAt: 3}} {
		b := m.Append(nil)
		if len(b) > m.EncodedMax() {
			t.Fatalf("stored form takes %d bytes, EncodedMax said %d", len(b), m.EncodedMax())
		}
		got, err := message.Decode(b)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Payload, m.Payload) {
			t.Fatalf("payload %q, want %q", got.Payload, m.Payload)
		}
		got.Payload = m.Payload // nil and empty are one
		if !reflect.DeepEqual(got, m) {
			t.Fatalf("got %+v, want %+v", got, m)
		}
	}
}

func TestATruncatedStoredFormIsAnErrorAtEveryLengthUpToThePayload(t *testing.T) {
	m := whole()
	m.Payload = nil
	b := m.Append(nil)
	for n := range b {
		if _, err := message.Decode(b[:n]); !errors.Is(err, message.ErrCorrupt) {
			t.Fatalf("%d of %d bytes: error %v, want ErrCorrupt", n, len(b), err)
		}
	}
}

func FuzzDecodeNeverPanicsAndIsStable(f *testing.F) {
	f.Add(whole().Append(nil))
	f.Add([]byte{0x10, 0, 1, 't', 0, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := message.Decode(b)
		if err != nil {
			return
		}
		again, err := message.Decode(m.Append(nil))
		if err != nil || !reflect.DeepEqual(m, again) {
			t.Fatalf("%+v became %+v, %v", m, again, err)
		}
	})
}

func TestPropertiesAreEncodedOnceForAllRecipients(t *testing.T) {
	p, made := whole().Properties, atomic.Int64{}
	encode := func(p *message.Properties) []byte {
		made.Add(1)
		return []byte(p.ResponseTopic)
	}
	p.Encoded(encode)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if got := p.Encoded(encode); string(got) != "re/ply" {
				t.Errorf("got %q", got)
			}
		})
	}
	all.Wait()
	if n := made.Load(); n != 1 {
		t.Errorf("encoded %d times", n)
	}
}
