package harness

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Control packet types, as in the high nibble of the first byte (MQTT 2.1.2).
const (
	CONNECT     byte = 1
	CONNACK     byte = 2
	PUBLISH     byte = 3
	PUBACK      byte = 4
	PUBREC      byte = 5
	PUBREL      byte = 6
	PUBCOMP     byte = 7
	SUBSCRIBE   byte = 8
	SUBACK      byte = 9
	UNSUBSCRIBE byte = 10
	UNSUBACK    byte = 11
	PINGREQ     byte = 12
	PINGRESP    byte = 13
	DISCONNECT  byte = 14
)

var typeNames = [16]string{"0", "CONNECT", "CONNACK", "PUBLISH", "PUBACK", "PUBREC", "PUBREL", "PUBCOMP",
	"SUBSCRIBE", "SUBACK", "UNSUBSCRIBE", "UNSUBACK", "PINGREQ", "PINGRESP", "DISCONNECT", "AUTH"}

// Packet is one decoded control packet; only the fields of its type are set.
type Packet struct {
	Type           byte
	Dup            bool
	QoS            byte
	Retain         bool
	ID             uint16
	Topic          string
	Payload        []byte
	SessionPresent bool
	Code           byte   // CONNACK return or reason code, reason code of acks and DISCONNECT
	Codes          []byte // SUBACK and UNSUBACK
	Props          Props
}

// String tells the packet in one line of a failing round's story.
func (p Packet) String() string {
	name := typeNames[p.Type&15]
	switch p.Type {
	case PUBLISH:
		return fmt.Sprintf("%s id=%d qos=%d dup=%t retain=%t %s %.40q", name, p.ID, p.QoS, p.Dup, p.Retain, p.Topic, p.Payload)
	case CONNACK:
		return fmt.Sprintf("%s code=%#x present=%t", name, p.Code, p.SessionPresent)
	}
	return fmt.Sprintf("%s id=%d code=%#x codes=%x", name, p.ID, p.Code, p.Codes)
}

// errForm is every error of a peer that has sent something, but not what MQTT lets it send.
var errForm = errors.New("a server must not send this")

// ReadPacket reads and decodes one packet as MQTT version 4 (3.1.1) or 5 spells it.
func ReadPacket(r *bufio.Reader, version byte) (Packet, error) {
	first, err := r.ReadByte()
	if err != nil {
		return Packet{}, err
	}
	length, shift := 0, 0
	for {
		b, err := r.ReadByte()
		if err != nil {
			return Packet{}, err
		}
		length |= int(b&127) << shift
		if b < 128 {
			break
		}
		if shift += 7; shift > 21 {
			return Packet{}, fmt.Errorf("%w: a remaining length of more than four bytes", errForm)
		}
	}
	if shift > 0 && length < 1<<shift {
		return Packet{}, fmt.Errorf("%w: a remaining length of %d in more bytes than it needs", errForm, length)
	}
	body := make([]byte, length)
	if _, err := io.ReadFull(r, body); err != nil {
		return Packet{}, err
	}
	p, err := decode(first, body, version)
	if err != nil {
		return p, fmt.Errorf("%w: %w", errForm, err)
	}
	acknowledge := byte(0)
	if p.Type == CONNACK {
		acknowledge = body[0]
	}
	if err := check(first, p, acknowledge, version); err != nil {
		return p, fmt.Errorf("%w, %v: %w", errForm, p, err)
	}
	return p, nil
}

func decode(first byte, body []byte, version byte) (Packet, error) {
	p := Packet{Type: first >> 4}
	d := &cursor{b: body}
	v5 := version == 5
	switch p.Type {
	case CONNACK:
		p.SessionPresent = d.u8()&1 == 1
		p.Code = d.u8()
		if v5 {
			p.Props = d.props()
		}
	case PUBLISH:
		p.Dup, p.QoS, p.Retain = first&8 != 0, first>>1&3, first&1 != 0
		p.Topic = d.str()
		if p.QoS > 0 {
			p.ID = d.u16()
		}
		if v5 {
			p.Props = d.props()
		}
		p.Payload = d.b
		d.b = nil
	case PUBACK, PUBREC, PUBREL, PUBCOMP:
		p.ID = d.u16()
		if v5 && len(d.b) > 0 {
			p.Code = d.u8()
			if len(d.b) > 0 {
				p.Props = d.props()
			}
		}
	case SUBACK, UNSUBACK:
		p.ID = d.u16()
		if v5 {
			p.Props = d.props()
		}
		p.Codes = d.b
		d.b = nil
	case DISCONNECT:
		if v5 && len(d.b) > 0 {
			p.Code = d.u8()
			if len(d.b) > 0 {
				p.Props = d.props()
			}
		}
	case PINGRESP:
	default:
		return p, fmt.Errorf("a server must not send %s", typeNames[p.Type])
	}
	if d.err == nil && len(d.b) > 0 {
		d.err = fmt.Errorf("%d bytes too many", len(d.b))
	}
	if d.err != nil {
		return p, fmt.Errorf("decoding %s: %w", typeNames[p.Type], d.err)
	}
	return p, nil
}

// cursor reads fields off the front of b; after the first error everything reads as zero.
type cursor struct {
	b   []byte
	err error
}

func (d *cursor) take(n int) []byte {
	if len(d.b) < n {
		if d.err == nil {
			d.err = io.ErrUnexpectedEOF
		}
		d.b = nil
		return make([]byte, n)
	}
	out := d.b[:n]
	d.b = d.b[n:]
	return out
}

func (d *cursor) u8() byte    { return d.take(1)[0] }
func (d *cursor) u16() uint16 { return binary.BigEndian.Uint16(d.take(2)) }
func (d *cursor) u32() uint32 { return binary.BigEndian.Uint32(d.take(4)) }
func (d *cursor) str() string { return string(d.take(int(d.u16()))) }

func (d *cursor) varint() (v int) {
	for shift := 0; shift < 28; shift += 7 {
		b := d.u8()
		v |= int(b&127) << shift
		if b < 128 {
			if b == 0 && shift > 0 && d.err == nil {
				d.err = fmt.Errorf("%d in more bytes than it needs", v)
			}
			break
		}
	}
	return v
}

func str(b []byte, s string) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(len(s)))
	return append(b, s...)
}

func varint(b []byte, v int) []byte {
	for v >= 128 {
		b = append(b, byte(v)|128)
		v >>= 7
	}
	return append(b, byte(v))
}

// Frame puts the fixed header in front of a body.
func Frame(first byte, body []byte) []byte {
	return append(varint([]byte{first}, len(body)), body...)
}
