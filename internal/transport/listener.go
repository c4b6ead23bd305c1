package transport

import (
	"net"
	"time"
)

// Listener makes connections that are ready after their Prepare: once the PROXY header is read and the TLS handshake
// done. Accept itself waits for neither.
type Listener struct {
	net.Listener
	Certificates *Certificates // nil: no TLS
	Proxy        Proxy

	// HTTP is how long Prepare may take where nobody calls it: net/http reads at once, and the first Read
	// prepares. 0 where the server calls Prepare.
	HTTP time.Duration
	// Failed, if set, is told of each connection that such a Read could not prepare.
	Failed func(remote net.Addr, err error)
}

// Accept waits for the next connection. One that has nothing to prepare is handed on as it is.
func (l *Listener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if l.Certificates == nil && l.Proxy.Mode == ProxyOff && l.HTTP == 0 {
		return nc, nil
	}
	return newConn(nc, l)
}
