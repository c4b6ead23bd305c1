package mqttwire

import (
	"bytes"
	"errors"
	"reflect"
	"testing"
)

// FuzzFraming: whatever bytes arrive, in whatever portions, framing never
// panics, never promises more than the limit, and Next and Size agree.
func FuzzFraming(f *testing.F) {
	for _, b := range seedPackets() {
		f.Add(b, byte(V5), uint32(0))
	}
	f.Add([]byte{0x30, 0xFF, 0xFF, 0xFF, 0x7F}, byte(V311), uint32(1<<20))
	f.Add([]byte{0x30, 0xFF, 0xFF, 0xFF, 0xFF}, byte(V311), uint32(0))
	f.Add([]byte{0xC0, 0x80, 0x00}, byte(V311), uint32(100))
	f.Fuzz(func(t *testing.T, b []byte, version byte, maxPacket uint32) {
		v := []Version{0, V311, V5}[version%3]
		frame, n, err := Next(b, v, maxPacket)
		total, sizeErr := Size(b, v, maxPacket)
		if !reflect.DeepEqual(err, sizeErr) {
			t.Fatalf("Next says %v, Size says %v", err, sizeErr)
		}
		if err != nil {
			if n != 0 || total != 0 || frame.Body != nil {
				t.Fatal("bytes taken from a refused packet")
			}
			return
		}
		if maxPacket != 0 && uint64(total) > uint64(maxPacket) || total > MaxPacketSize {
			t.Fatalf("total %d exceeds the limit", total)
		}
		if n != 0 && (n != total || n > len(b) || len(frame.Body) > n-2) {
			t.Fatalf("took %d of %d bytes, total %d, body %d", n, len(b), total, len(frame.Body))
		}
		if n == 0 && total != 0 && total <= len(b) {
			t.Fatal("asks for bytes that are here")
		}
		// A refusal never depends on bytes behind the packet, and a prefix is
		// either incomplete or refused, never another packet.
		for cut := range min(n, 16) {
			if _, m, _ := Next(b[:cut], v, maxPacket); m != 0 {
				t.Fatalf("a packet of %d bytes found in %d of them", n, cut)
			}
		}
	})
}

// fuzzDecoder checks one decoder with both versions: no panic, errors of the
// two declared kinds only, memory bounded by the input, and what was accepted
// survives encoding and decoding unchanged.
func fuzzDecoder(f *testing.F, types ...PacketType) {
	for _, b := range seedPackets() {
		for _, typ := range types {
			if PacketType(b[0]>>4) == typ {
				frame, n, err := Next(b, V5, 0)
				if err != nil || n != len(b) {
					f.Fatalf("seed % x: %v", b, err)
				}
				f.Add(b[0], frame.Body)
			}
		}
	}
	f.Fuzz(func(t *testing.T, first byte, packetBody []byte) {
		if !ofType(first, types) {
			first = byte(types[int(first>>4)%len(types)])<<4 | first&0x0F
		}
		whole := pkt(first, packetBody)
		for _, v := range []Version{V311, V5} {
			checkRoundTrip(t, whole, v)
		}
	})
}

func ofType(first byte, types []PacketType) bool {
	for _, t := range types {
		if PacketType(first>>4) == t {
			return true
		}
	}
	return false
}

func checkRoundTrip(t *testing.T, whole []byte, v Version) {
	before := bytes.Clone(whole)
	got, err := decodeAny(whole, v)
	if !bytes.Equal(whole, before) {
		t.Fatal("decoding wrote into its input")
	}
	if err != nil {
		var protocol *ProtocolError
		var version *UnsupportedVersionError
		if !errors.As(err, &protocol) && !errors.As(err, &version) || !CodeOf(err).Failed() {
			t.Fatalf("undeclared error: %v", err)
		}
		return
	}
	checkBounded(t, got, len(whole))
	checkSizes(t, got, v)
	encoded := appendAny(nil, got, v)
	if len(encoded) > len(whole)+maxHeader {
		t.Fatalf("%d bytes decoded, %d bytes encoded", len(whole), len(encoded))
	}
	again, err := decodeAny(encoded, v)
	if err != nil {
		t.Fatalf("own encoding refused: %v\n% x\n% x", err, whole, encoded)
	}
	// Runs may have shed other properties among them; compare without those.
	canonical(got)
	canonical(again)
	if !reflect.DeepEqual(got, again) {
		t.Fatalf("decoded\n%+v\nencoded and decoded\n%+v", got, again)
	}
	if third := appendAny(nil, again, v); !bytes.Equal(encoded, third) {
		t.Fatalf("encoding is not stable:\n% x\n% x", encoded, third)
	}
}

