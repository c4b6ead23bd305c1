package mqttserver

import (
	"strings"

	"emanet/internal/broker"
	"emanet/internal/mqttwire"
	"emanet/internal/topic"
)

// handleSubscribe makes subscriptions. SUBACK has a code for each filter, and leaves when they are on
// disk ([MQTT-3.8.4-1], [MQTT-3.8.4-6]).
func (c *conn) handleSubscribe(f mqttwire.Frame) error {
	s := &c.scratch.subscribe
	if err := mqttwire.DecodeSubscribe(f, c.version, s); err != nil {
		return err
	}
	codes := make([]mqttwire.ReasonCode, len(s.Subscriptions))
	subs := make([]broker.Subscription, 0, len(s.Subscriptions))
	at := make([]int, 0, len(s.Subscriptions))
	for i := range s.Subscriptions {
		want := &s.Subscriptions[i]
		filter := string(want.Filter)
		if codes[i] = c.checkFilter(filter); codes[i].Failed() {
			continue
		}
		codes[i] = mqttwire.ReasonCode(want.QoS) // granted as asked
		at = append(at, i)
		subs = append(subs, broker.Subscription{
			Filter: filter, QoS: want.QoS, NoLocal: want.NoLocal, RetainAsPublished: want.RetainAsPublished,
			RetainHandling: uint8(want.RetainHandling), ID: s.Props.SubscriptionIDs.First(),
		})
	}
	granted, lsn, err := c.client.Subscribe(subs)
	if err != nil {
		return err
	}
	for k, ok := range granted {
		if !ok {
			codes[at[k]] = mqttwire.QuotaExceeded
		}
	}
	raw := mqttwire.AppendSuback(nil, &mqttwire.Suback{PacketID: s.PacketID, Codes: codes}, c.version)
	c.out.answer(answer{lsn: lsn, kind: mqttwire.TypeSuback, raw: raw})
	return nil
}

// checkFilter says why a filter is not taken, or success.
func (c *conn) checkFilter(filter string) mqttwire.ReasonCode {
	if strings.HasPrefix(filter, "$share/") {
		if _, _, _, err := topic.ParseShared(filter); err != nil {
			return mqttwire.TopicFilterInvalid
		}
		return mqttwire.SharedSubscriptionsNotSupported // CONNACK says so
	}
	if topic.CheckFilter(filter) != nil || strings.Count(filter, "/") >= c.server.opt.MaxTopicLevels {
		return mqttwire.TopicFilterInvalid
	}
	return mqttwire.Success
}

// handleUnsubscribe ends subscriptions ([MQTT-3.10.4-4] to [MQTT-3.10.4-6]).
func (c *conn) handleUnsubscribe(f mqttwire.Frame) error {
	u := &c.scratch.unsubscribe
	if err := mqttwire.DecodeUnsubscribe(f, c.version, u); err != nil {
		return err
	}
	filters := make([]string, len(u.Filters))
	for i := range u.Filters {
		filters[i] = string(u.Filters[i])
	}
	had, lsn, err := c.client.Unsubscribe(filters)
	if err != nil {
		return err
	}
	codes := make([]mqttwire.ReasonCode, len(filters))
	for i := range codes {
		if !had[i] {
			codes[i] = mqttwire.NoSubscriptionExisted
		}
	}
	raw := mqttwire.AppendUnsuback(nil, &mqttwire.Unsuback{PacketID: u.PacketID, Codes: codes}, c.version)
	c.out.answer(answer{lsn: lsn, kind: mqttwire.TypeUnsuback, raw: raw})
	return nil
}
