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
	for _, r := range []retainedReader{
		{name: "QoS 0", connect: Clean(4, "qos0")},
		{name: "QoS 0, slow", connect: Clean(4, "qos0 slow"), slow: true},
		{name: "QoS 1", connect: Clean(4, "qos1"), qos: 1},
		{name: "QoS 1, slow", connect: Clean(5, "qos1 slow"), qos: 1, slow: true},
		{name: "QoS 1, three at a time", connect: Clean(5, "qos1 window"), qos: 1, window: 3},
		{name: "QoS 2, persistent, ten at a time", connect: Persistent(5, "qos2 window"), qos: 2, window: 10},
	} {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			r.readAll(t, r.subscribe(t, b), topics)
		})
	}
}

type retainedReader struct {
	name    string
	connect Connect
	qos     byte
	window  uint32 // Receive Maximum; 0 sends none
	slow    bool   // as behind a line of about 2 MB/s
}

func (r *retainedReader) subscribe(t *testing.T, b *Broker) *Client {
	t.Helper()
	if r.window > 0 {
		r.connect.Props = append(r.connect.Props, Num(ReceiveMaximum, r.window))
	}
	c := Dial(t, b.Addr(), r.connect.Version)
	if r.slow {
		if err := c.Conn().SetReadBuffer(32 << 10); err != nil {
			t.Fatal(err)
		}
	}
	c.Write(r.connect.Bytes())
	c.Expect(CONNACK)
	c.Write(SubscribeBytes(c.Version, 1, nil, To("r/#", r.qos)))
	return c
}

// readAll wants each of the topics once, and nothing else.
func (r *retainedReader) readAll(t *testing.T, c *Client, topics int) {
	t.Helper()
	line := time.NewTicker(time.Millisecond)
	defer line.Stop()
	seen := make([]bool, topics)
	for got, asked := 0, false; ; {
		m := c.Read()
		switch {
		case m.Type == SUBACK:
		case m.Type == PUBREL:
			c.Send(Packet{Type: PUBCOMP, ID: m.ID})
		case m.Type == PINGRESP && asked:
			return
		case m.Type == PUBLISH && got < topics:
			i, err := strconv.Atoi(strings.TrimPrefix(m.Topic, "r/"))
			if err != nil || !m.Retain || m.QoS != r.qos || seen[i] || !strings.HasPrefix(string(m.Payload), fmt.Sprint(i, " ")) {
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
			if r.slow && got%10 == 0 {
				<-line.C
			}
		default:
			t.Fatalf("after %d messages: %v", got, m)
		}
		if got == topics && !asked {
			asked = true
			c.Send(Packet{Type: PINGREQ})
		}
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
