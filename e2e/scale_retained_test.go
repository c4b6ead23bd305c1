package e2e

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	. "emanet/e2e/harness"
)

// A dashboard that subscribes to everything gets everything that is retained, once each, however it reads: more
// messages than fit into any window, outbox or mailbox on the way.
func TestFortyThousandRetainedMessagesReachASubscriberOnce(t *testing.T) {
	t.Parallel()
	OnlyEmanet(t) // mosquitto drops what does not fit its queue
	const topics = 40_000
	b := Start(t, "--mqtt-max-queued", "1000", "--mqtt-max-qos0-outbox", "64KiB")
	retainMany(t, b, "r", topics, 200, 2)
	cases := []struct {
		name    string
		connect Connect
		qos     byte
		window  uint32 // Receive Maximum
		slow    bool
	}{
		{name: "QoS 0", connect: Clean(4, "qos0")},
		{name: "QoS 0, slow", connect: Clean(4, "qos0 slow"), slow: true},
		{name: "QoS 1", connect: Clean(4, "qos1"), qos: 1},
		{name: "QoS 1, slow", connect: Clean(5, "qos1 slow"), qos: 1, slow: true},
		{name: "QoS 1, three at a time", connect: Clean(5, "qos1 window"), qos: 1, window: 3},
		{name: "QoS 2, persistent, ten at a time", connect: Persistent(5, "qos2 window"), qos: 2, window: 10},
	}
	for _, test := range cases {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if test.window > 0 {
				test.connect.Props = append(test.connect.Props, Num(ReceiveMaximum, test.window))
			}
			c := Dial(t, b.Addr(), test.connect.Version)
			if test.slow {
				if err := c.Conn().SetReadBuffer(32 << 10); err != nil {
					t.Fatal(err)
				}
			}
			c.Write(test.connect.Bytes())
			c.Expect(CONNACK)
			c.Write(SubscribeBytes(test.connect.Version, 1, nil, To("r/#", test.qos)))
			pause := func() {}
			if test.slow { // as a reader behind a line of about 2 MB/s
				tick := time.NewTicker(time.Millisecond)
				defer tick.Stop()
				pause = func() { <-tick.C }
			}
			seen := make([]bool, topics)
			for got := 0; got < topics; {
				m := c.Read()
				switch m.Type {
				case SUBACK:
					continue
				case PUBREL:
					c.Send(Packet{Type: PUBCOMP, ID: m.ID})
					continue
				case PUBLISH:
				default:
					t.Fatalf("%v", m)
				}
				i, err := strconv.Atoi(strings.TrimPrefix(m.Topic, "r/"))
				if err != nil || !m.Retain || m.QoS != test.qos || seen[i] || !strings.HasPrefix(string(m.Payload), fmt.Sprint(i, " ")) {
					t.Fatalf("after %d messages: %v", got, m)
				}
				seen[i] = true
				got++
				switch m.QoS {
				case 1:
					c.Ack(m)
				case 2:
					c.Send(Packet{Type: PUBREC, ID: m.ID})
				}
				if got%10 == 0 {
					pause()
				}
			}
			c.Send(Packet{Type: PINGREQ})
			for m := c.Read(); m.Type != PINGRESP; m = c.Read() { // nothing else comes
				if m.Type != PUBREL {
					t.Fatalf("after all messages: %v", m)
				}
				c.Send(Packet{Type: PUBCOMP, ID: m.ID})
			}
		})
	}
}

// retainMany publishes a retained message "I …" of some size to each of topics base/I, from a few connections.
func retainMany(t *testing.T, b *Broker, base string, topics, size int, qos byte) {
	t.Helper()
	const publishers, window = 4, 500
	done := make(chan error, publishers)
	for p := range publishers {
		c := Open(t, b.Addr(), Clean(4, Name("retainer")))
		go func() {
			sent, acked := 0, 0
			take := func(most int) error {
				for sent-acked > most {
					m, err := c.TryRead(Patience)
					switch {
					case err != nil:
						return fmt.Errorf("publisher %d, %d acknowledged: %w", p, acked, err)
					case m.Type == PUBREC:
						c.Send(Packet{Type: PUBREL, ID: m.ID})
					default:
						acked++
					}
				}
				return nil
			}
			var batch bytes.Buffer
			for i := p; i < topics; i += publishers {
				payload := fmt.Appendf(nil, "%d ", i)
				payload = append(payload, bytes.Repeat([]byte("x"), max(0, size-len(payload)))...)
				sent++
				batch.Write(Packet{Type: PUBLISH, QoS: qos, ID: uint16(sent%60_000 + 1), Retain: true, Topic: fmt.Sprintf("%s/%d", base, i), Payload: payload}.Bytes(4))
				if sent%100 != 0 && i+publishers < topics {
					continue
				}
				if err := c.TryWrite(batch.Bytes()); err != nil {
					done <- err
					return
				}
				batch.Reset()
				if err := take(window); err != nil {
					done <- err
					return
				}
			}
			done <- take(0)
		}()
	}
	for range publishers {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
}
