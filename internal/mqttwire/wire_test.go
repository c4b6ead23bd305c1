package mqttwire

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"
)

// The tests spell packets out in bytes, built from these few pieces, so that
// the encoders are never their own witness.

// pkt is a packet: first byte, then the parts with their length in front.
func pkt(first byte, parts ...[]byte) []byte {
	body := bytes.Join(parts, nil)
	return append(appendVarint([]byte{first}, uint32(len(body))), body...)
}

func raw(b ...byte) []byte { return b }

// str is a two-byte length and the bytes of s.
func str(s string) []byte {
	return append([]byte{byte(len(s) >> 8), byte(len(s))}, s...)
}

// props is a property length and the properties.
func props(parts ...[]byte) []byte {
	block := bytes.Join(parts, nil)
	return append(appendVarint(nil, uint32(len(block))), block...)
}

// prop is one property: identifier and value.
func prop(id byte, value ...[]byte) []byte {
	return append([]byte{id}, bytes.Join(value, nil)...)
}

func mustFrame(t testing.TB, b []byte, v Version) Frame {
	t.Helper()
	f, n, err := Next(b, v, 0)
	if err != nil {
		t.Fatalf("Next(% x): %v", b, err)
	}
	if n != len(b) {
		t.Fatalf("Next(% x) took %d bytes of %d", b, n, len(b))
	}
	return f
}

// decodeAny frames one packet and decodes it into a fresh struct of its type.
func decodeAny(b []byte, v Version) (any, error) {
	f, n, err := Next(b, v, 0)
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, errNeedsMore
	}
	return decodeFrame(f, v)
}

var errNeedsMore = errors.New("more bytes are needed")

func decodeFrame(f Frame, v Version) (any, error) {
	switch f.Type {
	case TypeConnect:
		c := new(Connect)
		return c, DecodeConnect(f, c)
	case TypeConnack:
		c := new(Connack)
		return c, DecodeConnack(f, v, c)
	case TypePublish:
		p := new(Publish)
		return p, DecodePublish(f, v, p)
	case TypePuback, TypePubrec, TypePubrel, TypePubcomp:
		a := &typedAck{Type: f.Type}
		return a, DecodeAck(f, v, &a.Ack)
	case TypeSubscribe:
		s := new(Subscribe)
		return s, DecodeSubscribe(f, v, s)
	case TypeSuback:
		s := new(Suback)
		return s, DecodeSuback(f, v, s)
	case TypeUnsubscribe:
		u := new(Unsubscribe)
		return u, DecodeUnsubscribe(f, v, u)
	case TypeUnsuback:
		u := new(Unsuback)
		return u, DecodeUnsuback(f, v, u)
	case TypeDisconnect:
		d := new(Disconnect)
		return d, DecodeDisconnect(f, v, d)
	case TypeAuth:
		a := new(Auth)
		return a, DecodeAuth(f, v, a)
	default:
		return f.Type, nil // PINGREQ, PINGRESP
	}
}

// typedAck keeps the packet type that Ack leaves to the frame.
type typedAck struct {
	Type PacketType
	Ack
}

// appendAny is the encoder for what decodeAny returned.
func appendAny(dst []byte, packet any, v Version) []byte {
	switch p := packet.(type) {
	case *Connect:
		return AppendConnect(dst, p)
	case *Connack:
		return AppendConnack(dst, p, v)
	case *Publish:
		return AppendPublish(dst, p, v)
	case *typedAck:
		return AppendAck(dst, p.Type, &p.Ack, v)
	case *Subscribe:
		return AppendSubscribe(dst, p, v)
	case *Suback:
		return AppendSuback(dst, p, v)
	case *Unsubscribe:
		return AppendUnsubscribe(dst, p, v)
	case *Unsuback:
		return AppendUnsuback(dst, p, v)
	case *Disconnect:
		return AppendDisconnect(dst, p, v)
	case *Auth:
		return AppendAuth(dst, p)
	case PacketType:
		if p == TypePingreq {
			return AppendPingreq(dst)
		}
		return AppendPingresp(dst)
	default:
		panic("no encoder")
	}
}

// refusal is a packet that must not be accepted: with this code, and with these
// words, so that it is refused for the reason the name gives and no other.
type refusal struct {
	name  string
	v     Version
	bytes []byte
	code  ReasonCode
	says  string
}

func testRefused(t *testing.T, cases []refusal) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name+" in "+c.v.String(), func(t *testing.T) {
			t.Parallel()
			_, err := decodeAny(c.bytes, c.v)
			if err == nil {
				t.Fatalf("accepted % x", c.bytes)
			}
			var pe *ProtocolError
			if !errors.As(err, &pe) {
				t.Fatalf("error is no ProtocolError: %v", err)
			}
			if pe.Code != c.code || !strings.Contains(pe.Text, c.says) {
				t.Fatalf("refused with %q (0x%02X), want code 0x%02X and %q", err, byte(pe.Code), byte(c.code), c.says)
			}
		})
	}
}

// acceptance is a packet in the form the encoder chooses: decoding must give
// want, and encoding want must give the bytes back.
type acceptance struct {
	name  string
	v     Version
	bytes []byte
	want  any
}

func testBothWays(t *testing.T, cases []acceptance) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name+" in "+c.v.String(), func(t *testing.T) {
			t.Parallel()
			got, err := decodeAny(c.bytes, c.v)
			if err != nil {
				t.Fatalf("refused % x: %v", c.bytes, err)
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("decoded\n %+v, want\n %+v", got, c.want)
			}
			if again := appendAny([]byte("kept"), c.want, c.v); !bytes.Equal(again, append([]byte("kept"), c.bytes...)) {
				t.Errorf("encoded\n % x, want\n % x", again[4:], c.bytes)
			}
		})
	}
}

// mustPanic says that the encoders take a bad packet for a programming error.
func mustPanic(t *testing.T, name string, f func()) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		defer func() {
			if recover() == nil {
				t.Fatal("encoded without complaint")
			}
		}()
		f()
	})
}
