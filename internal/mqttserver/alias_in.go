package mqttserver

import "emanet/internal/mqttwire"

// inboundAliases are the topics that a client has given numbers to. They end with the connection ([MQTT-3.3.2-7]),
// and cost nothing before the first is used.
type inboundAliases struct {
	max    uint16 // as announced in CONNACK
	topics map[uint16][]byte
	bytes  int // of topics
}

// inboundAliasBytes is what the topics of one client's aliases may take for each alias it was allowed: far more than
// topics of devices have, and far less than the 64 KiB that a topic may have.
const inboundAliasBytes = 1 << 10

// resolve puts the topic of p's alias in its place, and keeps it when it comes with one. What it puts there stays as it
// is until the connection ends. Nothing is allocated for a topic that is known already.
func (a *inboundAliases) resolve(p *mqttwire.Publish) error {
	alias := p.Props.TopicAlias
	if alias > a.max { // [MQTT-3.3.2-9]; 0 is refused by the codec ([MQTT-3.3.2-8])
		return &mqttwire.ProtocolError{Code: mqttwire.TopicAliasInvalid, Text: "topic alias above the maximum that CONNACK allows"}
	}
	known, ok := a.topics[alias]
	switch {
	case len(p.Topic) == 0 && !ok:
		return protocolError("topic alias that was not given a topic on this connection")
	case len(p.Topic) == 0:
		p.Topic = known
		return nil
	case ok && string(known) == string(p.Topic):
		return nil
	}
	size := a.bytes - len(known) + len(p.Topic)
	if size > max(inboundAliasBytes*int(a.max), mqttTopicMax) {
		return &mqttwire.ProtocolError{Code: mqttwire.QuotaExceeded, Text: "the topics of all aliases are too long together"}
	}
	if a.topics == nil {
		a.topics = make(map[uint16][]byte)
	}
	a.topics[alias] = append([]byte(nil), p.Topic...)
	a.bytes = size
	return nil
}

// mqttTopicMax is the longest topic that MQTT can say.
const mqttTopicMax = 1<<16 - 1
