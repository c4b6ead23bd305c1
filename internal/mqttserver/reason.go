package mqttserver

import (
	"fmt"
	"strings"

	"emanet/internal/mqttwire"
)

// Reason strings are for whoever looks for a fault: every refusal has one, in an MQTT 5 packet that has room for it
// within the client's Maximum Packet Size, and says in words of ours what the code cannot. Never a client's bytes.

// reasonMax is the longest reason string.
const reasonMax = 200

// mayExplain tells whether PUBACK, PUBREC, PUBREL, PUBCOMP, SUBACK and UNSUBACK may carry a reason string: not for a
// client that wants no problem information ([MQTT-3.1.2-29]).
func (c *conn) mayExplain() bool { return c.version == mqttwire.V5 && !c.terse }

// fits tells whether the client takes a packet of n bytes ([MQTT-3.1.2-24]).
func (c *conn) fits(n int) bool { return c.maxOut == 0 || uint64(n) <= uint64(c.maxOut) }

// appendAck encodes an acknowledgement, a failed one with its reason ([MQTT-3.4.2-2], [MQTT-3.5.2-2],
// [MQTT-3.6.2-2], [MQTT-3.7.2-2]).
func (c *conn) appendAck(dst []byte, kind mqttwire.PacketType, packetID uint16, code mqttwire.ReasonCode) []byte {
	if code.Failed() && c.mayExplain() {
		a := mqttwire.Ack{PacketID: packetID, Code: code, Props: reasonProps(ackReason(kind, code))}
		if whole := mqttwire.AppendAck(dst, kind, &a, c.version); c.fits(len(whole) - len(dst)) {
			return whole
		}
	}
	return mqttwire.AppendAckCode(dst, kind, packetID, code, c.version)
}

// suback encodes SUBACK, with the reason of the first filter that was refused ([MQTT-3.9.2-1]).
func (c *conn) suback(packetID uint16, codes []mqttwire.ReasonCode) []byte {
	s := mqttwire.Suback{PacketID: packetID, Codes: codes}
	if text := filtersReason(codes); text != "" && c.mayExplain() {
		s.Props = reasonProps(text)
		if whole := mqttwire.AppendSuback(nil, &s, c.version); c.fits(len(whole)) {
			return whole
		}
		s.Props = mqttwire.Properties{}
	}
	return mqttwire.AppendSuback(nil, &s, c.version)
}

// unsuback is suback for UNSUBACK ([MQTT-3.11.2-1]).
func (c *conn) unsuback(packetID uint16, codes []mqttwire.ReasonCode) []byte {
	u := mqttwire.Unsuback{PacketID: packetID, Codes: codes}
	if text := filtersReason(codes); text != "" && c.mayExplain() {
		u.Props = reasonProps(text)
		if whole := mqttwire.AppendUnsuback(nil, &u, c.version); c.fits(len(whole)) {
			return whole
		}
		u.Props = mqttwire.Properties{}
	}
	return mqttwire.AppendUnsuback(nil, &u, c.version)
}

// appendDisconnect encodes the goodbye ([MQTT-3.14.2-3]). A client that wants no problem information gets the reason
// here all the same, as it may: it has nothing else to go by.
func (c *conn) appendDisconnect(dst []byte, e *ending) []byte {
	d := mqttwire.Disconnect{Code: e.code, Props: reasonProps(e.cause)}
	if whole := mqttwire.AppendDisconnect(dst, &d, c.version); c.fits(len(whole) - len(dst)) {
		return whole
	}
	d.Props = mqttwire.Properties{}
	return mqttwire.AppendDisconnect(dst, &d, c.version)
}

// connackRefusal encodes the CONNACK that turns a client away, nil when it would not take even the shortest
// ([MQTT-3.2.2-19]).
func (c *conn) connackRefusal(code mqttwire.ReasonCode, text string, v mqttwire.Version) []byte {
	if v == mqttwire.V5 {
		raw := mqttwire.AppendConnack(nil, &mqttwire.Connack{Code: code, Props: reasonProps(connackReason(code, text))}, v)
		if c.fits(len(raw)) {
			return raw
		}
	}
	raw := mqttwire.AppendConnack(nil, &mqttwire.Connack{Code: code}, v)
	if !c.fits(len(raw)) {
		return nil
	}
	return raw
}

// connackReason leaves the details of a failed login, and of the server's own troubles, to the log.
func connackReason(code mqttwire.ReasonCode, text string) string {
	switch code {
	case mqttwire.BadUserNameOrPassword, mqttwire.NotAuthorized, mqttwire.Banned, mqttwire.ServerUnavailable, mqttwire.ServerBusy:
		return code.String()
	}
	return text
}

func reasonProps(text string) mqttwire.Properties {
	if len(text) > reasonMax {
		text = strings.ToValidUTF8(text[:reasonMax], "")
	}
	if text == "" || !mqttwire.ValidString([]byte(text)) {
		return mqttwire.Properties{}
	}
	return mqttwire.Properties{Present: mqttwire.HasReasonString, ReasonString: []byte(text)}
}

func ackReason(kind mqttwire.PacketType, code mqttwire.ReasonCode) string {
	switch code {
	case mqttwire.NotAuthorized:
		return "this client may not publish to this topic"
	case mqttwire.QuotaExceeded:
		return "a bound of the server has no room for this message now"
	case mqttwire.PayloadFormatInvalid:
		return "the payload is not UTF-8, but its format indicator says so"
	case mqttwire.PacketIDNotFound:
		if kind == mqttwire.TypePubrel {
			return "no message with this packet identifier is in flight to this client"
		}
		return "no message with this packet identifier waits for its release"
	}
	return code.String()
}

// filtersReason speaks of the first failure among the codes of SUBACK or UNSUBACK; empty: there is none.
func filtersReason(codes []mqttwire.ReasonCode) string {
	for i, code := range codes {
		if code.Failed() {
			return fmt.Sprintf("filter %d of %d: %s", i+1, len(codes), filterReason(code))
		}
	}
	return ""
}

func filterReason(code mqttwire.ReasonCode) string {
	switch code {
	case mqttwire.TopicFilterInvalid:
		return "not a topic filter, or one with more levels than the server takes"
	case mqttwire.QuotaExceeded:
		return "this client has as many subscriptions as the server takes"
	case mqttwire.NotAuthorized:
		return "this client may not subscribe to it"
	}
	return code.String()
}
