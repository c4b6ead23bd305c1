package harness

import (
	"context"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/packets"
	v5 "github.com/eclipse/paho.golang/paho"
	v3 "github.com/eclipse/paho.mqtt.golang"
)

// pahoGo is github.com/eclipse/paho.mqtt.golang, MQTT 3.1.1.
func pahoGo() RealClient {
	options := func(t testing.TB, addr, id string) *v3.ClientOptions {
		t.Helper()
		e := ParseEndpoint(t, addr)
		return v3.NewClientOptions().AddBroker(e.URL(e.Scheme)).SetTLSConfig(e.TLS(t)).SetClientID(id).SetCleanSession(false).SetAutoReconnect(false)
	}
	wait := func(t testing.TB, what string, token v3.Token) {
		t.Helper()
		if !token.WaitTimeout(Patience) {
			t.Fatalf("paho Go, %s: nothing within %v", what, Patience)
		}
		if token.Error() != nil {
			t.Fatalf("paho Go, %s: %v", what, token.Error())
		}
	}
	return RealClient{
		Name: "paho Go", WebSocket: true,
		Subscribe: func(t testing.TB, addr, id, filter string) {
			t.Helper()
			c := v3.NewClient(options(t, addr, id))
			wait(t, "connect", c.Connect())
			wait(t, "subscribe", c.Subscribe(filter, 2, nil))
			c.Disconnect(100)
		},
		Publish: func(t testing.TB, addr, id, topic string, payloads ...string) {
			t.Helper()
			c := v3.NewClient(options(t, addr, id))
			wait(t, "connect", c.Connect())
			for _, payload := range payloads {
				wait(t, "publish", c.Publish(topic, 2, false, payload))
			}
			c.Disconnect(100)
		},
		Receive: func(t testing.TB, addr, id, _ string, count int) []string {
			t.Helper()
			got := make(chan string, count+10)
			o := options(t, addr, id).SetDefaultPublishHandler(func(_ v3.Client, m v3.Message) {
				got <- m.Topic() + " " + string(m.Payload())
			})
			c := v3.NewClient(o)
			wait(t, "connect", c.Connect())
			defer c.Disconnect(250)
			return gather(t, "paho Go", got, count)
		},
	}
}

// PahoGolang connects github.com/eclipse/paho.golang, MQTT 5, with the given session expiry, and gives what it
// receives on the channel.
func PahoGolang(t testing.TB, addr string, connect *v5.Connect, got chan<- *v5.Publish) (*v5.Client, *v5.Connack) {
	t.Helper()
	conn, err := ParseEndpoint(t, addr).Connect(t)
	if err != nil {
		t.Fatal(err)
	}
	c := v5.NewClient(v5.ClientConfig{
		Conn: packets.NewThreadSafeConn(conn), // it writes a packet in pieces and a ping between them, where no writev keeps them together
		OnPublishReceived: []func(v5.PublishReceived) (bool, error){func(p v5.PublishReceived) (bool, error) {
			if got != nil {
				got <- p.Packet
			}
			return true, nil
		}},
	})
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	ack, err := c.Connect(ctx, connect)
	if err != nil {
		t.Fatalf("paho.golang, connect: %v", err)
	}
	return c, ack
}

func pahoGolang() RealClient {
	open := func(t testing.TB, addr, id string, got chan<- *v5.Publish) *v5.Client {
		t.Helper()
		expiry := uint32(3600)
		c, _ := PahoGolang(t, addr, &v5.Connect{ClientID: id, KeepAlive: 30,
			Properties: &v5.ConnectProperties{SessionExpiryInterval: &expiry}}, got)
		return c
	}
	leave := func(t testing.TB, c *v5.Client) {
		t.Helper()
		if err := c.Disconnect(&v5.Disconnect{}); err != nil {
			t.Errorf("paho.golang, disconnect: %v", err)
		}
	}
	return RealClient{
		Name: "paho.golang", WebSocket: true,
		Subscribe: func(t testing.TB, addr, id, filter string) {
			t.Helper()
			c := open(t, addr, id, nil)
			ctx, cancel := context.WithTimeout(context.Background(), Patience)
			defer cancel()
			if _, err := c.Subscribe(ctx, &v5.Subscribe{Subscriptions: []v5.SubscribeOptions{{Topic: filter, QoS: 2}}}); err != nil {
				t.Fatalf("paho.golang, subscribe: %v", err)
			}
			leave(t, c)
		},
		Publish: func(t testing.TB, addr, id, topic string, payloads ...string) {
			t.Helper()
			c := open(t, addr, id, nil)
			for _, payload := range payloads {
				ctx, cancel := context.WithTimeout(context.Background(), Patience)
				if _, err := c.Publish(ctx, &v5.Publish{Topic: topic, QoS: 2, Payload: []byte(payload)}); err != nil {
					t.Fatalf("paho.golang, publish: %v", err)
				}
				cancel()
			}
			leave(t, c)
		},
		Receive: func(t testing.TB, addr, id, _ string, count int) []string {
			t.Helper()
			packets := make(chan *v5.Publish, count+10)
			c := open(t, addr, id, packets)
			defer leave(t, c)
			var got []string
			for len(got) < count {
				select {
				case p := <-packets:
					got = append(got, p.Topic+" "+string(p.Payload))
				case <-time.After(Patience):
					t.Fatalf("paho.golang received %d of %d messages: %q", len(got), count, got)
				}
			}
			return got
		},
	}
}

func gather(t testing.TB, who string, from <-chan string, count int) (got []string) {
	t.Helper()
	for len(got) < count {
		select {
		case m := <-from:
			got = append(got, m)
		case <-time.After(Patience):
			t.Fatalf("%s received %d of %d messages: %q", who, len(got), count, got)
		}
	}
	return got
}
