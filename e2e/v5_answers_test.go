package e2e

import (
	"strings"
	"testing"

	. "emanet/e2e/harness"
)

// notText is a payload that its format indicator calls text.
var notText = Packet{Payload: []byte("caf\xe9"), Props: Props{Num(PayloadFormat, 1)}}

func TestAPayloadThatIsNotTheTextItClaimsToBeIsRefused(t *testing.T) { // 3.3.2.3.2
	OnlyEmanet(t)
	t.Parallel()
	b, topic := Shared(t), Name("topic")
	s := Open(t, b.Addr(), Clean(5, Name("s")))
	s.Subscribe(To(topic, 2))
	p := Open(t, b.Addr(), Clean(5, Name("p")))
	send := notText
	send.Topic = topic
	for send.QoS = 1; send.QoS <= 2; send.QoS++ {
		answer := p.PublishPacket(send)
		why, _ := answer.Props.Find(ReasonString)
		if answer.Code != 0x99 || !strings.Contains(why.Str, "UTF-8") {
			t.Errorf("QoS %d was answered by %v, %q", send.QoS, answer, why.Str)
		}
	}
	p.PublishPacket(Packet{Topic: topic, Payload: []byte("café"), Props: Props{Num(PayloadFormat, 1)}})
	if m := s.ExpectPublish(topic, "café"); len(m.Props) != 1 || m.Props[0] != Num(PayloadFormat, 1) {
		t.Errorf("it came with %v [MQTT-3.3.2-4]", m.Props)
	}
	send.QoS = 0
	p.PublishPacket(send)
	if last := p.ExpectClosed(); last.Code != 0x99 {
		t.Errorf("at QoS 0 the connection ended with %v", last)
	}
	expectNothingBefore(t, b, s, topic)

	will := Clean(5, Name("w"))
	will.Will = &Will{Topic: topic, Payload: "caf\xe9", Props: Props{Num(PayloadFormat, 1)}}
	w := Dial(t, b.Addr(), 5)
	w.Write(will.Bytes())
	if last := w.ExpectClosed(); last.Type != CONNACK || last.Code != 0x99 {
		t.Errorf("a will that is not what it claims was answered by %v", last)
	}
}

func TestResponseInformationIsForWhoAsks(t *testing.T) {
	OnlyEmanet(t)
	t.Parallel()
	b := Start(t, "--mqtt-response-information", "answers/")
	for asks, want := range map[uint32]string{0: "", 1: "answers/asker"} { // [MQTT-3.1.2-28]
		connect := Clean(5, "asker")
		connect.Props = Props{Num(RequestResponseInfo, asks)}
		c := Open(t, b.Addr(), connect)
		if got, _ := c.Connack.Props.Find(ResponseInfo); got.Str != want {
			t.Errorf("asking %d got %q, not %q", asks, got.Str, want)
		}
	}
	connect := Clean(5, Name("asker"))
	connect.Props = Props{Num(RequestResponseInfo, 1)}
	c := Open(t, Shared(t).Addr(), connect)
	if got, ok := c.Connack.Props.Find(ResponseInfo); ok {
		t.Errorf("without configuration there is response information %q", got.Str)
	}
}

func TestTheServersKeepAliveStandsAboveTheClients(t *testing.T) { // [MQTT-3.1.2-21], [MQTT-3.1.2-22]
	OnlyEmanet(t)
	t.Parallel()
	b := Start(t, "--mqtt-max-keep-alive", "1s")
	connect := Clean(5, "c")
	connect.KeepAlive = 600
	c := Open(t, b.Addr(), connect)
	if got, _ := c.Connack.Props.Find(ServerKeepAlive); got.Int != 1 {
		t.Errorf("CONNACK says a keep-alive of %d s", got.Int)
	}
	if last := c.ExpectClosed(); last.Code != 0x8D {
		t.Errorf("a silent client was ended with %v, not 0x8D", last)
	}
	connect.KeepAlive = 1
	if got, ok := Open(t, b.Addr(), connect).Connack.Props.Find(ServerKeepAlive); ok {
		t.Errorf("CONNACK repeats the client's own keep-alive: %v", got)
	}
}

