package mqttserver

import (
	"emanet/internal/message"
	"emanet/internal/mqttwire"
)

// Wire types end here: what goes on to the broker aliases no packet buffer.

// translatePublish makes a message of a PUBLISH received at now (Unix ms). The topic is set by the broker,
// which keeps the strings of a connection's topics.
func translatePublish(p *mqttwire.Publish, now int64) *message.Message {
	m := &message.Message{
		Payload: append(make([]byte, 0, len(p.Payload)), p.Payload...), ReceivedAt: now, QoS: p.QoS, Retain: p.Retain,
	}
	if p.Props.Present == 0 {
		return m
	}
	if p.Props.Has(mqttwire.HasMessageExpiry) {
		m.ExpiresAt = now + int64(p.Props.MessageExpiry)*1000
	}
	m.Properties = translateProperties(&p.Props)
	return m
}

// forwarded are the properties that subscribers get unaltered ([MQTT-3.3.2-4], [MQTT-3.3.2-15],
// [MQTT-3.3.2-16], [MQTT-3.3.2-17], [MQTT-3.3.2-20]).
const forwarded = mqttwire.HasPayloadFormat | mqttwire.HasContentType | mqttwire.HasResponseTopic |
	mqttwire.HasCorrelationData | mqttwire.HasUser

func translateProperties(p *mqttwire.Properties) *message.Properties {
	if p.Present&forwarded == 0 {
		return nil
	}
	out := &message.Properties{
		HasPayloadFormat: p.Has(mqttwire.HasPayloadFormat),
		PayloadIsUTF8:    p.Has(mqttwire.HasPayloadFormat) && p.PayloadFormat == 1,
		HasContentType:   p.Has(mqttwire.HasContentType),
		HasResponseTopic: p.Has(mqttwire.HasResponseTopic),
		HasCorrelation:   p.Has(mqttwire.HasCorrelationData),
	}
	if out.HasContentType {
		out.ContentType = string(p.ContentType)
	}
	if out.HasResponseTopic {
		out.ResponseTopic = string(p.ResponseTopic)
	}
	if out.HasCorrelation {
		out.Correlation = append([]byte(nil), p.CorrelationData...)
	}
	for key, value := range p.User.All() {
		out.User = append(out.User, message.Pair{Key: string(key), Value: string(value)})
	}
	return out
}

// forward is the wire form of a message's properties.
func forward(p *message.Properties) []byte {
	var w mqttwire.Properties
	if p.HasPayloadFormat {
		w.Present |= mqttwire.HasPayloadFormat
		if p.PayloadIsUTF8 {
			w.PayloadFormat = 1
		}
	}
	if p.HasContentType {
		w.Present |= mqttwire.HasContentType
		w.ContentType = []byte(p.ContentType)
	}
	if p.HasResponseTopic {
		w.Present |= mqttwire.HasResponseTopic
		w.ResponseTopic = []byte(p.ResponseTopic)
	}
	if p.HasCorrelation {
		w.Present |= mqttwire.HasCorrelationData
		w.CorrelationData = p.Correlation
	}
	for _, u := range p.User {
		w.User = w.User.Append(u.Key, u.Value)
	}
	return w.AppendForward(nil)
}
