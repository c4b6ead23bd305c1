package transport

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"

	"github.com/pires/go-proxyproto"
)

// Proxy says which connections begin with a PROXY header, which names the client that a proxy speaks for. Who is
// believed can claim any address, so there is no mode that believes everybody, and none where a trusted proxy may
// leave the header out: its client could then write one.
type Proxy struct {
	Mode    ProxyMode
	Trusted []netip.Prefix
}

// ProxyMode says what becomes of connections from elsewhere than a trusted network.
type ProxyMode int

// No connection has a header; those from trusted networks do, and all others are direct; or all others are refused.
const (
	ProxyOff ProxyMode = iota
	ProxyTrusted
	ProxyRequire
)

var errNotTrusted = errors.New("the connection does not come from a trusted proxy")

// expects tells whether a connection from remote begins with a header.
func (p *Proxy) expects(remote net.Addr) (bool, error) {
	if tcp, ok := remote.(*net.TCPAddr); ok {
		addr := tcp.AddrPort().Addr().Unmap().WithZone("")
		for _, network := range p.Trusted {
			if network.Contains(addr) {
				return true, nil
			}
		}
	}
	if p.Mode == ProxyRequire {
		return false, errNotTrusted
	}
	return false, nil
}

// The header's beginning, and the most that one may have: a line of version 1 by the protocol's own bound, and of
// version 2 room for addresses and what proxies add to them.
const (
	proxySignature  = "\r\n\r\n\x00\r\nQUIT\n"
	proxyLineStart  = "PROXY "
	proxyLineMax    = 107
	proxyHeadBytes  = len(proxySignature) + 4
	proxyHeaderMax  = 2048
	proxyFirstBytes = len(proxySignature) // the shortest line is longer
)

// readProxyHeader reads a header and not a byte more: what follows is somebody else's. The address is nil where the
// proxy speaks for itself, or for a client it knows nothing of.
func readProxyHeader(r io.Reader) (net.Addr, error) {
	raw := make([]byte, proxyFirstBytes, proxyLineMax)
	if _, err := io.ReadFull(r, raw); err != nil {
		return nil, err
	}
	var err error
	switch {
	case string(raw) == proxySignature:
		raw, err = readProxyBinary(r, raw)
	case string(raw[:len(proxyLineStart)]) == proxyLineStart:
		raw, err = readProxyLine(r, raw)
	default:
		return nil, errors.New("there is none")
	}
	if err != nil {
		return nil, err
	}
	if raw[0] == proxySignature[0] && raw[proxyHeadBytes-3] == 0 { // which the library does not take
		return nil, nil
	}
	header, err := proxyproto.Read(bufio.NewReaderSize(bytes.NewReader(raw), len(raw)+16))
	if err != nil {
		return nil, err
	}
	if header.Command.IsLocal() || header.TransportProtocol.IsUnspec() {
		return nil, nil
	}
	source, ok := header.SourceAddr.(*net.TCPAddr)
	if !ok {
		return nil, fmt.Errorf("a client that came by %v", header.SourceAddr)
	}
	return source, nil
}

func readProxyBinary(r io.Reader, raw []byte) ([]byte, error) {
	raw = raw[:proxyHeadBytes]
	if _, err := io.ReadFull(r, raw[proxyFirstBytes:]); err != nil {
		return nil, err
	}
	size := int(binary.BigEndian.Uint16(raw[proxyHeadBytes-2:]))
	if size > proxyHeaderMax {
		return nil, fmt.Errorf("%d bytes of addresses and additions, more than %d", size, proxyHeaderMax)
	}
	raw = append(raw, make([]byte, size)...)
	_, err := io.ReadFull(r, raw[proxyHeadBytes:])
	return raw, err
}

// readProxyLine reads byte by byte, for only the last one tells the length; the line is short.
func readProxyLine(r io.Reader, raw []byte) ([]byte, error) {
	for raw[len(raw)-1] != '\n' {
		if len(raw) == proxyLineMax {
			return nil, errors.New("the line has no end")
		}
		raw = raw[:len(raw)+1]
		if _, err := io.ReadFull(r, raw[len(raw)-1:]); err != nil {
			return nil, err
		}
	}
	return raw, nil
}
