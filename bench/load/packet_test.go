package load

import (
	"bytes"
	"testing"
)

func TestPublishHasItsPacketIDWhereItSays(t *testing.T) {
	for _, payload := range []int{1, 100, 200, 20_000} {
		packet, idAt := Publish("a/b", payload, 1)
		packet[idAt], packet[idAt+1] = 0xAB, 0xCD
		size, id, ok, err := message(packet)
		if err != nil || !ok || size != len(packet) || id != [2]byte{0xAB, 0xCD} {
			t.Errorf("payload of %d: size %d of %d, id %x, complete %t, %v", payload, size, len(packet), id, ok, err)
		}
		if _, _, ok, _ := message(packet[:len(packet)-1]); ok {
			t.Errorf("payload of %d: complete without its last byte", payload)
		}
	}
}

func TestConnectIsSpeltAsInTheStandard(t *testing.T) {
	want := []byte{0x10, 13, 0, 4, 'M', 'Q', 'T', 'T', 4, 2, 0, 0, 0, 1, 'x'}
	if got := Connect("x", true, "", ""); !bytes.Equal(got, want) {
		t.Errorf("% x, not % x", got, want)
	}
	want = []byte{0x10, 19, 0, 4, 'M', 'Q', 'T', 'T', 4, 0xC0, 0, 0, 0, 1, 'x', 0, 1, 'u', 0, 1, 'p'}
	if got := Connect("x", false, "u", "p"); !bytes.Equal(got, want) {
		t.Errorf("with a password % x, not % x", got, want)
	}
}
