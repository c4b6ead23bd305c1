package e2e

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	. "emanet/e2e/harness"
)

// attack is a client's bytes that must end its connection, and nothing else.
type attack struct {
	name  string
	bytes []byte
	codes []byte // reason codes of MQTT 5 that say it; none: any end will do
}

func text(s string) []byte { return append(binary.BigEndian.AppendUint16(nil, uint16(len(s))), s...) }

func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

var (
	malformed = []byte{0x81}
	either    = []byte{0x81, 0x82} // the standard is not of one mind
	id7       = []byte{0, 7}
	none      = []byte{0} // no properties
)

// attacksAfterConnect are packets of MQTT 5; those without properties are as wrong in 3.1.1.
var attacksAfterConnect = []attack{
	{"SUBSCRIBE without an options byte", Frame(0x82, join(id7, none, text("a"))), malformed},
	{"SUBSCRIBE with reserved option bits", Frame(0x82, join(id7, none, text("a"), []byte{0xC0})), either},
	{"SUBSCRIBE at QoS 3", Frame(0x82, join(id7, none, text("a"), []byte{3})), either},
	{"SUBSCRIBE with retain handling 3", Frame(0x82, join(id7, none, text("a"), []byte{0x30})), either},
	{"SUBSCRIBE without filters", Frame(0x82, join(id7, none)), either},
	{"SUBSCRIBE with flags 0", Frame(0x80, join(id7, none, text("a"), []byte{0})), malformed},
	{"SUBSCRIBE under packet id 0", Frame(0x82, join([]byte{0, 0}, none, text("a"), []byte{0})), either},
	{"SUBSCRIBE with identifier 0", Frame(0x82, join(id7, []byte{2, 0x0B, 0}, text("a"), []byte{0})), either},
	{"SUBSCRIBE to U+0000", Frame(0x82, join(id7, none, text("a\x00b"), []byte{0})), malformed},
	{"SUBSCRIBE to invalid UTF-8", Frame(0x82, join(id7, none, text("a\xff"), []byte{0})), malformed},
	{"SUBSCRIBE to a surrogate", Frame(0x82, join(id7, none, text("a\xed\xa0\x80"), []byte{0})), malformed},
	{"UNSUBSCRIBE without filters", Frame(0xA2, join(id7, none)), either},
	{"UNSUBSCRIBE with a filter longer than its packet", Frame(0xA2, join(id7, none, []byte{0xFF, 0xFF, 'a'})), malformed},
	{"PUBLISH at QoS 3", Frame(0x36, join(text("a"), id7, none)), malformed},
	{"PUBLISH at QoS 0 with DUP", Frame(0x38, join(text("a"), none)), either},
	{"PUBLISH under packet id 0", Frame(0x32, join(text("a"), []byte{0, 0}, none)), either},
	{"PUBLISH to a wildcard", Frame(0x30, join(text("a/+"), none)), []byte{0x90, 0x81, 0x82}},
	{"PUBLISH to nothing", Frame(0x30, join(text(""), none)), []byte{0x82, 0x90, 0x81}},
	{"PUBLISH to U+0000", Frame(0x30, join(text("a\x00"), none)), []byte{0x81, 0x90}},
	{"PUBLISH to invalid UTF-8", Frame(0x30, join(text("\xc0\x80"), none)), []byte{0x81, 0x90}},
	{"PUBLISH with a topic longer than its packet", Frame(0x30, []byte{0xFF, 0xFF, 'a'}), malformed},
	{"PUBLISH without a packet id", Frame(0x32, text("a")), malformed},
	{"PUBLISH with an unknown property", Frame(0x30, join(text("a"), []byte{2, 0x7F, 0})), either},
	{"PUBLISH with a property of CONNECT", Frame(0x30, join(text("a"), []byte{3, 0x21, 0, 9})), either},
	{"PUBLISH with two expiries", Frame(0x30, join(text("a"), []byte{10, 2, 0, 0, 0, 1, 2, 0, 0, 0, 1})), either},
	{"PUBLISH with a subscription identifier", Frame(0x30, join(text("a"), []byte{2, 0x0B, 1})), either},
	{"PUBLISH with properties longer than its packet", Frame(0x30, join(text("a"), []byte{0xFF, 0xFF, 0xFF, 0x7F})), malformed},
	{"PUBLISH with a wildcard for a response topic", Frame(0x30, join(text("a"), []byte{4, 8, 0, 1, '#'})), []byte{0x82, 0x81, 0x90}},
	{"PUBREL with flags 0", Frame(0x60, id7), malformed},
	{"PUBACK without a packet id", Frame(0x40, []byte{1}), malformed},
	{"PINGREQ with a body", Frame(0xC0, []byte{1}), malformed},
	{"PINGREQ with flags", []byte{0xC1, 0}, malformed},
	{"a packet of type 0", []byte{0, 0}, either},
	{"AUTH out of the blue", Frame(0xF0, nil), either}, // [MQTT-4.12.0-7]
	{"AUTH with flags", []byte{0xF2, 0}, malformed},    // [MQTT-3.15.1-1]
	{"a second CONNECT", Clean(5, "again").Bytes(), []byte{0x82}},
	{"CONNACK from a client", Frame(0x20, []byte{0, 0, 0}), either},
	{"SUBACK from a client", Frame(0x90, join(id7, none, []byte{0})), either},
	{"PINGRESP from a client", Frame(0xD0, nil), either},
	{"a remaining length of 256 MiB", []byte{0x30, 0xFF, 0xFF, 0xFF, 0x7F, 0, 1, 'a'}, []byte{0x95}},
	{"a remaining length of five bytes", []byte{0x30, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F, 0, 1, 'a'}, malformed},
	{"DISCONNECT with an unknown property", Frame(0xE0, []byte{0, 2, 0x7F, 0}), either},
}

