package mqttwire

// PropertySet is a set of properties, one bit each, the bit's position being
// the property's identifier on the wire (MQTT 5, table 2-4).
type PropertySet uint64

const (
	HasPayloadFormat           PropertySet = 1 << 1
	HasMessageExpiry           PropertySet = 1 << 2
	HasContentType             PropertySet = 1 << 3
	HasResponseTopic           PropertySet = 1 << 8
	HasCorrelationData         PropertySet = 1 << 9
	HasSubscriptionID          PropertySet = 1 << 11
	HasSessionExpiry           PropertySet = 1 << 17
	HasAssignedClientID        PropertySet = 1 << 18
	HasServerKeepAlive         PropertySet = 1 << 19
	HasAuthMethod              PropertySet = 1 << 21
	HasAuthData                PropertySet = 1 << 22
	HasRequestProblemInfo      PropertySet = 1 << 23
	HasWillDelay               PropertySet = 1 << 24
	HasRequestResponseInfo     PropertySet = 1 << 25
	HasResponseInfo            PropertySet = 1 << 26
	HasServerReference         PropertySet = 1 << 28
	HasReasonString            PropertySet = 1 << 31
	HasReceiveMaximum          PropertySet = 1 << 33
	HasTopicAliasMaximum       PropertySet = 1 << 34
	HasTopicAlias              PropertySet = 1 << 35
	HasMaximumQoS              PropertySet = 1 << 36
	HasRetainAvailable         PropertySet = 1 << 37
	HasUser                    PropertySet = 1 << 38
	HasMaximumPacketSize       PropertySet = 1 << 39
	HasWildcardAvailable       PropertySet = 1 << 40
	HasSubscriptionIDAvailable PropertySet = 1 << 41
	HasSharedAvailable         PropertySet = 1 << 42
)

// Identifiers the code names; all others are only bit positions.
const (
	idPayloadFormat      = 1
	idMessageExpiry      = 2
	idContentType        = 3
	idResponseTopic      = 8
	idCorrelationData    = 9
	idSubscriptionID     = 11
	idRequestProblemInfo = 23
	idRequestResponse    = 25
	idReceiveMaximum     = 33
	idTopicAlias         = 35
	idMaximumQoS         = 36
	idRetainAvailable    = 37
	idUser               = 38
	idMaximumPacketSize  = 39
	idWildcardAvailable  = 40
	idSubIDAvailable     = 41
	idSharedAvailable    = 42
	idLimit              = 43 // one above the highest identifier
)

// repeatable properties are kept as encoded runs, not as fields of their own.
const repeatable = HasUser | HasSubscriptionID

// Which properties each packet may carry (MQTT 5, table 2-4).
const (
	connectProperties = HasSessionExpiry | HasReceiveMaximum | HasMaximumPacketSize | HasTopicAliasMaximum |
		HasRequestResponseInfo | HasRequestProblemInfo | HasUser | HasAuthMethod | HasAuthData
	connackProperties = HasSessionExpiry | HasReceiveMaximum | HasMaximumQoS | HasRetainAvailable |
		HasMaximumPacketSize | HasAssignedClientID | HasTopicAliasMaximum | HasReasonString | HasUser |
		HasWildcardAvailable | HasSubscriptionIDAvailable | HasSharedAvailable | HasServerKeepAlive |
		HasResponseInfo | HasServerReference | HasAuthMethod | HasAuthData
	// forwardable properties travel with the message to every receiver,
	// unaltered and, for user properties, in order [MQTT-3.3.2-4],
	// [MQTT-3.3.2-15], [MQTT-3.3.2-16], [MQTT-3.3.2-17], [MQTT-3.3.2-18], [MQTT-3.3.2-20].
	forwardable           = HasPayloadFormat | HasContentType | HasResponseTopic | HasCorrelationData | HasUser
	publishProperties     = forwardable | HasMessageExpiry | HasTopicAlias | HasSubscriptionID
	willProperties        = forwardable | HasMessageExpiry | HasWillDelay
	ackProperties         = HasReasonString | HasUser // PUBACK to PUBCOMP, SUBACK, UNSUBACK
	subscribeProperties   = HasSubscriptionID | HasUser
	unsubscribeProperties = HasUser
	disconnectProperties  = HasSessionExpiry | HasReasonString | HasUser | HasServerReference
	authProperties        = HasAuthMethod | HasAuthData | HasReasonString | HasUser
)

// propertyKind is the wire form of a property's value.
type propertyKind byte

const (
	kindNone   propertyKind = iota
	kindByte                // one byte
	kindUint16              // two bytes, big endian
	kindUint32              // four bytes, big endian
	kindVarint              // variable byte integer
	kindString              // two-byte length and UTF-8
	kindBinary              // two-byte length and bytes
	kindPair                // two strings
)

var propertyKinds = [idLimit]propertyKind{
	1: kindByte, 2: kindUint32, 3: kindString, 8: kindString, 9: kindBinary, 11: kindVarint,
	17: kindUint32, 18: kindString, 19: kindUint16, 21: kindString, 22: kindBinary, 23: kindByte,
	24: kindUint32, 25: kindByte, 26: kindString, 28: kindString, 31: kindString, 33: kindUint16,
	34: kindUint16, 35: kindUint16, 36: kindByte, 37: kindByte, 38: kindPair, 39: kindUint32,
	40: kindByte, 41: kindByte, 42: kindByte,
}

// checkNumber refuses values that the section of the property forbids.
func checkNumber(id byte, value uint32) error {
	switch id {
	case idPayloadFormat, idRequestProblemInfo, idRequestResponse, idMaximumQoS, idRetainAvailable,
		idWildcardAvailable, idSubIDAvailable, idSharedAvailable:
		if value > 1 {
			return violation("property that is 0 or 1 has another value")
		}
	case idReceiveMaximum:
		if value == 0 {
			return violation("receive maximum 0")
		}
	case idMaximumPacketSize:
		if value == 0 {
			return violation("maximum packet size 0")
		}
	case idSubscriptionID:
		if value == 0 {
			return violation("subscription identifier 0")
		}
	case idTopicAlias:
		if value == 0 { // [MQTT-3.3.2-8]
			return &ProtocolError{Code: TopicAliasInvalid, Text: "topic alias 0 [MQTT-3.3.2-8]"}
		}
	}
	return nil
}
