package mqttserver

import (
	"emanet/internal/broker"
	"emanet/internal/mqttwire"
	"emanet/internal/store"
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
	if err := c.checkAnswer(len(codes)); err != nil {
		return err
	}
	subs := make([]broker.Subscription, 0, len(s.Subscriptions))
	at := make([]int, 0, len(s.Subscriptions))
	for i := range s.Subscriptions {
		want := &s.Subscriptions[i]
		filter := string(want.Filter)
		if want.NoLocal && topic.IsShared(filter) { // [MQTT-3.8.3-4]
			return protocolError("no-local on a shared subscription")
		}
		if codes[i] = c.checkFilter(filter); codes[i].Failed() {
			continue
		}
		if !c.maySubscribe(filter) {
			codes[i] = mqttwire.NotAuthorized
			continue
		}
		codes[i] = mqttwire.ReasonCode(want.QoS) // granted as asked
		at = append(at, i)
		subs = append(subs, broker.Subscription{
			Filter: filter, QoS: want.QoS, NoLocal: want.NoLocal, RetainAsPublished: want.RetainAsPublished,
			RetainHandling: uint8(want.RetainHandling), ID: s.Props.SubscriptionIDs.First(),
		})
	}
	c.out.beginSubscribe()
	var granted []bool
	var lsn store.LSN
	err := c.whenRoom(func() (err error) {
		granted, lsn, err = c.client.Subscribe(subs)
		return err
	})
	if err != nil {
		return err
	}
	for k, ok := range granted {
		if !ok {
			c.server.stats.OverQuota.Add(1)
			codes[at[k]] = mqttwire.QuotaExceeded
		}
	}
	c.noteRefusedSubscriptions(s.Subscriptions, codes)
	c.out.answer(answer{lsn: lsn, kind: mqttwire.TypeSuback, raw: c.suback(s.PacketID, codes)})
	return nil
}

// checkAnswer refuses a packet whose answer the client would not take ([MQTT-3.1.2-24]).
func (c *conn) checkAnswer(codes int) error {
	const most = 5 + 2 + 1 // header, packet identifier, no properties
	if c.maxOut != 0 && uint64(most+codes) > uint64(c.maxOut) {
		return &mqttwire.ProtocolError{
			Code: mqttwire.PacketTooLarge, Text: "the answer would exceed the client's maximum packet size",
		}
	}
	return nil
}

// checkFilter says why a filter is not taken, or success.
func (c *conn) checkFilter(filter string) mqttwire.ReasonCode {
	if _, inner, shared, err := topic.ParseShared(filter); shared {
		if err != nil { // [MQTT-4.8.2-1], [MQTT-4.8.2-2]
			return mqttwire.TopicFilterInvalid
		}
		filter = inner
	}
	if topic.CheckFilter(filter) != nil || c.topicTooLarge([]byte(filter)) != "" {
		return mqttwire.TopicFilterInvalid
	}
	return mqttwire.Success
}

// handleUnsubscribe ends subscriptions ([MQTT-3.10.4-4], [MQTT-3.10.4-5], [MQTT-3.10.4-6]).
func (c *conn) handleUnsubscribe(f mqttwire.Frame) error {
	u := &c.scratch.unsubscribe
	if err := mqttwire.DecodeUnsubscribe(f, c.version, u); err != nil {
		return err
	}
	if err := c.checkAnswer(len(u.Filters)); err != nil {
		return err
	}
	filters := make([]string, len(u.Filters))
	for i := range u.Filters {
		filters[i] = string(u.Filters[i])
	}
	var had []bool
	var lsn store.LSN
	err := c.whenRoom(func() (err error) {
		had, lsn, err = c.client.Unsubscribe(filters)
		return err
	})
	if err != nil {
		return err
	}
	codes := make([]mqttwire.ReasonCode, len(filters))
	for i := range codes {
		codes[i] = unsubscribed(filters[i], had[i])
	}
	c.out.answer(answer{lsn: lsn, kind: mqttwire.TypeUnsuback, raw: c.unsuback(u.PacketID, codes)})
	return nil
}

func unsubscribed(filter string, had bool) mqttwire.ReasonCode {
	switch {
	case had:
		return mqttwire.Success
	case !topic.IsShared(filter) && topic.CheckFilter(filter) != nil:
		return mqttwire.TopicFilterInvalid
	}
	return mqttwire.NoSubscriptionExisted // [MQTT-3.11.3-2]
}