// checkBounded: no list is longer than the packet has bytes for.
func checkBounded(t *testing.T, packet any, size int) {
	switch p := packet.(type) {
	case *Subscribe:
		if len(p.Subscriptions)*3 > size {
			t.Fatal("more subscriptions than bytes")
		}
	case *Unsubscribe:
		if len(p.Filters)*2 > size {
			t.Fatal("more filters than bytes")
		}
	}
}

func checkSizes(t *testing.T, packet any, v Version) {
	p, ok := packet.(*Publish)
	if !ok {
		return
	}
	if got, want := PublishSize(p, v), len(AppendPublish(nil, p, v)); got != want {
		t.Fatalf("PublishSize is %d, the packet has %d bytes", got, want)
	}
	// What travels with the message survives being kept and sent on.
	kept := p.Props.AppendForward(nil)
	var back Properties
	if err := DecodeForward(kept, &back); err != nil {
		t.Fatalf("forwarded properties refused: %v", err)
	}
	if again := back.AppendForward(nil); !bytes.Equal(kept, again) {
		t.Fatalf("forwarded properties changed: % x, % x", kept, again)
	}
	d := Delivery{
		Topic: string(p.Topic), Payload: p.Payload, Forward: kept, Dup: p.Dup, Retain: p.Retain,
		QoS: p.QoS, PacketID: p.PacketID, HasExpiry: p.Props.Has(HasMessageExpiry),
		MessageExpiry: p.Props.MessageExpiry, TopicAlias: p.Props.TopicAlias,
		SubscriptionIDs: appendRun(nil, p.Props.SubscriptionIDs, idSubscriptionID),
	}
	sent := AppendDelivery(nil, &d, v)
	if len(sent) != DeliverySize(&d, v) || len(sent) != PublishSize(p, v) {
		t.Fatalf("DeliverySize %d, bytes %d, PublishSize %d", DeliverySize(&d, v), len(sent), PublishSize(p, v))
	}
	if _, err := decodeAny(sent, v); err != nil {
		t.Fatalf("own delivery refused: %v", err)
	}
}

// canonical reduces the runs in packet to the properties they stand for.
func canonical(packet any) {
	for _, p := range propertiesOf(packet) {
		p.User = appendRun(nil, p.User, idUser)
		p.SubscriptionIDs = appendRun(nil, p.SubscriptionIDs, idSubscriptionID)
	}
}

func propertiesOf(packet any) []*Properties {
	switch p := packet.(type) {
	case *Connect:
		return []*Properties{&p.Props, &p.Will.Props}
	case *Connack:
		return []*Properties{&p.Props}
	case *Publish:
		return []*Properties{&p.Props}
	case *typedAck:
		return []*Properties{&p.Props}
	case *Subscribe:
		return []*Properties{&p.Props}
	case *Suback:
		return []*Properties{&p.Props}
	case *Unsubscribe:
		return []*Properties{&p.Props}
	case *Unsuback:
		return []*Properties{&p.Props}
	case *Disconnect:
		return []*Properties{&p.Props}
	case *Auth:
		return []*Properties{&p.Props}
	}
	return nil
}

func FuzzConnect(f *testing.F)     { fuzzDecoder(f, TypeConnect) }
func FuzzConnack(f *testing.F)     { fuzzDecoder(f, TypeConnack) }
func FuzzPublish(f *testing.F)     { fuzzDecoder(f, TypePublish) }
func FuzzAck(f *testing.F)         { fuzzDecoder(f, TypePuback, TypePubrec, TypePubrel, TypePubcomp) }
func FuzzSubscribe(f *testing.F)   { fuzzDecoder(f, TypeSubscribe) }
func FuzzSuback(f *testing.F)      { fuzzDecoder(f, TypeSuback) }
func FuzzUnsubscribe(f *testing.F) { fuzzDecoder(f, TypeUnsubscribe) }
func FuzzUnsuback(f *testing.F)    { fuzzDecoder(f, TypeUnsuback) }
func FuzzDisconnect(f *testing.F)  { fuzzDecoder(f, TypeDisconnect) }
func FuzzAuth(f *testing.F)        { fuzzDecoder(f, TypeAuth) }

