package mqttserver

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"emanet/internal/journal"
	"emanet/internal/message"
)

// BenchmarkIdleConnections opens b.N connections over loopback and says what each costs in heap and stacks,
// the few bytes of the test's own end included. go test -bench Idle -benchtime 10000x
func BenchmarkIdleConnections(b *testing.B) {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		b.Fatal(err)
	}
	if need := uint64(2*b.N + 100); files.Cur < need {
		b.Skipf("needs %d files, may have %d", need, files.Cur)
	}
	for _, kind := range []string{"persistent", "clean"} {
		b.Run(kind, func(b *testing.B) {
			r := start(b, func(r *rig) { r.journal = journal.Options{SegmentBytes: 4 << 20, Segments: 8} })
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			conns := make([]net.Conn, b.N)
			reply := make([]byte, 4)
			for i := range conns {
				nc, err := net.Dial("tcp", r.ln.Addr().String())
				if err != nil {
					b.Fatal(err)
				}
				conns[i] = nc
				h := hello{version: 4, id: strconv.Itoa(i), clean: kind == "clean"}
				if _, err := nc.Write(h.bytes()); err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(nc, reply); err != nil {
					b.Fatal(err)
				}
			}
			runtime.GC()
			runtime.GC() // pools are emptied by the second
			runtime.ReadMemStats(&after)
			b.ReportMetric(float64(after.HeapInuse-before.HeapInuse)/float64(b.N), "heap-B/conn")
			b.ReportMetric(float64(after.StackInuse-before.StackInuse)/float64(b.N), "stack-B/conn")
			b.ReportMetric(0, "ns/op")
			for _, nc := range conns {
				_ = nc.Close()
			}
		})
	}
}

// benchPeers are a subscriber and a publisher of MQTT 3.1.1.
func benchPeers(b *testing.B, qos int) (sub, pub *peer) {
	b.Helper()
	r := start(b, func(r *rig) {
		r.opt.MaxLiveBytes = 64 << 20
		r.journal = journal.Options{SegmentBytes: 4 << 20, Segments: 8}
	})
	sub, pub = r.connect(v311live("s")), r.connect(v311live("p"))
	sub.subscribe(4, "bench/topic", qos)
	return sub, pub
}

