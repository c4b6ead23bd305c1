package config

import (
	"fmt"
	"io/fs"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// TLS says what the listeners mqtts and https show to clients and ask of them.
type TLS struct {
	Cert string `placeholder:"FILE" help:"Certificate of --mqtts and --https, PEM, followed by the intermediate ones. It is read again on SIGHUP and when the file changes."`
	Key  string `placeholder:"FILE" help:"Private key of --tls-cert, PEM."`

	ClientCA   string     `name:"client-ca" placeholder:"FILE" help:"Authorities whose client certificates are accepted, PEM."`
	ClientAuth ClientAuth `default:"none" enum:"none,optional,require" placeholder:"WHAT" help:"Client certificates: none are asked for, optional, or require. One that is shown must be valid in either case."`
	User       CertUser   `default:"none" enum:"none,cn,san" placeholder:"WHAT" help:"What of a client certificate is the MQTT user name: none, cn (the subject's common name), or san (the first DNS name, else the first e-mail address, else the first URI). A certificate without it is refused."`
}

// ClientAuth says whether clients must show a certificate.
type ClientAuth string

// The answers to a client without a certificate: nobody asks, it is let in, or it is refused.
const (
	ClientAuthNone     ClientAuth = "none"
	ClientAuthOptional ClientAuth = "optional"
	ClientAuthRequire  ClientAuth = "require"
)

// CertUser says what of a client certificate is the user name.
type CertUser string

// The places in a certificate where a user name may stand.
const (
	CertUserNone CertUser = "none"
	CertUserCN   CertUser = "cn"
	CertUserSAN  CertUser = "san"
)

// Proxy says whom to believe about where a connection comes from.
type Proxy struct {
	Protocol  ProxyProtocol `default:"off" enum:"off,trusted,require" placeholder:"WHAT" help:"PROXY protocol, version 1 or 2: off; trusted (connections from --proxy-trusted must begin with a header, all others are direct); require (as trusted, and all others are refused)."`
	Trusted   Networks      `placeholder:"CIDR,..." help:"Networks and addresses of the proxies."`
	Listeners Names         `default:"mqtt,mqtts,http,https" placeholder:"NAME,..." help:"Listeners that --proxy-protocol holds for."`
}

// ProxyProtocol says which connections begin with a PROXY header.
type ProxyProtocol string

// No connection begins with a header; those of trusted proxies do; those do and there are no others.
const (
	ProxyOff     ProxyProtocol = "off"
	ProxyTrusted ProxyProtocol = "trusted"
	ProxyRequire ProxyProtocol = "require"
)

// WebSocket bounds what browsers can do.
type WebSocket struct {
	Origins       Origins `placeholder:"ORIGIN,..." help:"Web pages that may connect: origins such as https://example.org, or '*' for all of them. Without it only pages from the listener itself, reached by its address or as localhost. Clients that are not browsers need none."`
	MaxFrameBytes Bytes   `default:"16MiB" placeholder:"SIZE" help:"Largest WebSocket frame; a message may have many."`
}

// Networks are networks and single addresses, separated by commas.
type Networks []netip.Prefix

// UnmarshalText reads networks in CIDR form; a single address is a network of its own.
func (n *Networks) UnmarshalText(text []byte) error {
	*n = nil
	for _, word := range words(text) {
		network, err := netip.ParsePrefix(word)
		if err != nil {
			addr, addrErr := netip.ParseAddr(word)
			if addrErr != nil {
				return fmt.Errorf("%q is neither a network such as 10.0.0.0/8 nor an address", word)
			}
			network = netip.PrefixFrom(addr, addr.BitLen())
		}
		*n = append(*n, network.Masked())
	}
	return nil
}

// Names are words, separated by commas.
type Names []string

// UnmarshalText reads words separated by commas.
func (n *Names) UnmarshalText(text []byte) error {
	*n = words(text)
	return nil
}

// Origins are the origins of web pages as browsers send them, or "*".
type Origins []string

// UnmarshalText reads origins separated by commas.
func (o *Origins) UnmarshalText(text []byte) error {
	*o = nil
	for _, word := range words(text) {
		u, err := url.Parse(word)
		isOrigin := err == nil && u.Scheme != "" && u.Host != "" && u.Scheme+"://"+u.Host == word
		if !isOrigin && word != "*" && word != "null" {
			return fmt.Errorf("%q is not an origin such as https://example.org or http://localhost:3000, without a path", word)
		}
		*o = append(*o, strings.ToLower(word))
	}
	return nil
}

func words(text []byte) (list []string) {
	for word := range strings.SplitSeq(string(text), ",") {
		if word = strings.TrimSpace(word); word != "" {
			list = append(list, word)
		}
	}
	return list
}

// FileMode is who may open a file, in octal.
type FileMode fs.FileMode

// UnmarshalText reads permissions such as 0660.
func (m *FileMode) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 8, 16)
	if err != nil || n > 0o777 {
		return fmt.Errorf("%q is not a mode such as 0660", text)
	}
	*m = FileMode(n)
	return nil
}

