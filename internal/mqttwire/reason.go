package mqttwire

import "fmt"

// ReasonCode is the one-byte outcome of MQTT 5 (section 2.4). It is an error
// value as well, so the same value goes on the wire and into the log.
// Codes below 0x80 are successes; see Failed.
type ReasonCode byte

const (
	Success                         ReasonCode = 0x00 // also: normal disconnection, granted QoS 0
	GrantedQoS1                     ReasonCode = 0x01
	GrantedQoS2                     ReasonCode = 0x02
	DisconnectWithWill              ReasonCode = 0x04
	NoMatchingSubscribers           ReasonCode = 0x10
	NoSubscriptionExisted           ReasonCode = 0x11
	ContinueAuthentication          ReasonCode = 0x18
	ReAuthenticate                  ReasonCode = 0x19
	UnspecifiedError                ReasonCode = 0x80
	MalformedPacket                 ReasonCode = 0x81
	ProtocolViolation               ReasonCode = 0x82 // "Protocol Error" in the specification
	ImplementationSpecific          ReasonCode = 0x83
	UnsupportedProtocolVersion      ReasonCode = 0x84
	ClientIDNotValid                ReasonCode = 0x85
	BadUserNameOrPassword           ReasonCode = 0x86
	NotAuthorized                   ReasonCode = 0x87
	ServerUnavailable               ReasonCode = 0x88
	ServerBusy                      ReasonCode = 0x89
	Banned                          ReasonCode = 0x8A
	ServerShuttingDown              ReasonCode = 0x8B
	BadAuthenticationMethod         ReasonCode = 0x8C
	KeepAliveTimeout                ReasonCode = 0x8D
	SessionTakenOver                ReasonCode = 0x8E
	TopicFilterInvalid              ReasonCode = 0x8F
	TopicNameInvalid                ReasonCode = 0x90
	PacketIDInUse                   ReasonCode = 0x91
	PacketIDNotFound                ReasonCode = 0x92
	ReceiveMaximumExceeded          ReasonCode = 0x93
	TopicAliasInvalid               ReasonCode = 0x94
	PacketTooLarge                  ReasonCode = 0x95
	MessageRateTooHigh              ReasonCode = 0x96
	QuotaExceeded                   ReasonCode = 0x97
	AdministrativeAction            ReasonCode = 0x98
	PayloadFormatInvalid            ReasonCode = 0x99
	RetainNotSupported              ReasonCode = 0x9A
	QoSNotSupported                 ReasonCode = 0x9B
	UseAnotherServer                ReasonCode = 0x9C
	ServerMoved                     ReasonCode = 0x9D
	SharedSubscriptionsNotSupported ReasonCode = 0x9E
	ConnectionRateExceeded          ReasonCode = 0x9F
	MaximumConnectTime              ReasonCode = 0xA0
	SubscriptionIDsNotSupported     ReasonCode = 0xA1
	WildcardsNotSupported           ReasonCode = 0xA2
)

var reasonNames = map[ReasonCode]string{
	Success:                         "success",
	GrantedQoS1:                     "granted QoS 1",
	GrantedQoS2:                     "granted QoS 2",
	DisconnectWithWill:              "disconnect with will message",
	NoMatchingSubscribers:           "no matching subscribers",
	NoSubscriptionExisted:           "no subscription existed",
	ContinueAuthentication:          "continue authentication",
	ReAuthenticate:                  "re-authenticate",
	UnspecifiedError:                "unspecified error",
	MalformedPacket:                 "malformed packet",
	ProtocolViolation:               "protocol error",
	ImplementationSpecific:          "implementation specific error",
	UnsupportedProtocolVersion:      "unsupported protocol version",
	ClientIDNotValid:                "client identifier not valid",
	BadUserNameOrPassword:           "bad user name or password",
	NotAuthorized:                   "not authorized",
	ServerUnavailable:               "server unavailable",
	ServerBusy:                      "server busy",
	Banned:                          "banned",
	ServerShuttingDown:              "server shutting down",
	BadAuthenticationMethod:         "bad authentication method",
	KeepAliveTimeout:                "keep alive timeout",
	SessionTakenOver:                "session taken over",
	TopicFilterInvalid:              "topic filter invalid",
	TopicNameInvalid:                "topic name invalid",
	PacketIDInUse:                   "packet identifier in use",
	PacketIDNotFound:                "packet identifier not found",
	ReceiveMaximumExceeded:          "receive maximum exceeded",
	TopicAliasInvalid:               "topic alias invalid",
	PacketTooLarge:                  "packet too large",
	MessageRateTooHigh:              "message rate too high",
	QuotaExceeded:                   "quota exceeded",
	AdministrativeAction:            "administrative action",
	PayloadFormatInvalid:            "payload format invalid",
	RetainNotSupported:              "retain not supported",
	QoSNotSupported:                 "QoS not supported",
	UseAnotherServer:                "use another server",
	ServerMoved:                     "server moved",
	SharedSubscriptionsNotSupported: "shared subscriptions not supported",
	ConnectionRateExceeded:          "connection rate exceeded",
	MaximumConnectTime:              "maximum connect time",
	SubscriptionIDsNotSupported:     "subscription identifiers not supported",
	WildcardsNotSupported:           "wildcard subscriptions not supported",
}

