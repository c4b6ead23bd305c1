package mqttserver

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"

	"emanet/internal/broker"
)

// FuzzConnection feeds bytes to a connection, after a CONNECT or not. Whatever they are: it ends or answers, a
// packet at a time, and nothing is left of it (goleak).
func FuzzConnection(f *testing.F) {
	add := func(greeting byte, packets ...[]byte) { f.Add(greeting, bytes.Join(packets, nil)) }
	add(0, v5("a").bytes(), pingreq)
	add(0, v311("").bytes())
	add(1, subscribe311(1, "#", 2), pub311(2, 1, "t", "x"), ack(0x50, 2), ack(0x62, 1), ack(0x70, 2), ack(0x40, 2), disconnect)
	add(2, subscribe5(1, "t/#", 2, "$share/g/t", 1), retain(publish(1, 1, "t/a", "x", cat(0x26, str("k"), str("v"), 0x02, uint32(5)))),
		pkt(0xA2, uint16(2), 0, str("t/#")), pkt(0xE0, 4, sized(cat(0x11, uint32(7)))))
	add(2, publish(0, 0, "", "", cat(0x23, uint16(1))), pkt(0xF0, 0x18, sized(cat(0x15, str("m")))))
	add(4, subscribe5(1, "#", 0), aliased(0, 0, "topic/one", "x", 1), aliased(1, 1, "", "y", 1), aliased(0, 0, "topic/one", "z", 2), aliased(0, 0, "", "", 3))
	add(4, publish(1, 1, "t", "\xff", utf8Format), publish(2, 2, "t", "text", utf8Format), publish(0, 0, "t", "\xff", utf8Format))
	add(4, pub5(1, 1, "$SYS/a", ""), subscribe5(2, "a/#/b", 0), pkt(0xE0, 0x9C, sized(cat(0x1C, str("elsewhere")))))
	add(3, bytes.Repeat(pingreq, 100), pub5(2, 1, "a", ""), dup(pub5(2, 1, "a", "")), ack(0x62, 1), ack(0x62, 1))

	r := start(f, func(r *rig) {
		r.opt.MaxPacket, r.opt.ReceiveMaximum, r.opt.MaxLiveBytes = 4096, 3, 4096
		r.opt.TopicAliasMax, r.opt.TopicAliasMaxOut, r.opt.ResponsePrefix = 2, 2, "answers/"
		r.broOpt = broker.Options{MaxQueued: 10, MaxRetained: 10, MaxSubs: 20}
	})
	greetings := [][]byte{nil, v311live("f").bytes(), v5("f").with(0x27, uint32(64)).bytes(),
		hello{version: 5, id: "f", will: &will{topic: "t/w", qos: 1}}.bytes(),
		v5live("f").with(0x22, uint16(2), 0x17, 0, 0x19, 1, 0x27, uint32(80)).bytes()}
	f.Fuzz(func(t *testing.T, greeting byte, input []byte) {
		defer func() { r.TB = f }()
		ours, theirs := net.Pipe()
		r.server.serveConn(theirs)
		var answer bytes.Buffer
		read := make(chan struct{})
		go func() {
			defer close(read)
			_, _ = io.Copy(&answer, ours)
		}()
		_ = ours.SetWriteDeadline(time.Now().Add(patience))
		_, err := ours.Write(append(greetings[int(greeting)%len(greetings)], input...))
		_ = err // the server may have closed it
		// One who has sent half a packet waits for the rest: closing is all that is left to do.
		_ = ours.Close()
		<-read
		r.TB = t
		r.eventually("the end", func() bool { return r.stats().Connections.Load() == 0 })
		checkAnswer(t, answer.Bytes())
	})
}

// checkAnswer says that whole packets came, CONNACK first, but for one that the close has cut.
func checkAnswer(t *testing.T, answer []byte) {
	t.Helper()
	for first := true; len(answer) >= 2; first = false {
		if is := answer[0] == 0x20; is != first {
			t.Fatalf("CONNACK at %v, first %v: %s", is, first, show(answer))
		}
		n := int(answer[1])
		if answer[1] >= 0x80 {
			return // a long one: what follows is not looked at
		}
		answer = answer[min(2+n, len(answer)):]
	}
}