// BenchmarkQoS0 is one publisher and one subscriber over loopback, 100-byte payloads, in bursts of 32.
func BenchmarkQoS0(b *testing.B) {
	sub, pub := benchPeers(b, 0)
	one := pub311(0, 0, "bench/topic", kilobyte[:100])
	const burst = 32
	var many []byte
	for range burst {
		many = append(many, one...)
	}
	b.ReportAllocs()
	b.ResetTimer()
	go func() {
		for range (b.N + burst - 1) / burst {
			if _, err := pub.nc.Write(many); err != nil {
				return
			}
		}
	}()
	if _, err := io.CopyN(io.Discard, sub.nc, int64(b.N*len(one))); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkQoS1 is a publisher that keeps 256 messages in flight, to a subscriber that acknowledges; neither
// is persistent.
func BenchmarkQoS1(b *testing.B) {
	sub, pub := benchPeers(b, 1)
	go func() {
		in := bufio.NewReaderSize(sub.nc, 64<<10)
		out := bufio.NewWriterSize(sub.nc, 64<<10)
		one := pub311(1, 1, "bench/topic", kilobyte[:100])
		reply := []byte{0x40, 2, 0, 0}
		for {
			if _, err := io.ReadFull(in, one); err != nil {
				return
			}
			copy(reply[2:], one[15:17]) // behind the topic
			_, _ = out.Write(reply)
			if in.Buffered() == 0 {
				_ = out.Flush()
			}
		}
	}()
	benchPublish(b, pub)
}

// BenchmarkQoS1Persistent has a persistent subscriber that is away: every message is flushed, on a disk that
// takes no time.
func BenchmarkQoS1Persistent(b *testing.B) {
	r := start(b, func(r *rig) {
		r.broOpt.MaxQueued = 10_000
		r.journal = journal.Options{SegmentBytes: 4 << 20, Segments: 8}
	})
	keeper := r.connect(v311("keeper"))
	keeper.subscribe(4, "bench/topic", 1)
	keeper.leave()
	benchPublish(b, r.connect(v311live("p")))
}

// benchPublish publishes b.N messages at QoS 1, 256 in flight.
func benchPublish(b *testing.B, pub *peer) {
	b.Helper()
	const window = 256
	tokens := make(chan int, window)
	tokens <- window
	go func() {
		out := bufio.NewWriterSize(pub.nc, 64<<10)
		free := 0
		one := pub311(1, 1, "bench/topic", kilobyte[:100])
		for i := range b.N {
			if free == 0 {
				_ = out.Flush()
				free = <-tokens
			}
			free--
			binary.BigEndian.PutUint16(one[15:], uint16(i%60000)+1)
			_, _ = out.Write(one)
		}
		_ = out.Flush()
	}()
	b.ReportAllocs()
	b.ResetTimer()
	buf := make([]byte, 4096)
	for acked, rest := 0, 0; acked < b.N; {
		n, err := pub.nc.Read(buf)
		if err != nil {
			b.Fatal(err)
		}
		rest += n
		got := rest / 4
		rest %= 4
		acked += got
		if got > 0 {
			tokens <- got
		}
	}
}

// BenchmarkFanOut is one publisher and 100 subscribers of MQTT 5 at QoS 0 over loopback, with properties or without:
// the time and the memory of one message to all of them.
func BenchmarkFanOut(b *testing.B) {
	const fan, burst = 100, 16
	for name, props := range map[string][]byte{
		"plain":      none,
		"properties": cat(0x01, 1, 0x03, str("application/json"), 0x26, str("source"), str("plant-7"), 0x26, str("unit"), str("C")),
	} {
		b.Run(name, func(b *testing.B) {
			r := start(b, func(r *rig) {
				r.opt.MaxLiveBytes = 64 << 20
				r.journal = journal.Options{SegmentBytes: 4 << 20, Segments: 8}
			})
			one := publish(0, 0, "bench/topic", kilobyte[:100], props)
			pub := r.connect(v5live("p"))
			var subs []*peer
			for i := range fan {
				sub := r.connect(v5live(strconv.Itoa(i)))
				sub.subscribe(5, "bench/topic", 0)
				subs = append(subs, sub)
			}
			many := bytes.Repeat(one, burst)
			b.ReportAllocs()
			b.ResetTimer()
			go func() {
				for range (b.N + burst - 1) / burst {
					if _, err := pub.nc.Write(many); err != nil {
						return
					}
				}
			}()
			var all sync.WaitGroup
			for _, sub := range subs {
				all.Go(func() { _, _ = io.CopyN(io.Discard, sub.nc, int64(b.N*len(one))) })
			}
			all.Wait()
		})
	}
}

// BenchmarkEncode is one message into the writer's buffer of one of its receivers.
func BenchmarkEncode(b *testing.B) {
	m := &message.Message{Topic: "plant/hall-7/machine-4/temperature", Payload: []byte(kilobyte[:100])}
	whole := *m
	whole.Properties = &message.Properties{
		HasPayloadFormat: true, PayloadIsUTF8: true, HasContentType: true, ContentType: "application/json",
		User: []message.Pair{{Key: "source", Value: "plant-7"}, {Key: "unit", Value: "C"}},
	}
	for name, bench := range map[string]struct {
		hello hello
		m     *message.Message
		tag   string
	}{
		"3.1.1": {v311live("s"), m, ""}, "5": {v5live("s"), m, ""}, "5 alias": {v5live("s").with(0x22, uint16(8)), m, ""},
		"5 properties": {v5live("s"), &whole, ""}, "5 identifiers": {v5live("s"), m, "\x07\x81\x01"},
	} {
		b.Run(name, func(b *testing.B) {
			r := start(b, withAliasesOut(8))
			r.connect(bench.hello).nothing()
			o := &r.only().out // its writer has nothing to do
			o.pad = pads.Get().(*pad)
			b.ReportAllocs()
			for b.Loop() {
				o.encodeMessage(&outgoing{message: bench.m, attr: 1, tag: bench.tag, packetID: 7}, 0)
				o.pad.buf, o.pad.gathered = o.pad.buf[:0], 0
			}
			o.pad = nil
		})
	}
}
