package harness

import (
	"bufio"
	"bytes"
	"errors"
	"testing"
)

func TestPacketsThatAServerMustNotSendAreNoticed(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		version byte
		bytes   []byte
	}{
		{"CONNACK with reserved acknowledge flags", 4, []byte{0x20, 2, 2, 0}},
		{"CONNACK with session present and a refusal", 5, []byte{0x20, 3, 1, 0x87, 0}},
		{"CONNACK with a code of PUBACK", 5, []byte{0x20, 3, 0, 0x10, 0}},
		{"CONNACK of 3.1.1 with code 6", 4, []byte{0x20, 2, 0, 6}},
		{"CONNACK with a topic alias", 5, []byte{0x20, 6, 0, 0, 3, 0x23, 0, 1}},
		{"a length in two bytes for one", 4, []byte{0x20, 0x82, 0, 0, 0}},
		{"PUBLISH with QoS 3", 4, []byte{0x36, 5, 0, 1, 'a', 0, 1}},
		{"PUBLISH with DUP at QoS 0", 4, []byte{0x38, 3, 0, 1, 'a'}},
		{"PUBLISH under identifier 0", 4, []byte{0x32, 5, 0, 1, 'a', 0, 0}},
		{"PUBLISH to a wildcard", 4, []byte{0x30, 3, 0, 1, '#'}},
		{"PUBLISH to nothing", 5, []byte{0x30, 3, 0, 0, 0}},
		{"PUBLISH with alias 0", 5, []byte{0x30, 7, 0, 1, 'a', 3, 0x23, 0, 0}},
		{"PUBLISH with two expiries", 5, []byte{0x30, 14, 0, 1, 'a', 10, 2, 0, 0, 0, 1, 2, 0, 0, 0, 1}},
		{"PUBREL with flags 0000", 4, []byte{0x60, 2, 0, 1}},
		{"PUBACK with a code of PUBREL", 5, []byte{0x40, 3, 0, 1, 0x92}},
		{"SUBACK of 3.1.1 with a code of 5", 4, []byte{0x90, 3, 0, 1, 0x87}},
		{"UNSUBACK of 3.1.1 with a code", 4, []byte{0xB0, 3, 0, 1, 0}},
		{"DISCONNECT to 3.1.1", 4, []byte{0xE0, 0}},
		{"DISCONNECT with a session expiry", 5, []byte{0xE0, 7, 0x8E, 5, 0x11, 0, 0, 0, 1}},
		{"a string that is not UTF-8", 5, []byte{0xE0, 6, 0x8E, 4, 0x1F, 0, 1, 0xFF}},
		{"SUBSCRIBE", 4, []byte{0x82, 0}},
	} {
		if _, err := ReadPacket(bufio.NewReader(bytes.NewReader(test.bytes)), test.version); !errors.Is(err, errForm) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
	for _, good := range [][]byte{{0x20, 3, 1, 0, 0}, {0x62, 2, 0, 1}, {0xE0, 1, 0x8E}, {0x30, 7, 0, 0, 3, 0x23, 0, 1, 'x'}} {
		if p, err := ReadPacket(bufio.NewReader(bytes.NewReader(good)), 5); err != nil {
			t.Errorf("%v: %v", p, err)
		}
	}
}
