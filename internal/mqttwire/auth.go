package mqttwire

// Auth is AUTH, MQTT 5 only.
type Auth struct {
	Code  ReasonCode // Success, ContinueAuthentication, ReAuthenticate
	Props Properties // AuthMethod, AuthData, ReasonString, User
}

// DecodeAuth reads the reason code and the properties. Both may be left out
// together, which means success; otherwise the method must be named
// (MQTT 5, 3.15.2.2.2).
func DecodeAuth(f Frame, v Version, a *Auth) error {
	f.expect(TypeAuth)
	if v != V5 {
		return malformed("packet type 15 in MQTT 3.1.1")
	}
	a.Code = Success
	if err := decodeReason(f, v, &a.Code, &a.Props, authProperties); err != nil {
		return err
	}
	if len(f.Body) != 0 && !a.Props.Has(HasAuthMethod) {
		return violation("AUTH without authentication method")
	}
	return nil
}

// AppendAuth encodes a.
func AppendAuth(dst []byte, a *Auth) []byte {
	assert(a.Code == Success && a.Props.size() == 0 || a.Props.Has(HasAuthMethod), "AUTH without authentication method")
	return appendReason(dst, TypeAuth, a.Code, &a.Props, authProperties)
}
