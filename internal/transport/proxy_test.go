package transport

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pires/go-proxyproto"

	"emanet/internal/transport/certtest"
)

// v2 is a binary header: version and command, family, addresses and what follows them.
func v2(command, family byte, rest string) string {
	return proxySignature + string([]byte{command, family, byte(len(rest) >> 8), byte(len(rest))}) + rest
}

func unhex(s string) string {
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		panic(err)
	}
	return string(b)
}

var proxyHeaders = []struct {
	name, header string
	want         string // "": the proxy's own address stays
	wrong        string // in the error
}{
	{name: "version 1", header: "PROXY TCP4 192.0.2.1 192.0.2.9 4711 1883\r\n", want: "192.0.2.1:4711"},
	{name: "version 1, IPv6", header: "PROXY TCP6 2001:db8::1 2001:db8::2 4711 1883\r\n", want: "[2001:db8::1]:4711"},
	{name: "version 1, of nobody known", header: "PROXY UNKNOWN\r\n"},
	{name: "version 1, of nobody known, with addresses", header: "PROXY UNKNOWN 2001:db8::1 2001:db8::2 4711 1883\r\n"},
	{name: "version 2", header: v2(0x21, 0x11, unhex("c0000201 c0000209 1267 075b")), want: "192.0.2.1:4711"},
	{name: "version 2, with additions", header: v2(0x21, 0x11, unhex("c0000201 c0000209 1267 075b 04 0003 000000")), want: "192.0.2.1:4711"},
	{name: "version 2, IPv6", header: v2(0x21, 0x21, unhex("20010db8000000000000000000000001 20010db8000000000000000000000002 1267 075b")),
		want: "[2001:db8::1]:4711"},
	{name: "version 2, of the proxy itself", header: v2(0x20, 0x00, "")},
	{name: "version 2, of nobody known", header: v2(0x21, 0x00, "")},
	{name: "a datagram's", header: v2(0x21, 0x12, unhex("c0000201 c0000209 1267 075b")), wrong: "came by"},
	{name: "a line without end", header: "PROXY TCP4 " + strings.Repeat("1", 200), wrong: "no end"},
	{name: "a line with nonsense", header: "PROXY TCP4 192.0.2.1 192.0.2.9 99999 1883\r\n", wrong: "proxyproto"},
	{name: "more additions than anybody makes", header: v2(0x21, 0x11, strings.Repeat("x", proxyHeaderMax+1)), wrong: "more than"},
	{name: "addresses cut short", header: v2(0x21, 0x11, "\xc0\x00"), wrong: "proxyproto"},
	{name: "MQTT", header: "\x10\x0e\x00\x04MQTT\x04\x02\x00\x3c\x00\x02aa", wrong: "there is none"},
	{name: "the end", header: "PROXY TCP4", wrong: "EOF"},
}

func TestAHeaderGivesTheClientsAddressAndLeavesWhatFollows(t *testing.T) {
	for _, test := range proxyHeaders {
		t.Run(test.name, func(t *testing.T) {
			in := strings.NewReader(test.header + "rest")
			if test.wrong == "EOF" {
				in = strings.NewReader(test.header)
			}
			addr, err := readProxyHeader(in)
			if test.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), test.wrong) {
					t.Errorf("%v, %v", addr, err)
				}
				return
			}
			got := ""
			if addr != nil {
				got = addr.String()
			}
			if err != nil || got != test.want {
				t.Errorf("%q, %v", got, err)
			}
			if rest, _ := io.ReadAll(in); string(rest) != "rest" {
				t.Errorf("what follows became %q", rest)
			}
		})
	}
}

func proxied(mode ProxyMode, trusted string) func(*Listener) {
	return func(l *Listener) { l.Proxy = Proxy{mode, []netip.Prefix{netip.MustParsePrefix(trusted)}} }
}

func TestAHeaderComesBeforeTheHandshake(t *testing.T) {
	a := certtest.New(t)
	l := listen(t, secure(t, a), proxied(ProxyRequire, "127.0.0.0/8"))
	client := l.dialTLS(t, a)
	c := l.prepared(t, func() error {
		_, err := io.WriteString(client.NetConn(), "PROXY TCP4 192.0.2.1 192.0.2.9 4711 1883\r\n")
		return errors.Join(err, client.Handshake())
	})
	if got := c.RemoteAddr().String(); got != "192.0.2.1:4711" {
		t.Errorf("%q", got)
	}
	if _, err := client.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	p := make([]byte, 10)
	if n, err := c.Read(p); err != nil || string(p[:n]) != "hello" {
		t.Errorf("%q, %v", p[:n], err)
	}
}

func TestWhoIsNotTrustedIsRefusedOrDirect(t *testing.T) {
	l := listen(t, proxied(ProxyRequire, "192.0.2.0/24"))
	l.dial(t)
	if err := l.accept(t).Prepare(time.Now().Add(patience)); !errors.Is(err, errNotTrusted) {
		t.Errorf("%v", err)
	}
	l = listen(t, proxied(ProxyTrusted, "192.0.2.0/24"))
	client := l.dial(t)
	const line = "PROXY TCP4 192.0.2.1 192.0.2.9 4711 1883\r\n"
	if _, err := io.WriteString(client, line); err != nil {
		t.Fatal(err)
	}
	c := l.accept(t)
	if err := c.Prepare(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if got := c.RemoteAddr().String(); got != client.LocalAddr().String() {
		t.Errorf("a forged header was believed: %s", got)
	}
	p := make([]byte, len(line))
	if _, err := io.ReadFull(c, p); err != nil || string(p) != line {
		t.Errorf("%q, %v", p, err)
	}
}

func TestAHeaderThatComesSlowlyEndsWithTheDeadline(t *testing.T) {
	l := listen(t, proxied(ProxyTrusted, "127.0.0.1/32"))
	client := l.dial(t)
	if _, err := io.WriteString(client, "PROXY TCP4 192"); err != nil {
		t.Fatal(err)
	}
	if err := l.accept(t).Prepare(time.Now().Add(30 * time.Millisecond)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

// Whatever comes, no more is read than a header, and what is accepted is what the library reads from it.
func FuzzProxyHeader(f *testing.F) {
	for _, test := range proxyHeaders {
		f.Add([]byte(test.header + "rest"))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		in := bytes.NewReader(raw)
		addr, err := readProxyHeader(in)
		read := raw[:len(raw)-in.Len()]
		if len(read) > proxyHeadBytes+proxyHeaderMax {
			t.Fatalf("%d bytes were read", len(read))
		}
		if err != nil {
			return
		}
		if addr != nil {
			if _, ok := addr.(*net.TCPAddr); !ok {
				t.Fatalf("a %T", addr)
			}
		}
		// A header that names the same client is taken the same way.
		if addr == nil {
			return
		}
		again, err := proxyproto.HeaderProxyFromAddrs(2, addr, addr).Format()
		if err != nil {
			t.Fatal(err)
		}
		twice, err := readProxyHeader(bytes.NewReader(again))
		if err != nil || twice == nil || twice.String() != addr.String() {
			t.Fatalf("%v, then %v, %v", addr, twice, err)
		}
	})
}
