package mqttserver

import (
	"errors"
	"net"
	"sync"
	"time"

	"emanet/internal/broker"
	"emanet/internal/mailbox"
	"emanet/internal/message"
	"emanet/internal/mqttwire"
	"emanet/internal/store"
)

// output is what a connection has to say. Whoever has something calls wake: it starts the writer, a
// goroutine that lives until nothing is left. So an idle connection costs no goroutine but its reader.
type output struct {
	conn *conn

	mu      sync.Mutex
	room    *sync.Cond // told when answers have left
	answers []answer   // in the order of the packets that caused them
	pongs   int        // PINGRESPs due: they wait for nothing
	live    []liveMessage
	liveB   int64
	running bool // the writer lives
	again   bool // something came since it last looked
	greeted bool // CONNACK is written; nothing else goes before it ([MQTT-3.2.0-1])
	ending  ending
	isEnded bool // ending is decided: the writer says goodbye and closes
	isCut   bool
	closed  chan struct{} // closed by the writer after the goodbye

	// the writer's own
	buf        []byte
	chunks     net.Buffers // when large payloads go out without being copied
	deliveries []mailbox.Delivery
	retained   []broker.Retained
	tooLarge   []uint64
	sent       []answer
	roomWait   store.RoomWaiter
}

// answer is a packet that waits for its LSN to be flushed.
type answer struct {
	lsn      store.LSN
	kind     mqttwire.PacketType
	packetID uint16
	code     mqttwire.ReasonCode
	raw      []byte // the packet, if it is not a plain acknowledgement
}

type liveMessage struct {
	message *message.Message
	tag     string
	attr    uint8
}

// answersMax is how many answers may wait before no more packets are read: a client that sends and never
// reads holds that much and no more.
const answersMax = 4096

// goodbyeTime is how long a client that does not read may delay the end of its connection.
const goodbyeTime = 2 * time.Second

func (o *output) init(c *conn) {
	o.conn = c
	o.room = sync.NewCond(&o.mu)
	o.closed = make(chan struct{})
	o.roomWait = store.RoomWaiter{Class: store.Publish, F: o.wake}
}

// answer queues a packet. It leaves in its turn, once lsn is on disk: the only way to acknowledge.
// The flush may have come, and have told the writer, before the packet was here: then nobody else wakes it.
func (o *output) answer(a answer) {
	o.mu.Lock()
	o.answers = append(o.answers, a)
	if a.lsn == 0 || a.lsn <= o.conn.server.broker.Flushed() {
		o.wakeLocked()
	}
	o.mu.Unlock()
}

// answerOld is answer for one that rests on a batch of an earlier connection, whose flush this one was
// not told of.
func (o *output) answerOld(a answer) {
	o.answer(a)
	if a.lsn != 0 && !o.conn.client.AwaitTail() {
		o.wake()
	}
}

func (o *output) pong() {
	o.mu.Lock()
	o.pongs++
	o.wakeLocked()
	o.mu.Unlock()
}

// pause holds the reader while too many answers wait.
func (o *output) pause() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.answers)+o.pongs > answersMax && !o.isEnded {
		o.wakeLocked()
		o.room.Wait()
	}
	if o.isEnded {
		return errEnd
	}
	return nil
}

// Live implements broker.Receiver. The writer is woken by whoever published, after its burst.
func (c *conn) Live(m *message.Message, attr uint8, tag string) {
	o := &c.out
	o.mu.Lock()
	defer o.mu.Unlock()
	size := int64(len(m.Topic) + len(m.Payload) + 64)
	if o.isEnded || o.liveB+size > c.server.opt.MaxLiveBytes && len(o.live) > 0 {
		c.server.stats.LiveDropped.Add(1)
		return
	}
	o.live = append(o.live, liveMessage{m, tag, attr})
	o.liveB += size
}

// wake has the writer look. It never blocks.
func (o *output) wake() {
	o.mu.Lock()
	o.wakeLocked()
	o.mu.Unlock()
}

func (o *output) wakeLocked() {
	if o.running {
		o.again = true
		return
	}
	o.running = true
	go o.write()
}

// end decides the ending; the writer carries it out.
func (o *output) end(e ending) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.isEnded {
		return
	}
	o.isEnded, o.ending = true, e
	o.room.Broadcast()
	// A writer stuck in a client that does not read must come out of it, and the reader out of its wait.
	now := time.Now()
	if err := errors.Join(o.conn.nc.SetWriteDeadline(now.Add(goodbyeTime)), o.conn.nc.SetReadDeadline(now)); err != nil {
		o.isCut = true
	}
	o.wakeLocked()
}

// cut is end without another word.
func (o *output) cut() {
	o.mu.Lock()
	o.isCut = true
	if !o.isEnded {
		o.isEnded, o.ending = true, ending{cause: "cut off"}
	}
	o.room.Broadcast()
	o.wakeLocked()
	o.mu.Unlock()
}

// ended tells how the connection ends, false while it goes on.
func (o *output) ended() (ending, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.ending, o.isEnded
}

// finish returns when the writer has closed the connection. The ending is decided.
func (o *output) finish() { <-o.closed }

// write is the writer: it gathers all there is, writes it at once, and looks again.
func (o *output) write() {
	for {
		o.buf = getOutput()
		ended, cut := o.gather()
		if cut {
			o.buf, o.chunks = nil, nil
		}
		err := o.flush()
		if ended || err != nil {
			o.close(err)
			return
		}
		if o.rest() {
			return
		}
	}
}

// rest ends the writer when nothing has come since it last looked.
func (o *output) rest() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.again {
		o.again = false
		return false
	}
	o.running = false
	return true
}

