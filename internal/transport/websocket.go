package transport

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gobwas/ws"
)

// WebSocket upgrades requests to connections that carry MQTT.
type WebSocket struct {
	// Serve takes the connection over; false: it does not, and nothing was said on it.
	Serve func(net.Conn) bool
	// MaxFrame bounds the payload of a client's frame.
	MaxFrame int64
	// Origins are the web pages that may connect, besides those of this listener; "*" are all.
	Origins []string
	// Refused, if set, is told why a request was.
	Refused func(r *http.Request, why string)

	Upgraded, Rejected atomic.Uint64
}

// upgradeTime bounds the answer to a handshake.
const upgradeTime = 5 * time.Second

// subprotocol is the name of MQTT among those a client offers ([MQTT-6.0.0-3]), and the one it is told
// ([MQTT-6.0.0-4]).
const subprotocol = "mqtt"

// ServeHTTP upgrades one connection.
func (w *WebSocket) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if status, why := w.check(r); status != 0 {
		w.refuse(r, why)
		http.Error(rw, why, status)
		return
	}
	upgrader := ws.HTTPUpgrader{Timeout: upgradeTime, Protocol: ws.SelectEqual(subprotocol)}
	nc, buffered, _, err := upgrader.Upgrade(r, rw)
	if err != nil { // which has been answered
		w.refuse(r, err.Error())
		return
	}
	conn, ok := nc.(*Conn)
	if !ok {
		w.refuse(r, fmt.Sprintf("the listener's connections are %T", nc))
		_ = nc.Close()
		return
	}
	conn.http = false
	conn.frames = &frames{max: w.MaxFrame}
	if n := buffered.Reader.Buffered(); n > 0 { // sent before it had our answer
		sent, _ := buffered.Reader.Peek(n)
		conn.frames.rest = slices.Clone(sent)
	}
	_ = conn.SetDeadline(time.Time{})
	w.Upgraded.Add(1)
	if !w.Serve(conn) {
		_ = conn.Close()
	}
}

func (w *WebSocket) refuse(r *http.Request, why string) {
	w.Rejected.Add(1)
	if w.Refused != nil {
		w.Refused(r, why)
	}
}

// WantsWebSocket reports whether a request asks to become a WebSocket.
func WantsWebSocket(r *http.Request) bool {
	return strings.EqualFold(r.Header.Get("Upgrade"), "websocket")
}

// check gives the status and the reason of a request that is refused, else 0.
func (w *WebSocket) check(r *http.Request) (int, string) {
	if !WantsWebSocket(r) {
		return http.StatusUpgradeRequired, "this is for MQTT over WebSocket"
	}
	if !offers(r.Header.Values("Sec-WebSocket-Protocol")) { // [MQTT-6.0.0-3]
		return http.StatusBadRequest, "the WebSocket subprotocol must be mqtt"
	}
	if err := w.checkOrigin(r); err != nil {
		return http.StatusForbidden, err.Error()
	}
	return 0, ""
}

func offers(lists []string) bool {
	for _, list := range lists {
		for name := range strings.SplitSeq(list, ",") {
			if strings.TrimSpace(name) == subprotocol {
				return true
			}
		}
	}
	return false
}

// checkOrigin keeps web pages out that nobody has invited: a browser lets every page open a WebSocket to any
// address that it can reach, a loopback one too, and says only from which origin the page came.
//
// A page of the listener's own origin is let in if the browser reached it by address or as localhost. By another
// name it is not: whoever owns a name can point it at this machine, and so make a page of his own "the same origin".
func (w *WebSocket) checkOrigin(r *http.Request) error {
	origin := strings.ToLower(r.Header.Get("Origin"))
	if origin == "" || slices.Contains(w.Origins, "*") || slices.Contains(w.Origins, origin) {
		return nil // without one it is no browser
	}
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" {
		return fmt.Errorf("pages of origin %q are not allowed; --ws-origins can allow them", origin)
	}
	if !strings.EqualFold(u.Host, r.Host) || !isAddress(u.Hostname()) {
		return fmt.Errorf("pages of origin %q are not allowed; --ws-origins can allow them", origin)
	}
	return nil
}

// isAddress reports whether no name service has a say in what host means.
func isAddress(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil || host == "localhost"
}