// connectWith spells a CONNECT of MQTT 5 by its parts.
func connectWith(version, flags byte, props []byte, rest ...[]byte) []byte {
	return Frame(0x10, join(text("MQTT"), []byte{version, flags, 0, 0}, props, join(rest...)))
}

var attacksInsteadOfConnect = []attack{
	{"a request of HTTP", []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), nil},
	{"PUBLISH first", Frame(0x30, join(text("a"), none)), nil},
	{"PINGREQ first", []byte{0xC0, 0}, nil},
	{"another protocol's name", Frame(0x10, join(text("AMQP"), []byte{5, 2, 0, 0, 0}, text("x"))), nil},
	{"CONNECT of 3.1.1 with the reserved flag", connectWith(4, 3, nil, text("x")), nil},
	{"CONNECT of 5 with the reserved flag", connectWith(5, 3, none, text("x")), malformed},
	{"CONNECT with a will at QoS 3", connectWith(5, 0x1E, none, text("x"), none, text("w"), text("p")), malformed},
	{"CONNECT with will flags and no will", connectWith(5, 0x22, none, text("x")), either},
	{"CONNECT with a will to a wildcard", connectWith(5, 6, none, text("x"), none, text("w/#"), text("p")), []byte{0x90, 0x81, 0x82}},
	{"CONNECT of 3.1.1 with a password and no user", connectWith(4, 0x42, nil, text("x"), text("p")), nil},
	{"CONNECT with two session expiries", connectWith(5, 2, []byte{10, 17, 0, 0, 0, 1, 17, 0, 0, 0, 1}, text("x")), either},
	{"CONNECT with receive maximum 0", connectWith(5, 2, []byte{3, 33, 0, 0}, text("x")), []byte{0x82}},
	{"CONNECT with maximum packet size 0", connectWith(5, 2, []byte{5, 39, 0, 0, 0, 0}, text("x")), []byte{0x82}},
	{"CONNECT with properties longer than its packet", connectWith(5, 2, []byte{0xFF, 0x7F}, text("x")), malformed},
	{"CONNECT with U+0000 in its id", connectWith(5, 2, none, text("a\x00b")), []byte{0x81, 0x85}},
	{"CONNECT with invalid UTF-8 in its id", connectWith(4, 2, nil, text("\xff")), nil},
	{"CONNECT with bytes behind its end", connectWith(5, 2, none, text("x"), []byte("more")), malformed},
	{"CONNECT of 256 MiB", []byte{0x10, 0xFF, 0xFF, 0xFF, 0x7F, 0, 4, 'M', 'Q', 'T', 'T', 5, 2, 0, 0, 0}, nil},
}

