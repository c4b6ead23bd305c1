package mqttwire

// Properties holds the properties of any one packet, or of a will. A field
// means something only while its bit is in Present, whatever its value; to send
// a property set the field and the bit. The two properties that may occur more
// than once, User and SubscriptionIDs, are present when they are not empty;
// decoding sets their bits too.
//
// After decoding, the slices alias the packet's body.
type Properties struct {
	Present PropertySet

	ContentType      []byte
	ResponseTopic    []byte
	CorrelationData  []byte
	AssignedClientID []byte
	AuthMethod       []byte
	AuthData         []byte
	ResponseInfo     []byte
	ServerReference  []byte
	ReasonString     []byte

	User            UserProperties
	SubscriptionIDs SubscriptionIDs

	MessageExpiry     uint32 // seconds
	SessionExpiry     uint32 // seconds; 0xFFFFFFFF never expires
	WillDelay         uint32 // seconds
	MaximumPacketSize uint32 // bytes, fixed header included

	ServerKeepAlive   uint16 // seconds
	ReceiveMaximum    uint16
	TopicAliasMaximum uint16
	TopicAlias        uint16

	PayloadFormat           byte // 1: the payload is UTF-8
	RequestProblemInfo      byte // 0 or 1, as all that follow
	RequestResponseInfo     byte
	MaximumQoS              byte
	RetainAvailable         byte
	WildcardAvailable       byte
	SubscriptionIDAvailable byte
	SharedAvailable         byte
}

// Has reports whether every property of set is present.
func (p *Properties) Has(set PropertySet) bool { return p.Present&set == set }

// reset empties p. A struct that was never used stays untouched: it is large,
// and most PUBLISH packets have no properties at all.
func (p *Properties) reset() {
	if p.Present != 0 || len(p.User) != 0 || len(p.SubscriptionIDs) != 0 {
		*p = Properties{}
	}
}

func (p *Properties) byteField(id byte) *byte {
	switch PropertySet(1) << id {
	case HasPayloadFormat:
		return &p.PayloadFormat
	case HasRequestProblemInfo:
		return &p.RequestProblemInfo
	case HasRequestResponseInfo:
		return &p.RequestResponseInfo
	case HasMaximumQoS:
		return &p.MaximumQoS
	case HasRetainAvailable:
		return &p.RetainAvailable
	case HasWildcardAvailable:
		return &p.WildcardAvailable
	case HasSubscriptionIDAvailable:
		return &p.SubscriptionIDAvailable
	default:
		return &p.SharedAvailable
	}
}

func (p *Properties) uint16Field(id byte) *uint16 {
	switch PropertySet(1) << id {
	case HasServerKeepAlive:
		return &p.ServerKeepAlive
	case HasReceiveMaximum:
		return &p.ReceiveMaximum
	case HasTopicAliasMaximum:
		return &p.TopicAliasMaximum
	default:
		return &p.TopicAlias
	}
}

func (p *Properties) uint32Field(id byte) *uint32 {
	switch PropertySet(1) << id {
	case HasMessageExpiry:
		return &p.MessageExpiry
	case HasSessionExpiry:
		return &p.SessionExpiry
	case HasWillDelay:
		return &p.WillDelay
	default:
		return &p.MaximumPacketSize
	}
}

func (p *Properties) bytesField(id byte) *[]byte {
	switch PropertySet(1) << id {
	case HasContentType:
		return &p.ContentType
	case HasResponseTopic:
		return &p.ResponseTopic
	case HasCorrelationData:
		return &p.CorrelationData
	case HasAssignedClientID:
		return &p.AssignedClientID
	case HasAuthMethod:
		return &p.AuthMethod
	case HasAuthData:
		return &p.AuthData
	case HasResponseInfo:
		return &p.ResponseInfo
	case HasServerReference:
		return &p.ServerReference
	default:
		return &p.ReasonString
	}
}
