package mqttserver

import (
	"errors"
	"io"

	"emanet/internal/broker"
	"emanet/internal/mqttwire"
	"emanet/internal/store"
)

// ending says how a connection ends: what an MQTT 5 client is told, and why, for the log.
type ending struct {
	code  mqttwire.ReasonCode
	tell  bool // send DISCONNECT (MQTT 5 only)
	drain bool // once what was read is answered
	bad   bool // the client's fault
	late  bool // which is silence
	early bool // before there was anything to read CONNECT from, and counted by whoever ended it
	cause string
}

var (
	shutdownEnd  = ending{code: mqttwire.ServerShuttingDown, tell: true, drain: true, cause: "the server shuts down"}
	takenOverEnd = ending{code: mqttwire.SessionTakenOver, tell: true, cause: "another connection has the session"}
	leaveEnd     = ending{cause: "the client disconnected"}
	silentEnd    = ending{code: mqttwire.KeepAliveTimeout, tell: true, bad: true, late: true, cause: "no packet within 1.5 times the keep-alive"}
)

// errEnd ends the read loop when the connection's ending has been decided.
var errEnd = errors.New("connection ended")

// errLeave is the end that the client has asked for by DISCONNECT.
var errLeave = errors.New("the client disconnected")

// endFor turns an error into the connection's ending, unless that has been decided.
func (c *conn) endFor(err error) {
	var wrong *mqttwire.ProtocolError
	var version *mqttwire.UnsupportedVersionError
	var peer interface{ PeerFault() } // of a layer below
	switch {
	case errors.Is(err, errEnd):
	case errors.Is(err, errLeave):
		c.end(leaveEnd)
	case errors.As(err, &wrong):
		switch wrong.Code {
		case mqttwire.PacketTooLarge:
			c.server.stats.Hits[HitPacket].Add(1)
		case mqttwire.TopicAliasInvalid:
			c.server.stats.Hits[HitTopicAlias].Add(1)
		case mqttwire.ReceiveMaximumExceeded:
			c.server.stats.Hits[HitReceiveMaximum].Add(1)
		}
		c.end(ending{code: wrong.Code, tell: true, bad: true, cause: wrong.Text})
	case errors.As(err, &version):
		c.end(ending{bad: true, cause: version.Error()})
	case errors.As(err, &peer):
		c.end(ending{bad: true, cause: err.Error()})
	case errors.Is(err, broker.ErrGone):
		c.end(takenOverEnd)
	case errors.Is(err, io.EOF):
		c.end(ending{cause: "the peer closed the connection"})
	case errors.Is(err, store.ErrFailed), errors.Is(err, store.ErrClosed):
		c.cut()
	case errors.Is(err, store.ErrTooLarge):
		c.end(ending{code: mqttwire.PacketTooLarge, tell: true, bad: true, cause: err.Error()})
	default:
		c.end(ending{cause: err.Error()})
	}
}

// end decides how the connection ends; the first decision stands. It may be called from any goroutine.
func (c *conn) end(e ending) { c.out.end(e) }

// cut ends the connection at once: nothing more is sent.
func (c *conn) cut() {
	c.out.cut()
	_ = c.nc.Close() // the reader reports what there is to report
}
