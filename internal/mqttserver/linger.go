package mqttserver

import (
	"net"
	"time"
)

// A peer gets a moment to read the last words and close its side; one that goes on sending does not.
const (
	lingerTime  = 200 * time.Millisecond
	lingerReads = 64
)

// closeGently closes the connection so that the last words arrive: with bytes unread, close would send a
// reset, which overtakes them. The reader is on its way out; should it still read, it reads along.
func closeGently(nc net.Conn) {
	if tcp, ok := nc.(interface{ CloseWrite() error }); ok {
		if tcp.CloseWrite() == nil && nc.SetReadDeadline(time.Now().Add(lingerTime)) == nil {
			var sink [4096]byte
			for range lingerReads {
				if _, err := nc.Read(sink[:]); err != nil {
					break
				}
			}
		}
	}
	_ = nc.Close() // whatever it says, the connection is as closed as it will get
}
