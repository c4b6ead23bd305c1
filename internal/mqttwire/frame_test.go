package mqttwire

import (
	"bytes"
	"errors"
	"testing"
)

func TestFramingTakesOnePacketAndLeavesTheRest(t *testing.T) {
	t.Parallel()
	buf := append(pkt(0x30, str("a"), []byte("x")), pkt(0xC0)...)
	f, n, err := Next(buf, V5, 0)
	if err != nil || n != 6 || f.Type != TypePublish || string(f.Body) != "\x00\x01ax" {
		t.Fatalf("got %+v, %d, %v", f, n, err)
	}
	if &f.Body[0] != &buf[2] {
		t.Error("the body is a copy")
	}
	if cap(f.Body) != len(f.Body) {
		t.Error("an append to the body would write into the next packet")
	}
	if f, n, err = Next(buf[n:], V5, 0); err != nil || n != 2 || f.Type != TypePingreq {
		t.Fatalf("second packet: %+v, %d, %v", f, n, err)
	}
}

func TestFramingAsksForMoreBytesAtEveryCut(t *testing.T) {
	t.Parallel()
	whole := pkt(0x32, str("a/b"), raw(0, 7), bytes.Repeat([]byte("x"), 300)) // two length bytes
	for cut := range whole {
		f, n, err := Next(whole[:cut], V311, 0)
		if n != 0 || err != nil || f.Body != nil {
			t.Fatalf("with %d of %d bytes: %+v, %d, %v", cut, len(whole), f, n, err)
		}
		total, err := Size(whole[:cut], V311, 0)
		want := len(whole)
		if cut < 3 {
			want = 0 // the fixed header is not complete
		}
		if total != want || err != nil {
			t.Fatalf("Size with %d bytes: %d, %v, want %d", cut, total, err, want)
		}
	}
}

// A length that lies must be refused while the lie is all that has arrived:
// no memory is set aside for it and no time spent waiting.
func TestFramingRefusesWhatTheFixedHeaderBetrays(t *testing.T) {
	t.Parallel()
	const limit = 1000
	for _, c := range []struct {
		name  string
		v     Version
		bytes []byte
		code  ReasonCode
	}{
		{"256 MiB claimed, none sent", V5, raw(0x30, 0xFF, 0xFF, 0xFF, 0x7F), PacketTooLarge},
		{"one byte over the limit, header included", V311, raw(0x30, 0xE6, 0x07), PacketTooLarge}, // 998 + 3
		{"a fifth length byte is announced", V311, raw(0x30, 0xFF, 0xFF, 0xFF, 0xFF), MalformedPacket},
		{"length not in shortest form [MQTT-1.5.5-1]", V5, raw(0xC0, 0x80, 0x00), MalformedPacket},
		{"type 0", V5, raw(0x00), MalformedPacket},
		{"type 0", V311, raw(0x00), MalformedPacket},
		{"type 15, reserved before MQTT 5", V311, raw(0xF0), MalformedPacket},
		{"CONNECT with a flag [MQTT-2.1.3-1]", 0, raw(0x11), MalformedPacket},
		{"PUBLISH before CONNECT [MQTT-3.1.0-1]", 0, raw(0x30), ProtocolViolation},
		{"PUBLISH with QoS 3 [MQTT311-3.3.1-4]", V311, raw(0x36), MalformedPacket},
		{"PUBLISH with QoS 3 [MQTT-3.3.1-4]", V5, raw(0x36), MalformedPacket},
		{"PUBLISH with DUP and QoS 0 [MQTT311-3.3.1-2]", V311, raw(0x38), MalformedPacket},
		{"PUBLISH with DUP and QoS 0 [MQTT-3.3.1-2]", V5, raw(0x39), MalformedPacket},
		{"PUBREL with flags 0000 [MQTT-3.6.1-1]", V5, raw(0x60), MalformedPacket},
		{"PUBREL with flags 0011 [MQTT311-3.6.1-1]", V311, raw(0x63), MalformedPacket},
		{"SUBSCRIBE with flags 0000 [MQTT311-3.8.1-1]", V311, raw(0x80), MalformedPacket},
		{"UNSUBSCRIBE with flags 0000 [MQTT-3.10.1-1]", V5, raw(0xA0), MalformedPacket},
		{"PUBACK with flags", V5, raw(0x42), MalformedPacket},
		{"DISCONNECT with flags [MQTT-3.14.1-1]", V5, raw(0xE1), MalformedPacket},
		{"AUTH with flags [MQTT-3.15.1-1]", V5, raw(0xF1), MalformedPacket},
		{"PINGREQ with a body", V311, raw(0xC0, 1), MalformedPacket},
		{"PINGRESP with a body", V5, raw(0xD0, 1), MalformedPacket},
	} {
		t.Run(c.name+" in "+c.v.String(), func(t *testing.T) {
			t.Parallel()
			f, n, err := Next(c.bytes, c.v, limit)
			if n != 0 || f.Body != nil || CodeOf(err) != c.code {
				t.Errorf("Next: %+v, %d, %v; want code 0x%02X", f, n, err, byte(c.code))
			}
			if total, err := Size(c.bytes, c.v, limit); total != 0 || CodeOf(err) != c.code {
				t.Errorf("Size: %d, %v; want code 0x%02X", total, err, byte(c.code))
			}
		})
	}
}

