package mqttwire

import (
	"encoding/binary"
	"unicode/utf8"
)

// textFaults is what one pass over a string finds out about it.
type textFaults byte

const (
	illFormed   textFaults = 1 << iota // not UTF-8, or a surrogate in it
	hasNUL                             // U+0000
	hasWildcard                        // '+' or '#'
)

const (
	lowBits  = 0x0101010101010101
	highBits = 0x8080808080808080
	eights   = 0x0808080808080808
	pluses   = 0x2B2B2B2B2B2B2B2B
)

// zeroBytes is non-zero exactly when one of the eight bytes of x is zero.
func zeroBytes(x uint64) uint64 { return (x - lowBits) &^ x & highBits }

// scanText looks at eight bytes at a time, without branches on what it sees.
// '#' (0x23) and '+' (0x2B) differ in one bit, so one test finds both, and no
// byte of a multi-byte character can be mistaken for either. Only text that is
// not ASCII pays for the full UTF-8 check.
func scanText(b []byte) textFaults {
	var seen, nul, wild uint64
	if len(b) >= 8 {
		i := 0
		for ; i+8 <= len(b); i += 8 {
			x := binary.LittleEndian.Uint64(b[i:])
			seen |= x
			nul |= zeroBytes(x)
			wild |= zeroBytes((x | eights) ^ pluses)
		}
		// The last eight bytes once more, overlapping, instead of a tail loop.
		x := binary.LittleEndian.Uint64(b[len(b)-8:])
		seen |= x
		nul |= zeroBytes(x)
		wild |= zeroBytes((x | eights) ^ pluses)
	} else {
		for _, c := range b {
			seen |= uint64(c)
			if c == 0 {
				nul = 1
			}
			if c|0x08 == '+' {
				wild = 1
			}
		}
	}
	var faults textFaults
	if nul != 0 {
		faults |= hasNUL
	}
	if wild != 0 {
		faults |= hasWildcard
	}
	if seen&highBits != 0 && !utf8.Valid(b) {
		faults |= illFormed
	}
	return faults
}

// ValidString reports whether b may stand as an MQTT string: at most 65,535
// bytes of well-formed UTF-8 without surrogates [MQTT-1.5.4-1] and without
// U+0000 [MQTT-1.5.4-2]. A byte order mark is an ordinary character
// [MQTT-1.5.4-3], and the control and non-characters that the specification
// only advises against are accepted.
func ValidString(b []byte) bool {
	return len(b) <= 0xFFFF && scanText(b)&(illFormed|hasNUL) == 0
}

// textError turns faults into the error of the connection's version; nil when
// the string is fit for the wire. Wildcards are not its business.
func textError(faults textFaults, v Version) error {
	if faults&(illFormed|hasNUL) == 0 {
		return nil
	}
	switch {
	case faults&illFormed != 0 && v == V5:
		return malformed("string is not well-formed UTF-8 [MQTT-1.5.4-1]")
	case faults&illFormed != 0:
		return malformed("string is not well-formed UTF-8 [MQTT311-1.5.3-1]")
	case v == V5:
		return malformed("string contains U+0000 [MQTT-1.5.4-2]")
	default:
		return malformed("string contains U+0000 [MQTT311-1.5.3-2]")
	}
}
