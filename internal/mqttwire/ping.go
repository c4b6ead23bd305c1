package mqttwire

// PINGREQ and PINGRESP are a fixed header and nothing else; Next has checked
// all there is to check.

// AppendPingreq encodes PINGREQ.
func AppendPingreq(dst []byte) []byte { return append(dst, byte(TypePingreq)<<4, 0) }

// AppendPingresp encodes PINGRESP.
func AppendPingresp(dst []byte) []byte { return append(dst, byte(TypePingresp)<<4, 0) }
