package mqttwire

import (
	"errors"
	"fmt"
)

// ProtocolError says what is wrong with the bytes a peer sent. It always ends
// the connection [MQTT-4.13.1-1]. Code is what an MQTT 5 peer is told in
// CONNACK or DISCONNECT; a 3.1.1 peer is only disconnected [MQTT311-4.8.0-1].
// Text is constant, never made of the peer's bytes, and fit for a log.
type ProtocolError struct {
	Code ReasonCode
	Text string
}

func (e *ProtocolError) Error() string {
	return fmt.Sprintf("%s: %s", e.Code, e.Text)
}

// Unwrap makes errors.Is(err, MalformedPacket) and its like true.
func (e *ProtocolError) Unwrap() error { return e.Code }

// CodeOf returns the reason code an error of this package carries, however
// deeply it is wrapped, or UnspecifiedError if it carries none.
func CodeOf(err error) ReasonCode {
	var code ReasonCode
	if errors.As(err, &code) {
		return code
	}
	return UnspecifiedError
}

// malformed: the bytes cannot be parsed as the specification draws them.
func malformed(text string) error {
	return &ProtocolError{Code: MalformedPacket, Text: text}
}

// violation: the bytes parse, but say what the specification forbids to say.
func violation(text string) error {
	return &ProtocolError{Code: ProtocolViolation, Text: text}
}

// assert guards the encoders: a packet that no peer could read is the fault of
// the code that built it.
func assert(ok bool, text string) {
	if !ok {
		panic("mqttwire: " + text)
	}
}
