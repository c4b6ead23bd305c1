package mqttserver

import (
	"bytes"
	"io"
	"testing"

	"emanet/internal/journal"
)

// BenchmarkQoS0Alias is a publisher of MQTT 5 that names its topic, or gives its alias, to one subscriber that takes
// aliases or does not.
func BenchmarkQoS0Alias(b *testing.B) {
	const topic, burst = "plant/hall-7/machine-4/temperature", 32
	named, byAlias := pub5(0, 0, topic, kilobyte[:100]), aliased(0, 0, "", kilobyte[:100], 1)
	for _, bench := range []struct {
		name    string
		in, out bool
	}{{"none", false, false}, {"in", true, false}, {"out", false, true}, {"both", true, true}} {
		b.Run(bench.name, func(b *testing.B) {
			r := start(b, withAliases(8), withAliasesOut(8), func(r *rig) {
				r.opt.MaxLiveBytes = 64 << 20
				r.journal = journal.Options{SegmentBytes: 4 << 20, Segments: 8}
			})
			hello, one, got := v5live("s"), named, named
			if bench.out {
				hello, got = hello.with(0x22, uint16(8)), byAlias
			}
			if bench.in {
				one = byAlias
			}
			sub, pub := r.connect(hello), r.connect(v5live("p"))
			sub.subscribe(5, "#", 0)
			for range 2 { // the subscriber's alias is given
				pub.send(aliased(0, 0, topic, "", 1))
				sub.next()
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
			if _, err := io.CopyN(io.Discard, sub.in, int64(b.N*len(got))); err != nil {
				b.Fatal(err)
			}
		})
	}
}
