package mqttserver

import (
	"emanet/internal/mqttwire"
	"emanet/internal/store"
)

// write is the writer: it gathers all there is, writes it at once, and looks again. One lives at a time.
func (o *output) write() {
	if o.pad == nil {
		o.pad = pads.Get().(*pad)
	}
	for {
		ended := o.gather()
		o.flush()
		if ended || o.err != nil {
			o.givePad()
			o.close()
			return
		}
		if o.rest() {
			return
		}
		o.letOthersRun()
	}
}

// writeAtOnce is the writer's turn on the goroutine of whoever flushed, for answers alone and without
// blocking. What the socket does not take, and all else, is left to the writer.
func (o *output) writeAtOnce() {
	o.mu.Lock()
	if o.running || o.isEnded || o.conn.in.raw == nil {
		o.wakeLocked()
		o.mu.Unlock()
		return
	}
	o.running = true
	o.mu.Unlock()
	if !o.greeted || o.conn.client.Walking() || len(o.tooLarge) > 0 { // the flush may have made room for these
		go o.write()
		return
	}
	o.pad = pads.Get().(*pad)
	o.gatherAnswers()
	var n int
	n, o.unsent = o.conn.in.tryWrite(o.pad.buf)
	o.sent(int64(n))
	o.pad.buf = o.pad.buf[:copy(o.pad.buf, o.pad.buf[n:])]
	if len(o.pad.buf) > 0 || o.unsent || !o.rest() {
		go o.write()
	}
}

// rest ends the writer when nothing has come since it last looked. The next may begin as soon as mu is free.
func (o *output) rest() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.again {
		o.again = false
		return false
	}
	o.givePad()
	o.running = false
	return true
}

// close ends the connection. running stays set: there is no writer after this one.
func (o *output) close() {
	o.mu.Lock()
	if !o.isEnded {
		o.isEnded, o.ending = true, ending{cause: o.err.Error()}
	}
	o.live, o.leaving, o.answers, o.pongs = nil, nil, nil, 0
	o.room.Broadcast()
	o.mu.Unlock()
	closeGently(o.conn.nc)
	close(o.closed)
}

// gather encodes into buf and chunks what may leave now, and tells whether that is the last.
func (o *output) gather() (ended bool) {
	o.mu.Lock()
	end, ended, cut := o.ending, o.isEnded, o.isCut
	o.mu.Unlock()
	if cut {
		return true
	}
	o.gatherAnswers()
	switch {
	case ended && o.draining():
		return false
	case ended: // no more messages: the client could not acknowledge them
		if end.tell && o.greeted && o.conn.version == mqttwire.V5 {
			o.pad.buf = o.conn.appendDisconnect(o.pad.buf, &end)
			o.pad.tally.packets[mqttwire.TypeDisconnect]++
		}
	case o.greeted && o.conn.client != nil: // nil: CONNECT was refused
		o.gatherLive()
		o.gatherDeliveries()
		o.gatherRetained()
	}
	return ended
}

// gatherAnswers encodes the answers whose turn has come: from the front, as far as they are flushed.
func (o *output) gatherAnswers() {
	flushed := o.conn.server.broker.Flushed()
	o.mu.Lock()
	n := 0
	for n < o.answers.len() && o.answers.items[n].lsn <= flushed {
		n++
	}
	var due *list[answer]
	due, o.answers = o.answers.first(n, &answerLists)
	pongs := 0
	if o.greeted || n > 0 { // CONNACK is the first of all answers
		pongs, o.pongs = o.pongs, 0
	}
	if n+pongs > 0 {
		o.room.Broadcast()
	}
	o.mu.Unlock()

	for i := range due.all() {
		o.encodeAnswer(&due.items[i])
	}
	due.done(&answerLists)
	for range pongs { // [MQTT-3.12.4-1]
		o.pad.buf = mqttwire.AppendPingresp(o.pad.buf)
	}
	o.pad.tally.packets[mqttwire.TypePingresp] += uint32(pongs)
}