// FuzzForward: bytes read back from a store are checked like any others.
func FuzzForward(f *testing.F) {
	f.Add(prop(1, raw(1)))
	f.Add(append(prop(38, str("k"), str("v")), prop(3, str("text/plain"))...))
	f.Fuzz(func(t *testing.T, block []byte) {
		var p Properties
		for key, value := range UserProperties(block).All() {
			_, _ = key, value
		}
		for id := range SubscriptionIDs(block).All() {
			_ = id
		}
		if DecodeForward(block, &p) != nil {
			return
		}
		if kept := p.AppendForward(nil); len(kept) != len(block) {
			t.Fatalf("%d bytes became %d", len(block), len(kept))
		}
	})
}

// seedPackets is a corpus with every packet type and every property.
func seedPackets() [][]byte {
	user := prop(38, str("k"), str("v"))
	return [][]byte{
		pkt(0x10, str("MQTT"), raw(4, 0xEE, 0, 60), str("id"), str("w/t"), str("gone"), str("u"), str("p")),
		pkt(0x10, str("MQTT"), raw(5, 0xEE, 0, 60),
			props(prop(17, raw(0, 0, 0, 9)), prop(33, raw(0, 5)), prop(39, raw(0, 0, 9, 9)), prop(34, raw(0, 3)),
				prop(25, raw(1)), prop(23, raw(0)), user, user, prop(21, str("m")), prop(22, str("d"))),
			str("id"),
			props(prop(24, raw(0, 0, 0, 5)), prop(1, raw(1)), prop(2, raw(0, 0, 1, 0)), prop(3, str("c")),
				prop(8, str("r")), prop(9, str("d")), user),
			str("w/t"), str("gone"), str("u"), str("p")),
		pkt(0x10, str("MQIsdp"), raw(3, 2, 0, 60), str("id")),
		pkt(0x20, raw(1, 0)),
		pkt(0x20, raw(0, 0), props(prop(17, raw(0, 0, 0, 9)), prop(33, raw(0, 5)), prop(36, raw(1)), prop(37, raw(1)),
			prop(39, raw(0, 0, 9, 9)), prop(18, str("a")), prop(34, raw(0, 3)), prop(31, str("why")), user,
			prop(40, raw(1)), prop(41, raw(1)), prop(42, raw(0)), prop(19, raw(0, 9)), prop(26, str("i")),
			prop(28, str("s")), prop(21, str("m")), prop(22, str("d")))),
		pkt(0x30, str("a/b"), []byte("hello")),
		pkt(0x3D, str("a/b"), raw(0, 7, 0), []byte("hello")),
		pkt(0x32, str(""), raw(0, 7), props(prop(35, raw(0, 1)), user, prop(11, raw(0x80, 1)), user, prop(11, raw(1)),
			prop(1, raw(1)), prop(2, raw(0, 0, 1, 0)), prop(3, str("c")), prop(8, str("r")), prop(9, str("d")))),
		pkt(0x40, raw(0, 7)),
		pkt(0x40, raw(0, 7, 0x10)),
		pkt(0x50, raw(0, 7, 0x87), props(prop(31, str("no")), user)),
		pkt(0x62, raw(0, 7, 0x92)),
		pkt(0x70, raw(0, 7, 0), props()),
		pkt(0x82, raw(0, 7), str("a/#"), raw(1), str("b"), raw(2)),
		pkt(0x82, raw(0, 7), props(prop(11, raw(9)), user), str("a/#"), raw(0x2D)),
		pkt(0x90, raw(0, 7, 0, 1, 2, 0x80)),
		pkt(0x90, raw(0, 7), props(prop(31, str("why"))), raw(2, 0x8F)),
		pkt(0xA2, raw(0, 7), str("a/#"), str("b")),
		pkt(0xA2, raw(0, 7), props(user), str("a/#")),
		pkt(0xB0, raw(0, 7)),
		pkt(0xB0, raw(0, 7), props(user), raw(0, 0x11)),
		pkt(0xC0), pkt(0xD0), pkt(0xE0),
		pkt(0xE0, raw(4)),
		pkt(0xE0, raw(0x9D), props(prop(17, raw(0, 0, 0, 9)), prop(31, str("why")), prop(28, str("s")), user)),
		pkt(0xF0),
		pkt(0xF0, raw(0x18), props(prop(21, str("m")), prop(22, str("d")), prop(31, str("why")), user)),
	}
}
