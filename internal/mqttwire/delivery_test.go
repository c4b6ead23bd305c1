package mqttwire

import (
	"bytes"
	"slices"
	"testing"
)

func TestDeliveryInBytes(t *testing.T) {
	t.Parallel()
	forward := append(prop(3, str("text/plain")), prop(38, str("k"), str("v"))...)
	full := Delivery{
		Topic: "a/b", Payload: []byte("hi"), Forward: forward, Dup: true, Retain: true, QoS: 2, PacketID: 258,
		HasExpiry: true, MessageExpiry: 9, TopicAlias: 3, SubscriptionIDs: SubscriptionIDs(nil).Append(1).Append(128),
	}
	expired := Delivery{Topic: "a", HasExpiry: true}
	for _, c := range []struct {
		name string
		v    Version
		d    Delivery
		want []byte
	}{
		{"QoS 0", V311, Delivery{Topic: "a/b", Payload: []byte("hi")}, pkt(0x30, str("a/b"), []byte("hi"))},
		{"QoS 0", V5, Delivery{Topic: "a/b", Payload: []byte("hi")}, pkt(0x30, str("a/b"), props(), []byte("hi"))},
		{"QoS 1", V5, Delivery{Topic: "a", QoS: 1, PacketID: 1}, pkt(0x32, str("a"), raw(0, 1), props())},
		{"everything, but 3.1.1 has no properties", V311, full, pkt(0x3D, str("a/b"), raw(1, 2), []byte("hi"))},
		{"everything [MQTT-3.3.4-3] [MQTT-3.3.2-17]", V5, full, pkt(0x3D, str("a/b"), raw(1, 2),
			props(prop(2, raw(0, 0, 0, 9)), prop(35, raw(0, 3)), prop(11, raw(1)), prop(11, raw(0x80, 1)), forward), []byte("hi"))},
		{"an expiry of 0 seconds is sent, not left out [MQTT-3.3.2-6]", V5, expired, pkt(0x30, str("a"), props(prop(2, raw(0, 0, 0, 0))))},
		{"a known alias in the topic's place", V5, Delivery{TopicAlias: 1}, pkt(0x30, str(""), props(prop(35, raw(0, 1))))},
	} {
		t.Run(c.name+" in "+c.v.String(), func(t *testing.T) {
			t.Parallel()
			if got := AppendDelivery([]byte("kept"), &c.d, c.v); !bytes.Equal(got, append([]byte("kept"), c.want...)) {
				t.Errorf("encoded\n % x, want\n % x", got[4:], c.want)
			}
			if got := DeliverySize(&c.d, c.v); got != len(c.want) {
				t.Errorf("DeliverySize %d, want %d", got, len(c.want))
			}
			head := AppendDeliveryHead(nil, &c.d, c.v)
			if !bytes.Equal(append(head, c.d.Payload...), c.want) {
				t.Errorf("head % x does not fit before the payload", head)
			}
		})
	}
}

