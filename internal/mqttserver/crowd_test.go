package mqttserver

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"

	"emanet/internal/broker"
)

// TestACrowdThatKeepsNoRuleLeavesNothingBehind has clients that share a few ids take each other over, send what
// they like and leave as they like, on a store that is often out of room. The race detector and goleak judge.
func TestACrowdThatKeepsNoRuleLeavesNothingBehind(t *testing.T) {
	r := start(t, crowded, func(r *rig) {
		r.opt.MaxLiveBytes, r.opt.ReceiveMaximum = 32<<10, 20
		r.broOpt = broker.Options{MaxQueued: 50, MaxSubs: 5, MaxRetained: 20, UnsentMax: 4 << 10}
	})
	lives := 60
	if testing.Short() {
		lives = 15
	}
	var clients sync.WaitGroup
	for seed := range uint64(8) {
		clients.Go(func() {
			random := rand.New(rand.NewPCG(seed, 1))
			for range lives {
				if err := r.live(random); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	clients.Wait()
	r.eventually("the end of all", func() bool { return r.stats().Connections.Load() == 0 })
	r.connect(v311live("after")).nothing()
}

// live is one connection's life.
func (r *rig) live(random *rand.Rand) error {
	nc, err := net.Dial("tcp", r.ln.Addr().String())
	if err != nil {
		return err
	}
	read, reads := make(chan struct{}), random.IntN(4) > 0
	go func() {
		defer close(read)
		if reads {
			_, _ = io.Copy(io.Discard, nc)
		}
	}()
	h := hello{version: 4 + random.IntN(2), id: fmt.Sprint(random.IntN(3)), clean: random.IntN(3) == 0}
	if random.IntN(3) == 0 {
		h.will = &will{topic: "t/will", qos: random.IntN(3)}
	}
	out := h.bytes()
	for range random.IntN(60) {
		out = append(out, someone(random, h.version)...)
	}
	leaves := random.IntN(2) == 0
	if leaves {
		out = append(out, disconnect...)
	}
	_, _ = nc.Write(out) // fails when it was taken over
	if leaves {
		<-read // until the server closes, if it reads at all
	}
	err = nc.Close()
	<-read
	return err
}

// someone is any packet a client may send.
func someone(random *rand.Rand, version int) []byte {
	id := uint16(1 + random.IntN(8))
	var props, none5 []byte
	if version == 5 {
		props, none5 = none, []byte{0}
	}
	topic := fmt.Sprintf("t/%d", random.IntN(4))
	switch random.IntN(12) {
	case 0:
		return pkt(0x82, id, none5, str("t/+"), random.IntN(3))
	case 1:
		return pkt(0xA2, id, none5, str("t/+"))
	case 2:
		return pingreq
	case 3:
		return ack(0x40, id)
	case 4:
		return ack(0x50, id)
	case 5:
		return ack(0x62, id)
	case 6:
		return ack(0x70, id)
	case 7:
		return retain(publish(random.IntN(3), id, topic, kilobyte[:random.IntN(200)], props))
	default:
		return publish(random.IntN(3), id, topic, kilobyte[:random.IntN(1024)], props)
	}
}
