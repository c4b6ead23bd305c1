package topic

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

const (
	// MaxBytes is the longest name or filter in bytes: the length prefix on the
	// wire has 16 bits. [MQTT-4.7.3-3]
	MaxBytes = 65535

	// MaxLevels is our own limit on levels in a name or filter. It bounds the
	// depth of the recursion in [Trie]; no sensible hierarchy comes near.
	MaxLevels = 200
)

// What can be wrong with a name or filter. The texts are complete: a caller adds
// which packet or option held it.
var (
	ErrEmpty         = errors.New("topic is empty")                          // [MQTT-4.7.3-1]
	ErrTooLong       = fmt.Errorf("topic is longer than %d bytes", MaxBytes) // [MQTT-4.7.3-3]
	ErrTooManyLevels = fmt.Errorf("topic has more than %d levels", MaxLevels)
	ErrNul           = errors.New("topic contains U+0000")                                  // [MQTT-4.7.3-2]
	ErrNotUTF8       = errors.New("topic is not valid UTF-8")                               // [MQTT-1.5.4-1]
	ErrWildcard      = errors.New("topic name contains a wildcard")                         // [MQTT-4.7.0-1], [MQTT-3.3.2-2]
	ErrHashNotLast   = errors.New("'#' in a topic filter is not its whole last level")      // [MQTT-4.7.1-1]
	ErrPlusNotAlone  = errors.New("'+' in a topic filter does not fill its whole level")    // [MQTT-4.7.1-2]
	ErrNoShareName   = errors.New("shared subscription has no share name")                  // [MQTT-4.8.2-1]
	ErrShareName     = errors.New("share name contains a wildcard")                         // [MQTT-4.8.2-2]
	ErrNoShareFilter = errors.New("shared subscription has no filter after the share name") // [MQTT-4.8.2-2]
)

// CheckName says what is wrong with a topic name, nil if it may be published to.
// Names that begin with '$' are well formed; who may use them is not decided here.
func CheckName(name string) error { return checkName(name, utf8.ValidString) }

// CheckNameBytes is [CheckName] for a name that still lies in a packet buffer. It
// neither keeps nor copies name.
func CheckNameBytes(name []byte) error { return checkName(name, utf8.Valid) }

func checkName[T string | []byte](name T, validUTF8 func(T) bool) error {
	if err := checkSize(len(name)); err != nil {
		return err
	}
	levels, ascii := 1, true
	for i := 0; i < len(name); i++ {
		switch c := name[i]; {
		case c >= utf8.RuneSelf:
			ascii = false
		case c == '/':
			levels++
		case c == 0:
			return ErrNul
		case c == '+' || c == '#':
			return ErrWildcard
		}
	}
	return checkRest(levels, ascii || validUTF8(name))
}

// CheckFilter says what is wrong with a topic filter, nil if it may be subscribed
// to. A filter of the form "$share/..." passes as an ordinary filter: call
// [ParseShared] before.
func CheckFilter(filter string) error {
	if err := checkSize(len(filter)); err != nil {
		return err
	}
	levels, ascii := 1, true
	for i := 0; i < len(filter); i++ {
		switch c := filter[i]; {
		case c >= utf8.RuneSelf:
			ascii = false
		case c == '/':
			levels++
		case c == 0:
			return ErrNul
		case c == '#':
			if i != len(filter)-1 || !startsLevel(filter, i) {
				return ErrHashNotLast
			}
		case c == '+':
			if !startsLevel(filter, i) || i+1 < len(filter) && filter[i+1] != '/' {
				return ErrPlusNotAlone
			}
		}
	}
	return checkRest(levels, ascii || utf8.ValidString(filter))
}

func checkSize(size int) error {
	switch {
	case size == 0:
		return ErrEmpty
	case size > MaxBytes:
		return ErrTooLong
	}
	return nil
}

func checkRest(levels int, validUTF8 bool) error {
	switch {
	case !validUTF8:
		return ErrNotUTF8
	case levels > MaxLevels:
		return ErrTooManyLevels
	}
	return nil
}

func startsLevel(s string, i int) bool { return i == 0 || s[i-1] == '/' }

// HasWildcard reports whether a checked filter can match more than one name.
func HasWildcard(filter string) bool { return strings.ContainsAny(filter, "+#") }

const sharePrefix = "$share/"

// IsShared tells whether a filter is to be a shared subscription's, malformed or
// not.
func IsShared(filter string) bool { return strings.HasPrefix(filter, sharePrefix) }

// ParseShared takes "$share/GROUP/FILTER" apart. shared is true for everything
// that begins with "$share/", also when err is not nil: such a filter is a
// malformed shared subscription, never an ordinary one. inner has been checked by
// [CheckFilter]. For any other filter it returns "", filter, false, nil and checks
// nothing.
//
// Source: MQTT 5.0 section 4.8.2. MQTT 3.1.1 does not know the prefix; its
// clients mean the same by it.
func ParseShared(filter string) (group, inner string, shared bool, err error) {
	rest, shared := strings.CutPrefix(filter, sharePrefix)
	if !shared {
		return "", filter, false, nil
	}
	group, inner, found := strings.Cut(rest, "/")
	switch {
	case group == "":
		return "", "", true, ErrNoShareName // [MQTT-4.8.2-1]
	case HasWildcard(group):
		return "", "", true, ErrShareName // [MQTT-4.8.2-2]
	case !found || inner == "":
		return "", "", true, ErrNoShareFilter // [MQTT-4.8.2-2]
	}
	// The whole is checked first: the length and the group's characters count too.
	if err := CheckFilter(filter); err != nil {
		return "", "", true, err
	}
	if err := CheckFilter(inner); err != nil {
		return "", "", true, err
	}
	return group, inner, true, nil
}