// String is the name in section 2.4 of MQTT 5, in lower case.
func (c ReasonCode) String() string {
	if name, ok := reasonNames[c]; ok {
		return name
	}
	return fmt.Sprintf("reason code 0x%02X", byte(c))
}

// Error is String: a reason code can be returned and wrapped as an error.
func (c ReasonCode) Error() string { return c.String() }

// Failed tells failures (0x80 and above) from successes.
func (c ReasonCode) Failed() bool { return c >= UnspecifiedError }

// reasonsOf lists which codes each packet type may carry (MQTT 5, table 2-6),
// whoever sends it: this codec serves both directions.
var reasonsOf = [16][]ReasonCode{
	TypeConnack: {
		Success, UnspecifiedError, MalformedPacket, ProtocolViolation, ImplementationSpecific,
		UnsupportedProtocolVersion, ClientIDNotValid, BadUserNameOrPassword, NotAuthorized,
		ServerUnavailable, ServerBusy, Banned, BadAuthenticationMethod, TopicNameInvalid,
		PacketTooLarge, QuotaExceeded, PayloadFormatInvalid, RetainNotSupported, QoSNotSupported,
		UseAnotherServer, ServerMoved, ConnectionRateExceeded,
	},
	TypePuback:  publishOutcomes,
	TypePubrec:  publishOutcomes,
	TypePubrel:  {Success, PacketIDNotFound},
	TypePubcomp: {Success, PacketIDNotFound},
	TypeSuback: {
		Success, GrantedQoS1, GrantedQoS2, UnspecifiedError, ImplementationSpecific, NotAuthorized,
		TopicFilterInvalid, PacketIDInUse, QuotaExceeded, SharedSubscriptionsNotSupported,
		SubscriptionIDsNotSupported, WildcardsNotSupported,
	},
	TypeUnsuback: {
		Success, NoSubscriptionExisted, UnspecifiedError, ImplementationSpecific, NotAuthorized,
		TopicFilterInvalid, PacketIDInUse,
	},
	TypeDisconnect: {
		Success, DisconnectWithWill, UnspecifiedError, MalformedPacket, ProtocolViolation,
		ImplementationSpecific, NotAuthorized, ServerBusy, ServerShuttingDown, BadAuthenticationMethod, KeepAliveTimeout,
		SessionTakenOver, TopicFilterInvalid, TopicNameInvalid, ReceiveMaximumExceeded,
		TopicAliasInvalid, PacketTooLarge, MessageRateTooHigh, QuotaExceeded, AdministrativeAction,
		PayloadFormatInvalid, RetainNotSupported, QoSNotSupported, UseAnotherServer, ServerMoved,
		SharedSubscriptionsNotSupported, ConnectionRateExceeded, MaximumConnectTime,
		SubscriptionIDsNotSupported, WildcardsNotSupported,
	},
	TypeAuth: {Success, ContinueAuthentication, ReAuthenticate},
}

var publishOutcomes = []ReasonCode{
	Success, NoMatchingSubscribers, UnspecifiedError, ImplementationSpecific, NotAuthorized,
	TopicNameInvalid, PacketIDInUse, QuotaExceeded, PayloadFormatInvalid,
}

// allowedIn: a code outside its packet's table is a violation
// [MQTT-3.4.2-1] and its like for the other packets.
func (c ReasonCode) allowedIn(t PacketType) bool {
	for _, allowed := range reasonsOf[t] {
		if c == allowed {
			return true
		}
	}
	return false
}
