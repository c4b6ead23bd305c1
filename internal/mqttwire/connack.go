package mqttwire

// Connack is CONNACK. In 3.1.1 Code stands for the return code, see ReturnCode.
type Connack struct {
	SessionPresent bool
	Code           ReasonCode
	Props          Properties
}

// returnCodes of 3.1.1 (table 3.1), by the reason code that says the same.
var returnCodes = [6]ReasonCode{
	Success, UnsupportedProtocolVersion, ClientIDNotValid, ServerUnavailable, BadUserNameOrPassword, NotAuthorized,
}

// ReturnCode is what CONNACK of 3.1.1 says for code. ok is false if that
// version has no word for it; then the connection is closed without a CONNACK
// (3.1.1, 3.2.2.3).
func ReturnCode(code ReasonCode) (rc byte, ok bool) {
	switch code {
	case UnspecifiedError, ImplementationSpecific, ServerBusy, QuotaExceeded, ConnectionRateExceeded,
		UseAnotherServer, ServerMoved:
		return 3, true // the client may try again
	case Banned, BadAuthenticationMethod:
		return 5, true
	}
	for rc, reason := range returnCodes {
		if reason == code {
			return byte(rc), true
		}
	}
	return 0, false
}

// DecodeConnack reads
//
//	acknowledge flags  bit 0: session present
//	reason code        return code in 3.1.1
//	properties         MQTT 5
func DecodeConnack(f Frame, v Version, c *Connack) error {
	f.expect(TypeConnack)
	b := body{rest: f.Body, version: v}
	flags := b.uint8()
	if flags > 1 {
		b.fail(malformed("reserved acknowledge flag is set [MQTT-3.2.2-1]"))
	}
	c.SessionPresent = flags == 1
	c.Code = c.decodeCode(&b)
	if c.SessionPresent && c.Code != Success {
		b.fail(violation("session present with a refusal [MQTT-3.2.2-6]")) // [MQTT311-3.2.2-4]
	}
	b.properties(&c.Props, connackProperties, HasUser)
	checkAuth(&b, &c.Props)
	return b.end()
}

func (c *Connack) decodeCode(b *body) ReasonCode {
	code := b.uint8()
	if b.version == V5 {
		if !ReasonCode(code).allowedIn(TypeConnack) {
			b.fail(errReasonCode)
		}
		return ReasonCode(code)
	}
	if int(code) >= len(returnCodes) {
		b.fail(malformed("reserved return code"))
		return UnspecifiedError
	}
	return returnCodes[code]
}

// AppendConnack encodes c. In 3.1.1 a code for which ReturnCode has no answer
// is the caller's fault: nothing may be sent then.
func AppendConnack(dst []byte, c *Connack, v Version) []byte {
	assert(!c.SessionPresent || c.Code == Success, "session present with a refusal [MQTT-3.2.2-6]")
	var flags byte
	if c.SessionPresent {
		flags = 1
	}
	if v != V5 {
		rc, ok := ReturnCode(c.Code)
		assert(ok, "reason code that CONNACK of 3.1.1 cannot say")
		return append(dst, byte(TypeConnack)<<4, 2, flags, rc)
	}
	assert(c.Code.allowedIn(TypeConnack), "reason code not allowed in CONNACK")
	dst = appendHeader(dst, TypeConnack, 0, 2+c.Props.sizeWithPrefix())
	dst = append(dst, flags, byte(c.Code))
	return c.Props.append(dst, connackProperties)
}