func TestFramingAcceptsEveryTypeItsVersionHas(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		v     Version
		first []byte
	}{
		{0, raw(0x10)},
		{V311, raw(0x10, 0x20, 0x30, 0x31, 0x32, 0x34, 0x3A, 0x3D, 0x40, 0x50, 0x62, 0x70, 0x82, 0x90, 0xA2, 0xB0, 0xC0, 0xD0, 0xE0)},
		{V5, raw(0x10, 0x20, 0x30, 0x31, 0x32, 0x34, 0x3A, 0x3D, 0x40, 0x50, 0x62, 0x70, 0x82, 0x90, 0xA2, 0xB0, 0xC0, 0xD0, 0xE0, 0xF0)},
	} {
		for _, first := range c.first {
			f, n, err := Next([]byte{first, 0}, c.v, 2)
			if err != nil || n != 2 || f.Type != PacketType(first>>4) || f.Flags != first&0x0F {
				t.Errorf("first byte 0x%02X in %s: %+v, %d, %v", first, c.v, f, n, err)
			}
		}
	}
}

// 0xFF 0xFF 0xFF 0x7F says 268,435,455; five more bytes say so.
func TestLargestPacketOfAll(t *testing.T) {
	t.Parallel()
	total, err := Size(raw(0x30, 0xFF, 0xFF, 0xFF, 0x7F), V5, 0)
	if total != 268_435_460 || err != nil || MaxPacketSize != 268_435_460 {
		t.Errorf("%d, %v", total, err)
	}
}

func TestMaximumPacketSizeCountsTheFixedHeader(t *testing.T) {
	t.Parallel()
	b := pkt(0x30, str("a"), []byte("x")) // six bytes in all
	if _, n, err := Next(b, V5, 6); n != 6 || err != nil {
		t.Errorf("exactly the limit: %d, %v", n, err)
	}
	if _, _, err := Next(b, V5, 5); !errors.Is(err, PacketTooLarge) {
		t.Errorf("one over the limit: %v", err)
	}
}

// 3.1.1 does not demand the shortest form, and small clients reserve a fixed
// number of length bytes. Only the body of CONNECT tells the versions apart.
func TestLongFormOfRemainingLengthIsForgivenOnlyIn311(t *testing.T) {
	t.Parallel()
	b := append(raw(0x30, 0x84, 0x00), "\x00\x01ax"...)
	f, n, err := Next(b, V311, 0)
	if err != nil || n != 7 || string(f.Body) != "\x00\x01ax" {
		t.Errorf("3.1.1: %+v, %d, %v", f, n, err)
	}
	connect := func(level byte) []byte {
		body := bytes.Join([][]byte{str("MQTT"), raw(level, 2, 0, 0)}, nil)
		if level == 5 {
			body = append(body, 0)
		}
		body = append(body, 0, 0)
		return append([]byte{0x10, byte(len(body)) | 0x80, 0}, body...)
	}
	for level, want := range map[byte]error{4: nil, 5: MalformedPacket} {
		f, _, err := Next(connect(level), 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		var c Connect
		if err := DecodeConnect(f, &c); !errors.Is(err, want) {
			t.Errorf("CONNECT of level %d: %v, want %v", level, err, want)
		}
	}
}

func TestVariableByteIntegersAtTheirBorders(t *testing.T) {
	t.Parallel()
	for value, want := range map[uint32][]byte{
		0:           {0x00},
		127:         {0x7F},
		128:         {0x80, 0x01},
		16_383:      {0xFF, 0x7F},
		16_384:      {0x80, 0x80, 0x01},
		2_097_151:   {0xFF, 0xFF, 0x7F},
		2_097_152:   {0x80, 0x80, 0x80, 0x01},
		268_435_455: {0xFF, 0xFF, 0xFF, 0x7F},
	} {
		if got := appendVarint(nil, value); !bytes.Equal(got, want) || varintSize(value) != len(want) {
			t.Errorf("%d encoded as % x (size %d), want % x", value, got, varintSize(value), want)
		}
		if got, n := readVarint(append(bytes.Clone(want), 0xFF)); got != value || n != len(want) {
			t.Errorf("% x read as %d in %d bytes, want %d", want, got, n, value)
		}
	}
}
