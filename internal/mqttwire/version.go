package mqttwire

import "fmt"

// Version is the protocol level as it stands in CONNECT. The zero value means
// "not yet known": only a CONNECT is accepted then.
type Version byte

const (
	V311 Version = 4 // MQTT 3.1.1
	V5   Version = 5 // MQTT 5.0
)

// String names the version as people write it.
func (v Version) String() string {
	switch v {
	case 0:
		return "unknown"
	case 3:
		return "3.1"
	case V311:
		return "3.1.1"
	case V5:
		return "5"
	default:
		return fmt.Sprintf("level %d", byte(v))
	}
}

// UnsupportedVersionError says that a CONNECT is well enough formed to name
// its protocol, but that this codec does not speak it: MQTT 3.1 ("MQIsdp"),
// or a level other than 4 and 5. The rest of that packet was not looked at.
type UnsupportedVersionError struct {
	Protocol string // "MQTT" or "MQIsdp"
	Level    byte
}

func (e *UnsupportedVersionError) Error() string {
	return fmt.Sprintf("unsupported protocol version: %s level %d", e.Protocol, e.Level)
}

// Unwrap makes errors.Is(err, UnsupportedProtocolVersion) true.
func (e *UnsupportedVersionError) Unwrap() error { return UnsupportedProtocolVersion }

// AnswerIn is the version whose CONNACK the refused client can be expected to
// read: return code 1 in the form of 3.1 and 3.1.1 [MQTT311-3.1.2-2],
// reason code 0x84 in the form of 5 for levels that came later.
//
// Bridges of one widespread broker announce themselves by setting the top bit
// of level 3 or 4 and come again without it when they are refused with return
// code 1, so those levels belong to the old form.
func (e *UnsupportedVersionError) AnswerIn() Version {
	if e.Protocol != "MQTT" || e.Level < byte(V5) || e.Level&0x80 != 0 {
		return V311
	}
	return V5
}
