package mqttserver

import (
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"emanet/internal/auth"
	"emanet/internal/broker"
	"emanet/internal/mqttwire"
	"emanet/internal/store"
)

// conn is one connection. Its reader goroutine runs run; its writer (writer.go) comes and goes. Fields belong
// to the reader but where said.
type conn struct {
	server *Server
	in     input
	nc     net.Conn
	remote remotePeer

	traffic   *trafficShard
	publishes uint64    // received
	since     time.Time // attached
	entry               // admission's

	version  mqttwire.Version // set before the first answer, constant then
	clientID string
	userName string // "" for none; until login is set, the one the client says it has
	login    atomic.Pointer[auth.Login]
	client   *broker.Client // nil until the session is attached; constant then
	maxOut   uint32         // the client's Maximum Packet Size, 0 for none
	terse    bool           // the client wants no problem information
	aliasOut int            // topic aliases the client may be sent
	expiry   uint32         // seconds, as granted
	idle     time.Duration  // silence that ends the connection; 0: any is fine
	now      int64          // the broker's clock when the burst, and with it the keep-alive, began
	progress int            // bytes read since
	goodbye  broker.Goodbye
	settled  []uint64 // delivery keys settled in this burst
	scratch  *scratch // while a burst is handled
	pace     publishPace

	// publishing is held while a publish is taken in: by the reader, or by whoever goes on with held ones.
	publishing sync.Mutex
	held       []heldPublish // publishes that wait for room in the store, in order
	heldLost   bool          // what is held will not be taken in any more
	warned     bool          // of a reserved topic
	aliases    inboundAliases
	room       store.RoomWaiter

	inbound atomic.Int32 // QoS 1 and 2 publishes of the client whose handshake is not over

	out output
}

