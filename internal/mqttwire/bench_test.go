package mqttwire

import (
	"bytes"
	"testing"
)

// The costs every message pays. `go test -bench . -benchmem ./internal/mqttwire`

var payload100 = bytes.Repeat([]byte("x"), 100)

func benchDecode(b *testing.B, v Version, packet []byte) {
	b.ReportAllocs()
	b.SetBytes(int64(len(packet)))
	var p Publish
	for b.Loop() {
		f, _, err := Next(packet, v, 1<<20)
		if err != nil {
			b.Fatal(err)
		}
		if err := DecodePublish(f, v, &p); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodePublishQoS1(b *testing.B) {
	topic := str("plant/7/line/3/alarm")
	user := prop(38, str("source"), str("plc-7"))
	b.Run("3.1.1", func(b *testing.B) {
		benchDecode(b, V311, pkt(0x32, topic, raw(0, 7), payload100))
	})
	b.Run("5 without properties", func(b *testing.B) {
		benchDecode(b, V5, pkt(0x32, topic, raw(0, 7, 0), payload100))
	})
	b.Run("5 with expiry, content type and a user property", func(b *testing.B) {
		block := props(prop(2, raw(0, 0, 1, 0)), prop(3, str("text/plain")), user)
		benchDecode(b, V5, pkt(0x32, topic, raw(0, 7), block, payload100))
	})
	b.Run("3.1.1 with a topic that is not ASCII", func(b *testing.B) {
		benchDecode(b, V311, pkt(0x32, str("fabrika/hücre/3/ışık"), raw(0, 7), payload100))
	})
}

func BenchmarkAppendDelivery(b *testing.B) {
	var props Properties
	props.User = props.User.Append("source", "plc-7")
	forward := props.AppendForward(nil)
	run := func(name string, v Version, d Delivery) {
		b.Run(name, func(b *testing.B) {
			d.Topic, d.Payload = "plant/7/line/3/alarm", payload100
			b.ReportAllocs()
			buf := make([]byte, 0, 4096)
			for b.Loop() {
				buf = AppendDelivery(buf[:0], &d, v)
			}
		})
	}
	run("3.1.1 QoS 0", V311, Delivery{})
	run("3.1.1 QoS 1", V311, Delivery{QoS: 1, PacketID: 7})
	run("5 QoS 1", V5, Delivery{QoS: 1, PacketID: 7})
	run("5 QoS 1 with expiry and a user property", V5,
		Delivery{QoS: 1, PacketID: 7, Forward: forward, HasExpiry: true, MessageExpiry: 60})
}

func BenchmarkAppendPublishQoS1(b *testing.B) {
	p := Publish{QoS: 1, PacketID: 7, Topic: []byte("plant/7/line/3/alarm"), Payload: payload100}
	b.ReportAllocs()
	buf := make([]byte, 0, 4096)
	for b.Loop() {
		buf = AppendPublish(buf[:0], &p, V5)
	}
}

func BenchmarkPuback(b *testing.B) {
	b.Run("append", func(b *testing.B) {
		b.ReportAllocs()
		buf := make([]byte, 0, 64)
		for b.Loop() {
			buf = AppendAckCode(buf[:0], TypePuback, 7, Success, V5)
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		packet := pkt(0x40, raw(0, 7))
		var a Ack
		for b.Loop() {
			f, _, _ := Next(packet, V5, 1<<20)
			if err := DecodeAck(f, V5, &a); err != nil {
				b.Fatal(err)
			}
		}
	})
}