// close ends the connection. running stays set: there is no writer after this one.
func (o *output) close(err error) {
	o.mu.Lock()
	if !o.isEnded {
		o.isEnded, o.ending = true, ending{cause: err.Error()}
	}
	o.live, o.answers, o.pongs = nil, nil, 0
	o.room.Broadcast()
	o.mu.Unlock()
	closeGently(o.conn.nc)
	close(o.closed)
}

// gather encodes into buf and chunks what may leave now.
func (o *output) gather() (ended, cut bool) {
	live := o.gatherAnswers()
	if o.greeted && o.conn.client != nil {
		o.gatherLive(live)
		o.gatherDeliveries()
		o.gatherRetained()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.isEnded && o.ending.tell && o.greeted && o.conn.version == mqttwire.V5 {
		o.buf = mqttwire.AppendDisconnect(o.buf, &mqttwire.Disconnect{Code: o.ending.code}, mqttwire.V5)
	}
	return o.isEnded, o.isCut
}

// gatherAnswers encodes the answers whose turn has come: from the front, as far as they are flushed.
func (o *output) gatherAnswers() []liveMessage {
	flushed := o.conn.server.broker.Flushed()
	o.mu.Lock()
	n := 0
	for n < len(o.answers) && o.answers[n].lsn <= flushed {
		n++
	}
	o.sent = append(o.sent[:0], o.answers[:n]...)
	left := copy(o.answers, o.answers[n:])
	clear(o.answers[left:])
	o.answers = o.answers[:left]
	pongs := o.pongs
	o.pongs = 0
	if n+pongs > 0 {
		o.room.Broadcast()
	}
	var live []liveMessage
	if o.greeted || n > 0 && o.sent[0].kind == mqttwire.TypeConnack {
		live, o.live, o.liveB = o.live, nil, 0
	}
	o.mu.Unlock()

	for i := range o.sent {
		o.encodeAnswer(&o.sent[i])
	}
	for range pongs {
		o.buf = mqttwire.AppendPingresp(o.buf)
	}
	return live
}

func (o *output) encodeAnswer(a *answer) {
	c := o.conn
	if a.raw != nil {
		o.buf = append(o.buf, a.raw...)
		if a.kind == mqttwire.TypeConnack {
			o.mu.Lock()
			o.greeted = true
			o.mu.Unlock()
		}
		return
	}
	switch a.kind {
	case mqttwire.TypePuback, mqttwire.TypePubcomp:
		c.handshakeOver()
	case mqttwire.TypePubrec:
		if a.code.Failed() {
			c.handshakeOver()
		}
	}
	if a.kind <= mqttwire.TypePubrec && !a.code.Failed() {
		c.server.stats.Acknowledged.Add(1)
	}
	o.buf = mqttwire.AppendAckCode(o.buf, a.kind, a.packetID, a.code, c.version)
}

// handshakeOver counts one inbound message less. Before its packet is written: the client may send the
// next as soon as it has read it.
func (c *conn) handshakeOver() {
	if c.inbound.Add(-1) < 0 {
		c.inbound.Add(1) // a handshake that began on an earlier connection
	}
}

func (o *output) gatherLive(live []liveMessage) {
	now := o.conn.server.broker.Now()
	for i := range live {
		if l := &live[i]; !l.message.Expired(now) {
			o.encodeMessage(&outgoing{message: l.message, attr: l.attr, tag: l.tag}, now)
		}
	}
}

func (o *output) gatherDeliveries() {
	c := o.conn
	now := c.server.broker.Now()
	o.deliveries = c.client.Take(o.deliveries[:0])
	for i := range o.deliveries {
		d := &o.deliveries[i]
		packetID := uint16(d.Key) + 1
		if d.Released {
			o.buf = mqttwire.AppendAckCode(o.buf, mqttwire.TypePubrel, packetID, mqttwire.Success, c.version)
			continue
		}
		sent := o.encodeMessage(&outgoing{d.Message, d.Attr, d.Tag, packetID, d.Redelivered}, now)
		if !sent { // as if it had been delivered ([MQTT-3.1.2-25])
			o.tooLarge = append(o.tooLarge, d.Key)
		}
	}
	if len(o.deliveries) > 0 {
		o.lookAgain()
	}
	clear(o.deliveries)
	if len(o.tooLarge) > 0 {
		if err := c.client.Settle(o.tooLarge); err != nil {
			c.server.log.Warn("settling a message too large for its client failed", "client", c.clientID, "error", err)
		}
		o.tooLarge = o.tooLarge[:0]
	}
}

// lookAgain: there is more where that came from, and no wake for it.
func (o *output) lookAgain() {
	o.mu.Lock()
	o.again = true
	o.mu.Unlock()
}

func (o *output) gatherRetained() {
	c := o.conn
	if !c.client.Walking() || o.backlog() {
		return
	}
	retained, more, room, err := c.client.NextRetained(o.retained[:0])
	o.retained = retained
	switch {
	case err != nil: // the store takes nothing any more, and the connection will end by that
		return
	case room > 0:
		o.roomWait.Size = room
		c.server.broker.NotifyRoom(&o.roomWait)
		return
	}
	now := c.server.broker.Now()
	for i := range o.retained {
		r := &o.retained[i]
		o.encodeMessage(&outgoing{message: r.Message, attr: r.Attr, tag: r.Tag}, now)
	}
	clear(o.retained)
	if more {
		o.lookAgain()
	}
}

// backlog tells whether answers wait: retained messages come after the SUBACK that asked for them.
func (o *output) backlog() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range o.answers {
		if o.answers[i].kind == mqttwire.TypeSuback {
			return true
		}
	}
	return false
}