// scratch are decoded packets, reused so that reading allocates little, and pooled so that idle connections
// have none.
type scratch struct {
	publish     mqttwire.Publish
	ack         mqttwire.Ack
	subscribe   mqttwire.Subscribe
	unsubscribe mqttwire.Unsubscribe
	tally       tally // of the burst
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

func newConn(s *Server, nc net.Conn) *conn {
	c := &conn{server: s, nc: nc, remote: remotePeer{addr: nc.RemoteAddr()}, traffic: s.shard()}
	c.in.init(nc)
	c.room = store.RoomWaiter{Class: store.Publish, F: func() { go c.resumeHeld() }}
	c.out.init(c)
	return c
}

// run is the whole life of a connection.
func (c *conn) run() {
	err := c.handshake()
	if err == nil {
		err = c.serve()
	}
	c.in.release() // an ending may take a while
	// A client that took leave must be gone from the session before it sees its connection end: it may be
	// back at once, and a takeover would send its will.
	left := errors.Is(err, errLeave)
	if !left {
		c.endFor(err)
	}
	if c.client != nil {
		c.awaitHeld()
		c.detach()
	}
	if left {
		c.endFor(err)
	}
	c.readerOut()
	c.out.finish()
	c.noteEnd()
}

// detach leaves the session. What the last burst settled is settled all the same, unless the store has no
// room just now: the client gets it once more.
func (c *conn) detach() {
	err := c.client.Settle(c.settled)
	for ; errors.Is(err, store.ErrBusy); err = c.client.Settle(c.settled) { // the next flush is not far
		room := make(chan struct{})
		c.server.broker.NotifyRoom(&store.RoomWaiter{Class: store.Control, Size: 1, F: func() { close(room) }})
		<-room
	}
	if err != nil {
		c.server.log.Debug("last settlements not written", "client", c.clientID, "error", err)
	}
	c.client.Detach(c.goodbye)
}

// serve reads packets until the connection ends.
func (c *conn) serve() error {
	for {
		if err := c.handleBuffered(); err != nil {
			return err
		}
		if err := c.read(); err != nil {
			return err
		}
	}
}

// handleBuffered handles every whole packet at hand: a burst. Whoever got something by it is woken once, and
// what it settled is written in one batch: in this order, as the batch may have to wait for room.
func (c *conn) handleBuffered() error {
	err := c.handlePackets()
	c.wakeRecipients()
	if err == nil {
		err = c.settle()
	}
	if err != nil {
		return err
	}
	c.client.Pace()
	waited, err := c.out.pause()
	if waited {
		c.alive()
	}
	return err
}

func (c *conn) handlePackets() error {
	c.scratch = scratches.Get().(*scratch)
	defer c.endBurst()
	first := true
	for {
		f, n, err := mqttwire.Next(c.in.bytes(), c.version, c.server.opt.MaxPacket)
		if err != nil || n == 0 {
			return err
		}
		if first {
			first = false
			c.alive()
		}
		c.scratch.tally.packets[f.Type&15]++
		err = c.handle(f)
		c.in.consume(n)
		if err != nil {
			return err
		}
	}
}

// whenRoom repeats a change that the store has no room for as soon as it has: the reader waits, and the client
// with it. To end the connection would only bring the same change back. Nobody else waits: those are woken first
// who got something by this burst.
func (c *conn) whenRoom(change func() error) error {
	// Few changes take more than the one; one that does is found out. None takes more than the other: three times
	// a subscription's filter and client id, and both once more in JSON. After that it has only lost races.
	const atLeast, atMost = 32 << 10, 2 << 20
	for size := atLeast; ; size = min(2*size, atMost) {
		err := change()
		if !isNoRoom(err) {
			return err
		}
		c.wakeRecipients()
		err = c.out.awaitRoom(size)
		c.alive()
		if err != nil {
			return err
		}
	}
}

// handle is one packet: a branch each.
func (c *conn) handle(f mqttwire.Frame) error {
	switch f.Type {
	case mqttwire.TypePublish:
		if err := c.awaitPace(len(f.Body) + 2); err != nil {
			return err
		}
		return c.handlePublish(f)
	case mqttwire.TypePuback:
		return c.handlePuback(f)
	case mqttwire.TypePubrec:
		return c.handlePubrec(f)
	case mqttwire.TypePubrel:
		return c.handlePubrel(f)
	case mqttwire.TypePubcomp:
		return c.handlePubcomp(f)
	case mqttwire.TypeSubscribe:
		return c.handleSubscribe(f)
	case mqttwire.TypeUnsubscribe:
		return c.handleUnsubscribe(f)
	case mqttwire.TypePingreq:
		c.out.pong() // [MQTT-3.12.4-1]
		return nil
	case mqttwire.TypeDisconnect:
		return c.handleDisconnect(f)
	case mqttwire.TypeConnect: // [MQTT-3.1.0-2]
		return protocolError("a second CONNECT")
	case mqttwire.TypeAuth: // no CONNECT with an authentication method is accepted ([MQTT-4.12.0-7])
		return protocolError("AUTH without an authentication method in CONNECT")
	default:
		return protocolError(f.Type.String() + " from a client")
	}
}

func protocolError(text string) error {
	return &mqttwire.ProtocolError{Code: mqttwire.ProtocolViolation, Text: text}
}

// progressMin bytes of a packet that is not whole yet count as a sign of life: a large message may take longer
// than the keep-alive on a slow line, while a byte now and then keeps no connection.
const progressMin = 1024

// alive notes that the keep-alive begins anew: with a packet, and when the reader did not read for a while,
// which is not the client's silence.
func (c *conn) alive() { c.progress, c.now = 0, c.server.broker.Now() }

// read waits for bytes, as long as the keep-alive allows ([MQTT-3.1.2-22]).
func (c *conn) read() error {
	need, err := mqttwire.Size(c.in.bytes(), c.version, c.server.opt.MaxPacket)
	if err != nil {
		return err
	}
	for {
		n, err := c.in.fill(need)
		c.traffic.in.bytes.Add(uint64(n))
		if n > 0 {
			c.progress += n
			if c.idle > 0 && c.progress >= progressMin {
				c.alive()
			}
			return nil
		}
		if _, ended := c.out.ended(); ended {
			return errEnd
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		// The deadline is only set anew when it strikes: a packet then costs no timer.
		left := c.idle - time.Duration(c.server.broker.Now()-c.now)*time.Millisecond
		if c.idle == 0 || left <= 0 {
			c.end(silentEnd)
			return errEnd
		}
		if err := c.setReadDeadline(time.Now().Add(left)); err != nil {
			return err
		}
	}
}

// setReadDeadline lets the reader wait until t. The end of the connection has a deadline of its own, which
// must not be undone.
func (c *conn) setReadDeadline(t time.Time) error {
	if err := c.nc.SetReadDeadline(t); err != nil {
		return err
	}
	if _, ended := c.out.ended(); ended {
		return errEnd
	}
	return nil
}

// The broker's view of a connection (broker.Receiver). Live is in output.go.

// TakenOver implements broker.Receiver.
func (c *conn) TakenOver() { c.end(takenOverEnd) } // [MQTT-3.1.4-3]

// Flushed implements broker.Receiver.
func (c *conn) Flushed(store.LSN) { c.out.wake() }

// FlushedAlone implements broker.Receiver.
func (c *conn) FlushedAlone(store.LSN) { c.out.writeAtOnce() }

// Wake implements broker.Receiver.
func (c *conn) Wake() { c.out.wake() }