func TestAPublishThatNobodyMatchesIsToldSo(t *testing.T) { // 3.4.2.1, 3.5.2.1
	OnlyEmanet(t)
	t.Parallel()
	b, topic := Shared(t), Name("topic")
	p := Open(t, b.Addr(), Clean(5, Name("p")))
	expect := func(want byte) {
		t.Helper()
		if got := p.Publish(topic, "x", 1); got.Code != want {
			t.Errorf("PUBACK is %v, not %#x", got, want)
		}
		id := p.NextID()
		p.Send(Packet{Type: PUBLISH, Topic: topic, QoS: 2, ID: id})
		if got := p.Expect(PUBREC); got.Code != want {
			t.Errorf("PUBREC is %v, not %#x", got, want)
		}
		p.Send(Packet{Type: PUBREL, ID: id})
		if got := p.Expect(PUBCOMP); got.Code != 0 {
			t.Errorf("PUBCOMP is %v", got)
		}
	}
	expect(0x10)
	s := Open(t, b.Addr(), Clean(4, Name("s")))
	s.Subscribe(To(topic, 0))
	expect(0)
	s.Disconnect()
	expect(0x10)
}

func TestAuthenticationThatIsNotOfferedIsRefused(t *testing.T) {
	OnlyEmanet(t)
	t.Parallel()
	b := Shared(t)
	for name, test := range map[string]struct {
		props Props
		code  byte
	}{
		"a method":          {Props{Text(AuthMethod, "SCRAM-SHA-256")}, 0x8C},                        // [MQTT-4.12.0-1]
		"a method and data": {Props{Text(AuthMethod, "SCRAM-SHA-256"), Text(AuthData, "n,,")}, 0x8C}, // the same
		"data alone":        {Props{Text(AuthData, "n,,")}, 0x82},                                    // 3.1.2.11.10
		"a server to go to": {Props{Text(ServerReference, "elsewhere")}, 0x81},                       // table 2-4
	} {
		connect := Clean(5, Name("c"))
		connect.Props = test.props
		c := Dial(t, b.Addr(), 5)
		c.Write(connect.Bytes())
		if last := c.ExpectClosed(); last.Type != CONNACK || last.Code != test.code {
			t.Errorf("%s was answered by %v, not %#x", name, last, test.code)
		}
	}
	for name, packet := range map[string][]byte{ // [MQTT-4.12.0-6]
		"AUTH":                         {0xF0, 0},
		"AUTH with a method":           {0xF0, 6, 0x18, 4, 0x15, 0, 1, 'm'},
		"DISCONNECT to another server": {0xE0, 1, 0x9C},
	} {
		c := Open(t, b.Addr(), Clean(5, Name("c")))
		c.Write(packet)
		if last := c.ExpectClosed(); last.Code != 0x82 {
			t.Errorf("%s was answered by %v, not 0x82", name, last)
		}
	}
}

func TestAClientThatWantsNoProblemInformationGetsNoneInItsAnswers(t *testing.T) { // [MQTT-3.1.2-29]
	OnlyEmanet(t)
	t.Parallel()
	b := Shared(t)
	for wants := range uint32(2) {
		connect := Clean(5, Name("c"))
		connect.Props = Props{Num(RequestProblemInfo, wants)}
		c := Open(t, b.Addr(), connect)
		answers := []Packet{c.Publish("$SYS/mine", "x", 1), c.Publish("$SYS/mine", "x", 2), c.SubscribeWith(nil, To("a/#/b", 0))}
		c.Send(Packet{Type: PUBREL, ID: 77})
		answers = append(answers, c.Expect(PUBCOMP))
		for _, p := range answers {
			if why, ok := p.Props.Find(ReasonString); ok != (wants == 1) || ok && why.Str == "" {
				t.Errorf("wanting %d got %v with %v", wants, p, p.Props)
			}
		}
	}
}
