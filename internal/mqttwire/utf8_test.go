package mqttwire

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestStringsTheSpecificationForbids(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]string{
		"a lone continuation byte [MQTT-1.5.4-1]":  "\x80",
		"a cut off character [MQTT-1.5.4-1]":       "abc\xE2\x82",
		"an overlong slash [MQTT-1.5.4-1]":         "\xC0\xAF",
		"an overlong NUL [MQTT-1.5.4-1]":           "\xC0\x80",
		"the first surrogate [MQTT-1.5.4-1]":       "\xED\xA0\x80",
		"the last surrogate [MQTT-1.5.4-1]":        "\xED\xBF\xBF",
		"a pair of surrogates [MQTT-1.5.4-1]":      "\xED\xA0\xBD\xED\xB8\x80",
		"above U+10FFFF [MQTT-1.5.4-1]":            "\xF4\x90\x80\x80",
		"U+0000 alone [MQTT-1.5.4-2]":              "\x00",
		"U+0000 at the end of 8 [MQTT-1.5.4-2]":    "1234567\x00",
		"U+0000 in the tail [MQTT-1.5.4-2]":        "12345678\x009",
		"U+0000 amid other letters [MQTT-1.5.4-2]": "ışık\x00ışık",
		"over 65,535 bytes":                        strings.Repeat("a", 65_536),
	} {
		if ValidString([]byte(s)) {
			t.Errorf("%s passed", name)
		}
	}
}

func TestStringsTheSpecificationAllows(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]string{
		"empty": "", "a byte order mark [MQTT-1.5.4-3]": "\uFEFF", "controls, only advised against": "\x01\x1F\x7F\u0085",
		"non-characters, only advised against": "\uFFFE\U0010FFFF", "around the surrogates": "\uD7FF\uE000",
		"65,535 bytes": strings.Repeat("a", 65_535),
	} {
		if !ValidString([]byte(s)) {
			t.Errorf("%s refused", name)
		}
	}
}

// The eight-at-a-time scan against the obvious one, on strings rich in what it
// looks for and in bytes one bit away from it.
func TestScanAgreesWithAByteByByteReading(t *testing.T) {
	t.Parallel()
	alphabet := []byte("\x00\x01\x08\x23\x2B\x22\x2A\x03\x0B\x63\x6B\x80\x81\xA3\xAB\xC3\xE2\x82\xAC\xFFab/")
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOfN(rapid.SampledFrom(alphabet), 0, 40).Draw(t, "bytes")
		var want textFaults
		if !utf8.Valid(b) {
			want |= illFormed
		}
		if bytes.IndexByte(b, 0) >= 0 {
			want |= hasNUL
		}
		if bytes.ContainsAny(b, "+#") {
			want |= hasWildcard
		}
		if got := scanText(b); got != want {
			t.Fatalf("% x: got %03b, want %03b", b, got, want)
		}
	})
}
