package harness

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// What MQTT lets a server send. Every packet that a test reads is held against it, so that each test is one of the
// form of packets as well.

var (
	ackCodes        = []byte{0, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99}
	releaseCodes    = []byte{0, 0x92}
	subackCodes     = []byte{0, 1, 2, 0x80, 0x83, 0x87, 0x8F, 0x91, 0x97, 0x9E, 0xA1, 0xA2}
	unsubackCodes   = []byte{0, 0x11, 0x80, 0x83, 0x87, 0x8F, 0x91}
	connackCodes    = []byte{0, 0x80, 0x81, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88, 0x89, 0x8A, 0x8C, 0x90, 0x95, 0x97, 0x99, 0x9A, 0x9B, 0x9C, 0x9D, 0x9F}
	disconnectCodes = []byte{0, 0x80, 0x81, 0x82, 0x83, 0x87, 0x89, 0x8B, 0x8D, 0x8E, 0x8F, 0x90, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99, 0x9A, 0x9B, 0x9C, 0x9D, 0x9E, 0x9F, 0xA0, 0xA1, 0xA2}
)

// form is what one type of packet may say in MQTT 5.
var form = map[byte]struct {
	flags byte
	codes []byte
	props []byte
}{
	CONNACK: {codes: connackCodes, props: []byte{SessionExpiry, ReceiveMaximum, MaximumQoS, RetainAvailable, MaximumPacketSize,
		AssignedClientID, TopicAliasMaximum, ReasonString, UserProperty, WildcardAvailable, SubscriptionIDAvail,
		SharedSubscriptionAvl, ServerKeepAlive, ResponseInfo, ServerReference, AuthMethod, AuthData}},
	PUBLISH:    {props: []byte{PayloadFormat, MessageExpiry, TopicAlias, ResponseTopic, CorrelationData, UserProperty, SubscriptionID, ContentType}},
	PUBACK:     {codes: ackCodes, props: []byte{ReasonString, UserProperty}},
	PUBREC:     {codes: ackCodes, props: []byte{ReasonString, UserProperty}},
	PUBREL:     {flags: 2, codes: releaseCodes, props: []byte{ReasonString, UserProperty}},
	PUBCOMP:    {codes: releaseCodes, props: []byte{ReasonString, UserProperty}},
	SUBACK:     {codes: subackCodes, props: []byte{ReasonString, UserProperty}},
	UNSUBACK:   {codes: unsubackCodes, props: []byte{ReasonString, UserProperty}},
	PINGRESP:   {},
	DISCONNECT: {codes: disconnectCodes, props: []byte{ReasonString, UserProperty, ServerReference}},
}

// check says what is wrong with a packet of a server. acknowledge is the flags byte of CONNACK.
func check(first byte, p Packet, acknowledge, version byte) error {
	f := form[p.Type]
	if p.Type != PUBLISH && first&15 != f.flags {
		return fmt.Errorf("flags %04b", first&15)
	}
	if err := checkProps(p.Props, f.props); err != nil {
		return err
	}
	switch p.Type {
	case PUBLISH:
		return checkPublish(p)
	case CONNACK:
		if acknowledge > 1 {
			return fmt.Errorf("acknowledge flags %08b", acknowledge)
		}
		if p.SessionPresent && p.Code != 0 {
			return errors.New("session present with a refusal")
		}
		if version != 5 && p.Code > 5 {
			return fmt.Errorf("return code %d", p.Code)
		}
	case DISCONNECT:
		if version != 5 {
			return errors.New("a server of 3.1.1 sends none")
		}
	case UNSUBACK:
		if version != 5 && len(p.Codes) > 0 {
			return errors.New("codes, which 3.1.1 does not know")
		}
	}
	codes := append(slices.Clone(p.Codes), p.Code)
	if version != 5 {
		if p.Type == SUBACK && slices.ContainsFunc(p.Codes, func(c byte) bool { return c > 2 && c != 0x80 }) {
			return fmt.Errorf("codes %x, which 3.1.1 does not know", p.Codes)
		}
		return nil
	}
	for _, code := range codes {
		if f.codes != nil && !slices.Contains(f.codes, code) {
			return fmt.Errorf("code %#x, which is not in its table", code)
		}
	}
	return nil
}

func checkPublish(p Packet) error {
	alias, aliased := p.Props.Find(TopicAlias)
	switch {
	case p.QoS == 3:
		return errors.New("QoS 3")
	case p.QoS == 0 && p.Dup:
		return errors.New("DUP at QoS 0")
	case p.QoS > 0 && p.ID == 0:
		return errors.New("packet identifier 0")
	case aliased && alias.Int == 0:
		return errors.New("topic alias 0")
	case p.Topic == "" && !aliased:
		return errors.New("neither topic nor alias")
	case strings.ContainsAny(p.Topic, "+#\x00") || !utf8.ValidString(p.Topic):
		return fmt.Errorf("topic %q", p.Topic)
	}
	return nil
}

func checkProps(ps Props, allowed []byte) error {
	seen := map[byte]bool{}
	for _, p := range ps {
		switch {
		case !slices.Contains(allowed, p.ID):
			return fmt.Errorf("property %#x, which does not belong there", p.ID)
		case p.ID == UserProperty && IsEmanet() && !slices.Contains(allowed, TopicAlias):
			return fmt.Errorf("user property %q, and emanet has none in its answers", p.Str)
		case seen[p.ID] && p.ID != UserProperty && p.ID != SubscriptionID:
			return fmt.Errorf("property %#x twice", p.ID)
		case p.ID != CorrelationData && p.ID != AuthData && (!utf8.ValidString(p.Str) || strings.Contains(p.Str, "\x00")):
			return fmt.Errorf("property %#x with the string %q", p.ID, p.Str)
		case p.ID == SubscriptionID && p.Int == 0:
			return errors.New("subscription identifier 0")
		}
		seen[p.ID] = true
	}
	return nil
}
