package mqttwire

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestReasonCodesAreErrorsWithNames(t *testing.T) {
	t.Parallel()
	err := fmt.Errorf("reading SUBSCRIBE: %w", violation("x"))
	if !errors.Is(err, ProtocolViolation) || CodeOf(err) != ProtocolViolation || err.Error() != "reading SUBSCRIBE: protocol error: x" {
		t.Errorf("%v carries %v", err, CodeOf(err))
	}
	if CodeOf(errors.New("disk")) != UnspecifiedError || CodeOf(fmt.Errorf("x: %w", SessionTakenOver)) != SessionTakenOver {
		t.Error("CodeOf")
	}
	if CodeOf(&UnsupportedVersionError{}) != UnsupportedProtocolVersion {
		t.Error("CodeOf of an unsupported version")
	}
	if Success.Failed() || GrantedQoS2.Failed() || ReAuthenticate.Failed() || !UnspecifiedError.Failed() || !WildcardsNotSupported.Failed() {
		t.Error("Failed draws the line elsewhere than 0x80")
	}
	for _, codes := range reasonsOf {
		for _, code := range codes {
			if strings.Contains(code.String(), "0x") {
				t.Errorf("code %s has no name", code)
			}
		}
	}
	if got := ReasonCode(0x7F).Error(); got != "reason code 0x7F" {
		t.Error(got)
	}
}

// Table 2-6, read by the row: which packets may carry each code.
func TestReasonCodesStandInTheirPacketsOnly(t *testing.T) {
	t.Parallel()
	const (
		acks     = "PUBACK PUBREC "
		releases = "PUBREL PUBCOMP "
	)
	rows := map[byte]string{
		0x00: "CONNACK SUBACK UNSUBACK AUTH DISCONNECT " + acks + releases,
		0x01: "SUBACK", 0x02: "SUBACK", 0x04: "DISCONNECT", 0x10: acks, 0x11: "UNSUBACK", 0x18: "AUTH", 0x19: "AUTH",
		0x80: "CONNACK SUBACK UNSUBACK DISCONNECT " + acks,
		0x81: "CONNACK DISCONNECT", 0x82: "CONNACK DISCONNECT",
		0x83: "CONNACK SUBACK UNSUBACK DISCONNECT " + acks,
		0x84: "CONNACK", 0x85: "CONNACK", 0x86: "CONNACK",
		0x87: "CONNACK SUBACK UNSUBACK DISCONNECT " + acks,
		0x88: "CONNACK", 0x89: "CONNACK DISCONNECT", 0x8A: "CONNACK", 0x8B: "DISCONNECT", 0x8C: "CONNACK DISCONNECT",
		0x8D: "DISCONNECT", 0x8E: "DISCONNECT", 0x8F: "SUBACK UNSUBACK DISCONNECT",
		0x90: "CONNACK DISCONNECT " + acks, 0x91: "SUBACK UNSUBACK " + acks, 0x92: releases,
		0x93: "DISCONNECT", 0x94: "DISCONNECT", 0x95: "CONNACK DISCONNECT", 0x96: "DISCONNECT",
		0x97: "CONNACK SUBACK DISCONNECT " + acks, 0x98: "DISCONNECT", 0x99: "CONNACK DISCONNECT " + acks,
		0x9A: "CONNACK DISCONNECT", 0x9B: "CONNACK DISCONNECT", 0x9C: "CONNACK DISCONNECT", 0x9D: "CONNACK DISCONNECT",
		0x9E: "SUBACK DISCONNECT", 0x9F: "CONNACK DISCONNECT", 0xA0: "DISCONNECT",
		0xA1: "SUBACK DISCONNECT", 0xA2: "SUBACK DISCONNECT",
	}
	for code := range 256 {
		for typ := TypeConnect; typ <= TypeAuth; typ++ {
			want := strings.Contains(" "+rows[byte(code)]+" ", " "+typ.String()+" ")
			if got := ReasonCode(code).allowedIn(typ); got != want {
				t.Errorf("0x%02X in %s: %v, want %v", code, typ, got, want)
			}
		}
	}
}