func TestMalformedPacketsEndTheirConnectionAndNothingElse(t *testing.T) {
	OnlyEmanet(t) // Mosquitto 2.0.11 takes some of these
	t.Parallel()
	b := Start(t)
	witness := Open(t, b.Addr(), Clean(5, "witness"))
	witness.Subscribe(To("witness", 1))
	undisturbed := func(t *testing.T) {
		t.Helper()
		payload := Name("seen")
		witness.Publish("other", "x", 0)
		Open(t, b.Addr(), Clean(4, Name("other"))).Publish("witness", payload, 1)
		witness.Ack(witness.ExpectPublish("witness", payload))
	}
	memory := RSS(t, b.Pid())
	for _, a := range attacksAfterConnect {
		t.Run(a.name, func(t *testing.T) {
			for range 20 {
				c := Open(t, b.Addr(), Clean(5, Name("attacker")))
				c.Write(a.bytes)
				last := c.ExpectClosed()
				if last.Type != DISCONNECT || !slices.Contains(a.codes, last.Code) {
					t.Fatalf("ended with %v, not with one of %x", last, a.codes)
				}
				c.Drop()
			}
			undisturbed(t)
		})
	}
	for _, a := range attacksInsteadOfConnect {
		t.Run(a.name, func(t *testing.T) {
			for range 20 {
				c := Dial(t, b.Addr(), 5)
				c.Write(a.bytes)
				last := c.ExpectClosed()
				if last.Type == CONNACK && last.Code == 0 {
					t.Fatal("accepted")
				}
				if a.codes != nil && (last.Type != CONNACK || !slices.Contains(a.codes, last.Code)) {
					t.Fatalf("ended with %v, not with one of %x", last, a.codes)
				}
				c.Drop()
			}
			undisturbed(t)
		})
	}
	MemoryCounts(t)
	if grown := RSS(t, b.Pid()) - memory; grown > 48<<20 {
		t.Errorf("memory grew by %d MiB", grown>>20)
	}
}

func TestEveryPrefixOfAPacketMayBeTheLastOneSeen(t *testing.T) {
	t.Parallel()
	b := Shared(t)
	connect := Clean(5, "prefix")
	connect.Will = &Will{Topic: Name("will"), Payload: "x", Props: everyProperty}
	publish := Packet{Type: PUBLISH, QoS: 1, ID: 1, Topic: Name("t"), Payload: []byte("x"), Props: everyProperty}.Bytes(5)
	for i := range connect.Bytes() {
		c := Dial(t, b.Addr(), 5)
		c.Write(connect.Bytes()[:i])
		_ = c.Conn().CloseWrite()
		c.ExpectClosed()
		c.Drop()
	}
	for i := range publish {
		c := Open(t, b.Addr(), Clean(5, Name("prefix")))
		c.Write(publish[:i])
		_ = c.Conn().CloseWrite()
		c.ExpectClosed()
		c.Drop()
	}
	Open(t, b.Addr(), Clean(5, Name("after"))).Ping()
}

func TestInvalidFiltersAreRefused(t *testing.T) {
	OnlyEmanet(t)
	bothVersions(t, func(t *testing.T, b *Broker, version byte) {
		// [MQTT-4.7.1-1] [MQTT-4.7.1-2] [MQTT-4.7.3-1] [MQTT311-4.7.1-2] [MQTT311-4.7.1-3] [MQTT311-4.7.3-1]
		for _, filter := range []string{"a/#/b", "a#", "#/a", "##", "a+/b", "+a", "++", "a/+b/c", "", strings.Repeat("/", 65_535)} {
			c := Open(t, b.Addr(), Clean(version, Name("c")))
			c.Write(SubscribeBytes(version, 1, nil, To(filter, 0)))
			if p := c.Expect(SUBACK); p.Codes[0] < 0x80 {
				t.Errorf("filter %.20q was answered by %v", filter, p)
			}
		}
	})
}

func TestClaimedLengthsReserveNoMemory(t *testing.T) {
	MemoryCounts(t)
	t.Parallel()
	b := Start(t)
	Open(t, b.Addr(), Clean(5, "first")).Ping()
	memory := RSS(t, b.Pid())
	for i := range 200 { // each claims 4 MiB and sends almost nothing of it
		c := Open(t, b.Addr(), Clean(5, fmt.Sprint("claimant ", i)))
		c.Write([]byte{0x30, 0x80, 0x80, 0x80, 2, 0, 1, 'a', 0})
		c.Send(Packet{Type: PINGREQ}) // more bytes of the payload, as the broker sees it
	}
	Open(t, b.Addr(), Clean(5, "last")).Ping()
	if grown := RSS(t, b.Pid()) - memory; grown > 64<<20 {
		t.Errorf("200 claims of 4 MiB grew the memory by %d MiB", grown>>20)
	}
}