// String gives the mode as UnmarshalText reads it.
func (m FileMode) String() string { return fmt.Sprintf("0%o", uint16(m)) }

// maxUnixPath is what every system takes, 104 bytes, less what follows the name while the socket is made.
const maxUnixPath = 92

// completeTransport checks what listeners need, and refuses what nothing would use.
func (s *Serve) completeTransport() error {
	if err := s.completeTLS(); err != nil {
		return err
	}
	if s.WS.Origins != nil && !s.HTTP.On() && !s.HTTPS.On() {
		return badFlag("ws-origins", "neither --http nor --https is on, which serve WebSocket")
	}
	if len(s.MQTTUnix) > maxUnixPath {
		return badFlag("mqtt-unix", "its %d bytes are more than the %d that the path of a socket may have", len(s.MQTTUnix), maxUnixPath)
	}
	p := &s.Proxy
	for _, name := range p.Listeners {
		if name != "mqtt" && name != "mqtts" && name != "http" && name != "https" {
			return badFlag("proxy-listeners", "%q is none of mqtt, mqtts, http and https", name)
		}
	}
	speaks := p.Protocol != "" && p.Protocol != ProxyOff
	switch {
	case speaks && len(p.Trusted) == 0:
		return badFlag("proxy-protocol", "needs --proxy-trusted: whoever is believed can claim any address")
	case !speaks && p.Trusted != nil:
		return badFlag("proxy-trusted", "--proxy-protocol is off")
	}
	return nil
}

// NamesUsers reports whether client certificates give user names.
func (t *TLS) NamesUsers() bool { return t.User != "" && t.User != CertUserNone }

func (s *Serve) completeTLS() error {
	t := &s.TLS
	usedBy := "" // a flag
	for _, l := range s.Listeners() {
		if l.Secure && l.Address.On() {
			usedBy = l.Flag
		}
	}
	asks := t.ClientAuth != "" && t.ClientAuth != ClientAuthNone
	named := t.NamesUsers()
	switch {
	case usedBy == "" && t.Cert != "":
		return badFlag("tls-cert", "neither --mqtts nor --https is on")
	case usedBy == "" && t.Key != "":
		return badFlag("tls-key", "neither --mqtts nor --https is on")
	case usedBy == "" && t.ClientCA != "":
		return badFlag("tls-client-ca", "neither --mqtts nor --https is on")
	case usedBy == "" && asks:
		return badFlag("tls-client-auth", "neither --mqtts nor --https is on")
	case usedBy != "" && t.Cert == "":
		return badFlag("tls-cert", "names no file, and --%s needs a certificate", usedBy)
	case usedBy != "" && t.Key == "":
		return badFlag("tls-key", "names no file, and --%s needs the key of its certificate", usedBy)
	case asks && t.ClientCA == "":
		return badFlag("tls-client-auth", "needs --tls-client-ca, which says whose certificates are accepted")
	case !asks && t.ClientCA != "":
		return badFlag("tls-client-ca", "has no use while --tls-client-auth is none")
	case !asks && named:
		return badFlag("tls-user", "has no use while --tls-client-auth is none")
	}
	return nil
}

// Named reports whether a listener lets nobody in who has not shown a certificate with a user name.
func (s *Serve) Named(l Listener) bool {
	return l.Secure && s.TLS.ClientAuth == ClientAuthRequire && s.TLS.NamesUsers()
}
