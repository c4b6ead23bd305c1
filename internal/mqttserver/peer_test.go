package mqttserver

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// Packets are spelled in bytes here, so that the codec is not its own witness.

func cat(parts ...any) []byte {
	var out []byte
	for _, p := range parts {
		switch p := p.(type) {
		case byte:
			out = append(out, p)
		case int:
			out = append(out, byte(p))
		case uint16:
			out = binary.BigEndian.AppendUint16(out, p)
		case uint32:
			out = binary.BigEndian.AppendUint32(out, p)
		case string:
			out = append(out, p...)
		case []byte:
			out = append(out, p...)
		default:
			panic("cat")
		}
	}
	return out
}

func pkt(first int, parts ...any) []byte { return cat(first, sized(cat(parts...))) }

// sized puts a variable-length size in front.
func sized(b []byte) []byte { return append(binary.AppendUvarint(nil, uint64(len(b))), b...) }

func str(s string) []byte { return cat(uint16(len(s)), s) }

// hello is a CONNECT. The zero value but for version and id is a persistent session that never expires.
type hello struct {
	version   int
	id        string
	clean     bool // clean start; in MQTT 5 also a session that ends with its connection unless expiry is set
	keepAlive uint16
	expiry    uint32 // MQTT 5; 0 with !clean: never
	props     []byte
	will      *will
	user      string // "" for none
	password  string
}

type will struct {
	topic, payload string
	qos            int
	props          []byte
}

func (h hello) bytes() []byte {
	flags := 0
	if h.clean {
		flags |= 2
	}
	if h.user != "" {
		flags |= 0xC0
	}
	body := cat(str("MQTT"), h.version)
	if h.will != nil {
		flags |= 4 | h.will.qos<<3
	}
	body = cat(body, flags, h.keepAlive)
	if h.version == 5 {
		props := h.props
		if !h.clean && h.expiry == 0 {
			h.expiry = 0xFFFFFFFF
		}
		if h.expiry > 0 {
			props = cat(props, 0x11, h.expiry)
		}
		body = cat(body, sized(props))
	}
	body = cat(body, str(h.id))
	if h.will != nil {
		if h.version == 5 {
			body = cat(body, sized(h.will.props))
		}
		body = cat(body, str(h.will.topic), str(h.will.payload))
	}
	if h.user != "" {
		body = cat(body, str(h.user), str(h.password))
	}
	return pkt(0x10, body)
}

// v5 and v311 are clients with a persistent session, v5live and v311live without.
func v5(id string) hello       { return hello{version: 5, id: id} }
func v311(id string) hello     { return hello{version: 4, id: id} }
func v5live(id string) hello   { return hello{version: 5, id: id, clean: true} }
func v311live(id string) hello { return hello{version: 4, id: id, clean: true} }

// as gives the client a user name and the password that goes with it in tests.
func (h hello) as(user string) hello { h.user, h.password = user, user+"-secret"; return h }

func (h hello) with(props ...any) hello { h.props = cat(props...); return h }

// publish is a PUBLISH of MQTT 5 (props not nil) or 3.1.1.
func publish(qos int, id uint16, topic, payload string, props []byte) []byte {
	body := str(topic)
	if qos > 0 {
		body = cat(body, id)
	}
	if props != nil {
		body = cat(body, sized(props))
	}
	return pkt(0x30|qos<<1, body, payload)
}

var none = []byte{} // no properties, in MQTT 5

// pub5 and pub311 are the plain ones.
func pub5(qos int, id uint16, topic, payload string) []byte {
	return publish(qos, id, topic, payload, none)
}
func pub311(qos int, id uint16, topic, payload string) []byte {
	return publish(qos, id, topic, payload, nil)
}

func dup(p []byte) []byte    { return cat(p[0]|8, p[1:]) }
func retain(p []byte) []byte { return cat(p[0]|1, p[1:]) }

func ack(first int, id uint16, code ...any) []byte { return pkt(first, id, cat(code...)) }

// subscribe of MQTT 5; filters and options take turns.
func subscribe5(id uint16, filters ...any) []byte { return pkt(0x82, id, 0, filterList(filters)) }
func subscribe311(id uint16, filters ...any) []byte {
	return pkt(0x82, id, filterList(filters))
}

func filterList(filters []any) []byte {
	var out []byte
	for i := 0; i < len(filters); i += 2 {
		out = cat(out, str(filters[i].(string)), filters[i+1])
	}
	return out
}

var (
	pingreq     = []byte{0xC0, 0}
	pingresp    = []byte{0xD0, 0}
	disconnect  = []byte{0xE0, 0}
	connack311  = []byte{0x20, 2, 0, 0}
	connack311p = []byte{0x20, 2, 1, 0}
)