// encodeAnswer appends the packet, and counts a publish that it acknowledges with success.
func (o *output) encodeAnswer(a *answer) {
	c := o.conn
	o.pad.tally.packets[a.kind&15]++
	if a.raw != nil {
		o.pad.buf = append(o.pad.buf, a.raw...)
		o.greeted = true // the first is CONNACK
		return
	}
	switch a.kind {
	case mqttwire.TypePubcomp:
		c.handshakeOver()
	case mqttwire.TypePuback:
		c.handshakeOver()
	case mqttwire.TypePubrec:
		if a.code.Failed() {
			c.handshakeOver()
		}
	}
	if a.kind != mqttwire.TypePubcomp && a.kind != mqttwire.TypePubrel && !a.code.Failed() {
		o.pad.tally.acknowledged++
	}
	o.pad.buf = c.appendAck(o.pad.buf, a.kind, a.packetID, a.code)
}

// handshakeOver counts one inbound message less. Before its packet is written: the client may send the
// next as soon as it has read it.
func (c *conn) handshakeOver() {
	if c.inbound.Add(-1) < 0 {
		c.inbound.Add(1) // a handshake that began on an earlier connection
	}
}

// gatherDeliveries takes what the mailbox has handed over: as much as UnsentMax, until nothing comes.
func (o *output) gatherDeliveries() {
	c := o.conn
	o.pad.deliveries = c.client.Take(o.pad.deliveries[:0])
	if len(o.pad.deliveries) > 0 {
		o.encodeDeliveries()
		clear(o.pad.deliveries)
		o.lookAgain()
	}
	if len(o.tooLarge) == 0 {
		return
	}
	err := c.client.Settle(o.tooLarge)
	if isNoRoom(err) { // they hold credit until then
		o.askSettleRoom()
		return
	}
	if err != nil {
		c.server.log.Warn("settling a message too large for its client failed", "client", c.clientID, "error", err)
	}
	o.tooLarge = nil
}

func (o *output) encodeDeliveries() {
	c := o.conn
	now := c.server.broker.Now()
	var unreadable []uint64
	for i := range o.pad.deliveries {
		d := &o.pad.deliveries[i]
		packetID := uint16(d.Key) + 1
		if d.Released {
			o.pad.buf = mqttwire.AppendAckCode(o.pad.buf, mqttwire.TypePubrel, packetID, mqttwire.Success, c.version)
			o.pad.tally.packets[mqttwire.TypePubrel]++
			continue
		}
		sent := o.encodeMessage(&outgoing{d.Message, d.Attr, d.Tag, packetID, d.Redelivered}, now)
		switch {
		case sent:
		case !c.client.Rights().MayRead(d.Message.Topic):
			unreadable = append(unreadable, d.Key)
		default: // as if it had been delivered ([MQTT-3.1.2-25])
			o.tooLarge = append(o.tooLarge, d.Key)
		}
	}
	if len(unreadable) > 0 {
		o.tooLarge = append(o.tooLarge, c.client.Return(unreadable)...)
	}
}

// lookAgain: there is more where that came from, and no wake for it.
func (o *output) lookAgain() {
	o.mu.Lock()
	o.again = true
	o.mu.Unlock()
}

// askSettleRoom has the writer woken when the store has room to settle what is too large. Not by roomWait: that one
// may wait for what only publishes wait for.
func (o *output) askSettleRoom() {
	o.mu.Lock()
	asked := o.settleAsked
	o.settleAsked = true
	o.mu.Unlock()
	if asked {
		return
	}
	size := min(len(o.tooLarge)*store.SizeSettle, settleRoomMax)
	o.conn.server.broker.NotifyRoom(&store.RoomWaiter{Class: store.Control, Size: size, F: func() {
		o.mu.Lock()
		o.settleAsked = false
		o.wakeLocked()
		o.mu.Unlock()
	}})
}

// settleRoomMax is as much as a batch of settlements takes, or more: many go in several.
const settleRoomMax = 16 << 10
