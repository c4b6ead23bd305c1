package mqttwire

// Disconnect is DISCONNECT. In 3.1.1 only clients send it, it has no body, and
// Code is Success.
type Disconnect struct {
	Code  ReasonCode
	Props Properties // SessionExpiry (from a client), ReasonString, User, ServerReference
}

// DecodeDisconnect reads the reason code and the properties, both MQTT 5 and
// both omissible from the end.
func DecodeDisconnect(f Frame, v Version, d *Disconnect) error {
	f.expect(TypeDisconnect)
	d.Code = Success
	return decodeReason(f, v, &d.Code, &d.Props, disconnectProperties)
}

// decodeReason reads the body DISCONNECT and AUTH share.
func decodeReason(f Frame, v Version, code *ReasonCode, p *Properties, allowed PropertySet) error {
	b := body{rest: f.Body, version: v}
	p.reset()
	if v != V5 || len(b.rest) == 0 {
		return b.end()
	}
	*code = ReasonCode(b.uint8())
	if !code.allowedIn(f.Type) { // [MQTT-3.14.2-1] [MQTT-3.15.2-1]
		b.fail(errReasonCode)
	}
	if len(b.rest) != 0 {
		b.properties(p, allowed, HasUser)
	}
	return b.end()
}

// AppendDisconnect encodes d in its shortest form. In 3.1.1 the code is lost.
func AppendDisconnect(dst []byte, d *Disconnect, v Version) []byte {
	if v != V5 {
		return append(dst, byte(TypeDisconnect)<<4, 0)
	}
	return appendReason(dst, TypeDisconnect, d.Code, &d.Props, disconnectProperties)
}

// appendReason writes the packet DISCONNECT and AUTH share, in its shortest
// form. (An AUTH with a code other than Success always has properties.)
func appendReason(dst []byte, t PacketType, code ReasonCode, p *Properties, allowed PropertySet) []byte {
	assert(code.allowedIn(t), "reason code not allowed in this packet")
	switch {
	case p.size() != 0:
		dst = appendHeader(dst, t, 0, 1+p.sizeWithPrefix())
		return p.append(append(dst, byte(code)), allowed)
	case code != Success:
		return append(dst, byte(t)<<4, 1, byte(code))
	default:
		return append(dst, byte(t)<<4, 0)
	}
}
