package mqttserver

import "testing"

func TestTrafficCountsPacketsByTypeBytesAndPayloadsBothWays(t *testing.T) {
	t.Parallel()
	r := start(t)
	p := r.dial()
	sent, got := 0, 0
	say := func(packet []byte) {
		p.send(packet)
		sent += len(packet)
	}
	hear := func(n int) {
		for range n {
			got += len(p.next())
		}
	}
	say(v5live("c").bytes())
	hear(1)
	say(subscribe5(1, "t", 1))
	hear(1)
	say(pub5(0, 0, "t", "four"))
	hear(1)
	say(pub5(1, 7, "t", "payload"))
	hear(2) // the message and its PUBACK
	say(pingreq)
	hear(1)
	say(disconnect)
	p.closed()

	var flow Traffic
	r.eventually("the packets of the story", func() bool {
		flow = r.server.Traffic()
		return flow.In.All() == 6 && flow.Out.All() == 6
	})
	for _, dir := range []struct {
		name           string
		flow           Flow
		packets        map[string]uint64
		bytes, payload uint64
	}{
		{"in", flow.In, map[string]uint64{"CONNECT": 1, "SUBSCRIBE": 1, "PUBLISH": 2, "PINGREQ": 1, "DISCONNECT": 1}, uint64(sent), 11},
		{"out", flow.Out, map[string]uint64{"CONNACK": 1, "SUBACK": 1, "PUBLISH": 2, "PUBACK": 1, "PINGRESP": 1}, uint64(got), 11},
	} {
		dir.flow.Each(func(name string, n uint64) {
			if n != dir.packets[name] {
				t.Errorf("%s: %d %s, want %d", dir.name, n, name, dir.packets[name])
			}
		})
		if dir.flow.Bytes != dir.bytes || dir.flow.Payload != dir.payload {
			t.Errorf("%s: %d bytes and %d of payload, want %d and %d", dir.name, dir.flow.Bytes, dir.flow.Payload, dir.bytes, dir.payload)
		}
	}
	if flow.Acknowledged != 1 {
		t.Errorf("%d acknowledged", flow.Acknowledged)
	}
}
