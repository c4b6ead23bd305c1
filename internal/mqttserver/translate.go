package mqttserver

import (
	"strings"

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
	out.User = translateUser(p.User)
	return out
}

// translateUser makes pairs of user properties: their text is allocated once.
func translateUser(user mqttwire.UserProperties) []message.Pair {
	pairs := 0
	for range user.All() {
		pairs++
	}
	if pairs == 0 {
		return nil
	}
	var text strings.Builder
	text.Grow(len(user))
	add := func(b []byte) string {
		at := text.Len()
		text.Write(b)
		return text.String()[at:]
	}
	out := make([]message.Pair, 0, pairs)
	for key, value := range user.All() {
		out = append(out, message.Pair{Key: add(key), Value: add(value)})
	}
	return out
}

// forward is the wire form of a message's properties.
func forward(p *message.Properties) []byte {
	w := mqttwire.Properties{
		ContentType: []byte(p.ContentType), ResponseTopic: []byte(p.ResponseTopic), CorrelationData: p.Correlation,
	}
	if p.HasPayloadFormat {
		w.Present |= mqttwire.HasPayloadFormat
		if p.PayloadIsUTF8 {
			w.PayloadFormat = 1
		}
	}
	if p.HasContentType {
		w.Present |= mqttwire.HasContentType
	}
	if p.HasResponseTopic {
		w.Present |= mqttwire.HasResponseTopic
	}
	if p.HasCorrelation {
		w.Present |= mqttwire.HasCorrelationData
	}
	for _, u := range p.User {
		w.User = w.User.Append(u.Key, u.Value)
	}
	return w.AppendForward(make([]byte, 0, 16+len(p.ContentType)+len(p.ResponseTopic)+len(p.Correlation)+len(w.User)))
}