// peer is the client's end of a connection.
type peer struct {
	testing.TB
	nc net.Conn
	in *bufio.Reader
}

func (p *peer) send(packets ...[]byte) {
	p.Helper()
	_ = p.nc.SetWriteDeadline(time.Now().Add(patience))
	if _, err := p.nc.Write(bytes.Join(packets, nil)); err != nil {
		p.Fatalf("send: %v", err)
	}
}

// sendAside is send while the test reads: a pipe holds nothing.
func (p *peer) sendAside(packets ...[]byte) {
	go func() {
		if _, err := p.nc.Write(bytes.Join(packets, nil)); err != nil {
			p.Errorf("send: %v", err)
		}
	}()
}

// next reads one packet; nil at the end of the connection.
func (p *peer) next() []byte {
	p.Helper()
	if p.in == nil {
		p.in = bufio.NewReader(p.nc)
	}
	_ = p.nc.SetReadDeadline(time.Now().Add(patience))
	first, err := p.in.ReadByte()
	if err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			p.Fatal("nothing came")
		}
		return nil
	}
	n, err := binary.ReadUvarint(p.in)
	body := make([]byte, n)
	if err == nil {
		_, err = io.ReadFull(p.in, body)
	}
	if err != nil {
		p.Fatalf("a packet that ends within: %v", err)
	}
	return pkt(int(first), body)
}

// expect reads these packets. Reason strings are passed over but where they are asked for: they are not what most
// tests are about.
func (p *peer) expect(packets ...[]byte) {
	p.Helper()
	for _, want := range packets {
		got := p.next()
		if !bytes.Equal(got, want) && !bytes.Equal(withoutReason(got), want) {
			p.Fatalf("got  %s\nwant %s", show(got), show(want))
		}
	}
}

// withoutReason takes a reason string out of a packet that has it as its only property.
func withoutReason(packet []byte) []byte {
	if len(packet) < 2 {
		return packet
	}
	_, n := binary.Uvarint(packet[1:])
	body := packet[1+n:]
	before := map[byte]int{0x20: 2, 0x40: 3, 0x50: 3, 0x62: 3, 0x70: 3, 0x90: 2, 0xB0: 2, 0xE0: 1}[packet[0]]
	if before == 0 || len(body) <= before {
		return packet
	}
	size, n := binary.Uvarint(body[before:])
	props, rest := body[before+n:], body[min(before+n+int(size), len(body)):]
	if size < 3 || props[0] != 0x1F {
		return packet
	}
	switch packet[0] {
	case 0x20, 0x90, 0xB0:
		return pkt(int(packet[0]), body[:before], 0, rest)
	}
	return pkt(int(packet[0]), body[:before])
}

// reason is the reason string of a packet that withoutReason would change.
func reason(packet []byte) string {
	whole, bare := len(packet), len(withoutReason(packet))
	if whole == bare {
		return ""
	}
	at := bytes.IndexByte(packet[3:], 0x1F) + 3
	n := int(binary.BigEndian.Uint16(packet[at+1:]))
	return string(packet[at+3 : at+3+n])
}

// nothing says that nothing was sent: a PINGRESP waits for no flush, and comes first.
func (p *peer) nothing() {
	p.Helper()
	p.send(pingreq)
	p.expect(pingresp)
}

// closed says that the server closes the connection without another word.
func (p *peer) closed() {
	p.Helper()
	if got := p.next(); got != nil {
		p.Fatalf("got %s, expected the end", show(got))
	}
}

func (p *peer) goodbye(code int) {
	p.Helper()
	p.expect([]byte{0xE0, 1, byte(code)})
	p.closed()
}

// greet sends CONNECT and reads CONNACK, which it returns.
func (p *peer) greet(h hello) []byte {
	p.Helper()
	p.send(h.bytes())
	got := p.next()
	if len(got) < 4 || got[0] != 0x20 || got[3] != 0 {
		p.Fatalf("CONNACK is %s", show(got))
	}
	return got
}

func (p *peer) subscribe(version int, filter string, options int) {
	p.Helper()
	if version == 5 {
		p.send(subscribe5(9, filter, options))
		p.expect(pkt(0x90, uint16(9), 0, options&3))
		return
	}
	p.send(subscribe311(9, filter, options))
	p.expect(pkt(0x90, uint16(9), options&3))
}

// leave says DISCONNECT and waits for the end.
func (p *peer) leave() {
	p.Helper()
	p.send(disconnect)
	p.closed()
}

func show(b []byte) string {
	if b == nil {
		return "the end of the connection"
	}
	if len(b) > 200 {
		return hex.EncodeToString(b[:200]) + "..."
	}
	return hex.EncodeToString(b)
}
