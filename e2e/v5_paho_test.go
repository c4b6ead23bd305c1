package e2e

import (
	"context"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/paho"

	. "emanet/e2e/harness"
)

func ptr[T any](v T) *T { return &v }

// One client asks another and gets its answer, with what MQTT 5 has for that, as its users write it.
func TestRequestAndResponseWithPahoGolang(t *testing.T) {
	t.Parallel()
	b, topic := Shared(t), Name("request")
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()

	requests, answers := make(chan *paho.Publish, 4), make(chan *paho.Publish, 4)
	server, ack := PahoGolang(t, b.Addr(), &paho.Connect{ClientID: Name("server"), CleanStart: true, KeepAlive: 30,
		Properties: &paho.ConnectProperties{ReceiveMaximum: ptr(uint16(5)), RequestProblemInfo: true}}, requests)
	if ack.SessionPresent {
		t.Error("session present after a clean start [MQTT-3.2.2-2]")
	}
	client, _ := PahoGolang(t, b.Addr(), &paho.Connect{ClientID: Name("client"), CleanStart: true, KeepAlive: 30}, answers)
	subscribe := func(c *paho.Client, filter string, id int) {
		t.Helper()
		_, err := c.Subscribe(ctx, &paho.Subscribe{Properties: &paho.SubscribeProperties{SubscriptionIdentifier: &id},
			Subscriptions: []paho.SubscribeOptions{{Topic: filter, QoS: 1}}})
		if err != nil {
			t.Fatal(err)
		}
	}
	subscribe(server, topic, 11)
	subscribe(client, topic+"/answers", 12)

	_, err := client.Publish(ctx, &paho.Publish{Topic: topic, QoS: 1, Payload: []byte("how cold is it?"), Properties: &paho.PublishProperties{
		ResponseTopic: topic + "/answers", CorrelationData: []byte{7}, ContentType: "text/plain", MessageExpiry: ptr(uint32(60)),
		User: paho.UserProperties{{Key: "room", Value: "cold"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	request := receive(t, requests)
	if p := request.Properties; p.ResponseTopic != topic+"/answers" || p.ContentType != "text/plain" || p.User.Get("room") != "cold" ||
		p.MessageExpiry == nil || *p.MessageExpiry > 60 || p.SubscriptionIdentifier == nil || *p.SubscriptionIdentifier != 11 {
		t.Fatalf("the request came with %+v", p)
	}
	_, err = server.Publish(ctx, &paho.Publish{Topic: request.Properties.ResponseTopic, QoS: 1, Payload: []byte("-11 C"),
		Properties: &paho.PublishProperties{CorrelationData: request.Properties.CorrelationData}})
	if err != nil {
		t.Fatal(err)
	}
	answer := receive(t, answers)
	if string(answer.Payload) != "-11 C" || len(answer.Properties.CorrelationData) != 1 || answer.Properties.CorrelationData[0] != 7 {
		t.Errorf("the answer is %q with %+v", answer.Payload, answer.Properties)
	}
}

func TestAnUnansweredWillOfPahoGolangComesAfterItsDelay(t *testing.T) {
	t.Parallel()
	b, topic := Shared(t), Name("will")
	got := make(chan *paho.Publish, 4)
	mourner, _ := PahoGolang(t, b.Addr(), &paho.Connect{ClientID: Name("mourner"), CleanStart: true, KeepAlive: 30}, got)
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	if _, err := mourner.Subscribe(ctx, &paho.Subscribe{Subscriptions: []paho.SubscribeOptions{{Topic: topic, QoS: 1}}}); err != nil {
		t.Fatal(err)
	}
	leaver, _ := PahoGolang(t, b.Addr(), &paho.Connect{ClientID: Name("leaver"), CleanStart: true, KeepAlive: 30,
		Properties:     &paho.ConnectProperties{SessionExpiryInterval: ptr(uint32(60))},
		WillMessage:    &paho.WillMessage{Topic: topic, Payload: []byte("gone"), QoS: 1},
		WillProperties: &paho.WillProperties{WillDelayInterval: ptr(uint32(1))}}, nil)
	began := time.Now()
	if err := leaver.Disconnect(&paho.Disconnect{ReasonCode: 0x04}); err != nil { // leave, and have the will sent
		t.Fatal(err)
	}
	if p := receive(t, got); string(p.Payload) != "gone" {
		t.Errorf("the will is %q", p.Payload)
	}
	if took := time.Since(began); took < 900*time.Millisecond {
		t.Errorf("a will with a delay of 1 s came after %v", took)
	}
}

func receive(t *testing.T, from <-chan *paho.Publish) *paho.Publish {
	t.Helper()
	select {
	case p := <-from:
		return p
	case <-time.After(Patience):
		t.Fatalf("nothing within %v", Patience)
		return nil
	}
}