// Publisher to subscriber: what must arrive unaltered does, what belongs to the
// hop does not.
func TestPropertiesTravelUnalteredAndHopPropertiesStay(t *testing.T) {
	t.Parallel()
	user := func(key, value string) []byte { return prop(38, str(key), str(value)) }
	in := pkt(0x30, str("a"), props(
		user("z", "1"), prop(35, raw(0, 9)), user("a", "2"), prop(2, raw(0, 0, 1, 0)), prop(8, str("re")), user("z", "1"),
		prop(9, raw(0, 2, 0, 0xFF)), prop(1, raw(1)), prop(3, str("c"))), []byte("hi"))
	var p Publish
	if err := DecodePublish(mustFrame(t, in, V5), V5, &p); err != nil {
		t.Fatal(err)
	}
	kept := p.Props.AppendForward(nil)
	out := AppendDelivery(nil, &Delivery{Topic: "a", Payload: []byte("hi"), Forward: kept}, V5)
	var q Publish
	if err := DecodePublish(mustFrame(t, out, V5), V5, &q); err != nil {
		t.Fatal(err)
	}
	if q.Props.Present != forwardable {
		t.Errorf("arrived with properties %#x", uint64(q.Props.Present))
	}
	if q.Props.PayloadFormat != 1 || string(q.Props.ContentType) != "c" || string(q.Props.ResponseTopic) != "re" ||
		!bytes.Equal(q.Props.CorrelationData, []byte{0, 0xFF}) {
		t.Errorf("altered: %+v", q.Props)
	}
	var pairs []string
	for key, value := range q.Props.User.All() {
		pairs = append(pairs, string(key)+string(value))
	}
	if want := []string{"z1", "a2", "z1"}; !slices.Equal(pairs, want) {
		t.Errorf("user properties %v, want %v [MQTT-3.3.2-18]", pairs, want)
	}
	var back Properties
	if err := DecodeForward(kept, &back); err != nil || back.Present != forwardable {
		t.Errorf("DecodeForward: %v, %#x", err, uint64(back.Present))
	}
	if err := DecodeForward(prop(35, raw(0, 1)), &back); err == nil {
		t.Error("a topic alias passed for a property that travels")
	}
}

func TestMessageWithoutPropertiesKeepsNone(t *testing.T) {
	t.Parallel()
	p := Properties{Present: HasTopicAlias | HasMessageExpiry, TopicAlias: 1, MessageExpiry: 5}
	if kept := p.AppendForward(nil); kept != nil {
		t.Errorf("kept % x", kept)
	}
}

// UserProperties may come from anywhere; bytes that are no properties must end
// the walk, not the process.
func TestRunsOfBadBytesEndQuietly(t *testing.T) {
	t.Parallel()
	good := UserProperties(nil).Append("k", "v")
	for _, tail := range [][]byte{raw(38), raw(38, 0), raw(38, 0, 9), raw(4, 0), raw(0xFF), raw(11, 0xFF, 0xFF, 0xFF, 0xFF, 1)} {
		run := append(bytes.Clone(good), tail...)
		n := 0
		for key, value := range UserProperties(run).All() {
			if string(key) != "k" || string(value) != "v" {
				t.Errorf("% x gave %q=%q", tail, key, value)
			}
			n++
		}
		for range SubscriptionIDs(run).All() {
			t.Errorf("% x gave a subscription identifier", tail)
		}
		if n != 1 || runSize(run, idUser) != len(good) || !bytes.Equal(appendRun(nil, run, idUser), good) {
			t.Errorf("% x: %d pairs, size %d", tail, n, runSize(run, idUser))
		}
	}
}

// One client takes only the first of each: ranges may be left early.
func TestRunsCanBeLeftEarly(t *testing.T) {
	t.Parallel()
	for key := range UserProperties(nil).Append("first", "").Append("second", "").All() {
		if string(key) != "first" {
			t.Errorf("began with %q", key)
		}
		break
	}
	if got := SubscriptionIDs(nil).Append(300).Append(2).First(); got != 300 {
		t.Errorf("First is %d", got)
	}
	if got := SubscriptionIDs(nil).First(); got != 0 {
		t.Errorf("First of none is %d", got)
	}
}

func TestDeliveryEncoderPanicsOnWhatNoPeerCouldRead(t *testing.T) {
	t.Parallel()
	for name, d := range map[string]*Delivery{
		"QoS 1 without packet identifier": {Topic: "a", QoS: 1},
		"DUP with QoS 0":                  {Topic: "a", Dup: true},
		"topic over 65,535 bytes":         {Topic: string(make([]byte, 65_536))},
	} {
		mustPanic(t, name, func() { AppendDelivery(nil, d, V311) })
	}
	for _, id := range []uint32{0, 268_435_456} {
		mustPanic(t, "subscription identifier out of range", func() { SubscriptionIDs(nil).Append(id) })
	}
}
