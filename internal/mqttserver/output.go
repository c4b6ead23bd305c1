package mqttserver

import (
	"errors"
	"sync"
	"time"

	"emanet/internal/mqttwire"
	"emanet/internal/store"
)

// output is what a connection has to say. Whoever has something calls wake: it starts the writer (writer.go), a
// goroutine that lives until nothing is left. So an idle connection costs no goroutine but its reader.
type output struct {
	conn *conn

	mu          sync.Mutex
	room        sync.Cond          // told when something the reader may wait for has changed
	answers     *list[answer]      // in the order of the packets that caused them; nil: none
	pongs       int                // PINGRESPs due: they wait for nothing but CONNACK
	live        *list[liveMessage] // nil: none
	liveB       int64              // bytes of live and leaving
	drainedAt   time.Time          // when the writer last got rid of some of it
	heldB       int                // bytes of publishes that wait for room in the store
	running     bool               // the writer lives
	again       bool               // something came since it last looked
	subscribing bool               // a SUBACK is being made: retained messages come after it
	roomAsked   bool               // roomWait is with the store
	settleAsked bool               // the store is asked for room for what is tooLarge
	ending      ending
	isEnded     bool // ending is decided: the writer says goodbye and closes
	isCut       bool
	isRead      bool          // the reader is out
	isLate      bool          // for being drained
	closed      chan struct{} // closed by the writer after the goodbye
	decided     chan struct{} // closed when ending is decided; nil: nobody waits for it

	// the writer's own
	readable  readable
	dropped   uint64             // of what was live; under mu
	publishes uint64             // sent
	greeted   bool               // CONNACK is written; nothing else goes before it ([MQTT-3.2.0-1])
	pad       *pad               // nil while there is no writer
	unsent    bool               // a part of what is written waits in the layers below
	err       error              // of the connection; nothing more is written after it
	leaving   *list[liveMessage] // goes out now, a chunk at a time
	left      int                // so many of leaving are out
	tooLarge  []uint64
	aliases   *outboundAliases // nil before the first message, and for a client that takes none
	roomWait  store.RoomWaiter
}

// answer is a packet that waits for its LSN to be flushed.
type answer struct {
	lsn      store.LSN
	kind     mqttwire.PacketType
	packetID uint16
	code     mqttwire.ReasonCode
	raw      []byte // the packet, if it is not a plain acknowledgement
}

// answersMax is how many answers may wait before no more packets are read: a client that sends and never
// reads holds that much, and what one read brings on top.
const answersMax = 4096

// goodbyeTime is how long a client that does not read may delay the end of its connection.
const goodbyeTime = 2 * time.Second

func (o *output) init(c *conn) {
	o.conn = c
	o.room.L = &o.mu
	o.closed = make(chan struct{})
	o.roomWait = store.RoomWaiter{Class: store.Publish, F: o.roomCame}
}

// answer queues a packet. It leaves in its turn, once lsn is on disk: the only way to acknowledge.
// The flush may have come, and have told the writer, before the packet was here: then nobody else wakes it.
func (o *output) answer(a answer) {
	o.mu.Lock()
	o.answers = queue(o.answers, &answerLists, a)
	if a.kind == mqttwire.TypeSuback {
		o.subscribing = false
	}
	if a.lsn <= o.conn.server.broker.Flushed() {
		o.wakeLocked()
	}
	o.mu.Unlock()
}

// answerOld is answer for one that rests on a batch whose flush this connection was not told of.
func (o *output) answerOld(a answer) {
	o.answer(a)
	if a.lsn > o.conn.server.broker.Flushed() && !o.conn.client.AwaitTail() {
		o.wake()
	}
}

// refuse queues CONNACK (nil: there is none to be had) and the end, in one step: nothing comes between.
func (o *output) refuse(connack []byte, e ending) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if connack != nil && !o.isEnded {
		o.answers = queue(o.answers, &answerLists, answer{kind: mqttwire.TypeConnack, raw: connack})
	}
	o.endLocked(e)
}

func (o *output) pong() {
	o.mu.Lock()
	o.pongs++
	o.wakeLocked()
	o.mu.Unlock()
}

// beginSubscribe holds retained messages back until the next SUBACK is queued.
func (o *output) beginSubscribe() {
	o.mu.Lock()
	o.subscribing = true
	o.mu.Unlock()
}

// pause holds the reader while too many answers wait, and tells whether it had to.
func (o *output) pause() (waited bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.answers.len()+o.pongs > answersMax && !o.isEnded {
		waited = true
		o.room.Wait()
	}
	if o.isEnded {
		return waited, errEnd
	}
	return waited, nil
}

// hold notes a change in the bytes of held publishes.
func (o *output) hold(bytes int) {
	o.mu.Lock()
	o.heldB += bytes
	if bytes < 0 {
		o.room.Broadcast()
	}
	o.mu.Unlock()
}

// holdsMore tells whether more than limit bytes of publishes are held.
func (o *output) holdsMore(limit int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.heldB > limit
}

// awaitHeld waits until no more than limit bytes of publishes are held, or the connection ends.
func (o *output) awaitHeld(limit int) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.heldB > limit && !o.isEnded {
		o.room.Wait()
	}
	if o.isEnded {
		return errEnd
	}
	return nil
}

// drainHeld waits for all held publishes at the end of the connection, but no longer than patience, and not
// when the connection is cut.
func (o *output) drainHeld(patience time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.heldB == 0 {
		return
	}
	late := false
	giveUp := time.AfterFunc(patience, func() {
		o.mu.Lock()
		late = true
		o.room.Broadcast()
		o.mu.Unlock()
	})
	defer giveUp.Stop()
	for o.heldB > 0 && !late && !o.isCut {
		o.room.Wait()
	}
}

// awaitRoom has the reader wait until the store has room for a control batch of size bytes, or the connection
// ends.
func (o *output) awaitRoom(size int) error {
	told := false
	o.conn.server.broker.NotifyRoom(&store.RoomWaiter{Class: store.Control, Size: size, F: func() {
		o.mu.Lock()
		told = true
		o.room.Broadcast()
		o.mu.Unlock()
	}})
	o.mu.Lock()
	defer o.mu.Unlock()
	for !told && !o.isEnded {
		o.room.Wait()
	}
	if o.isEnded {
		return errEnd
	}
	return nil
}

// roomCame: the store has room for what the writer could not put into it.
func (o *output) roomCame() {
	o.mu.Lock()
	o.roomAsked = false
	o.wakeLocked()
	o.mu.Unlock()
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
	o.endLocked(e)
	o.mu.Unlock()
}

func (o *output) endLocked(e ending) {
	if o.isEnded {
		return
	}
	o.decideLocked(e)
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
		o.decideLocked(ending{cause: "cut off"})
	}
	o.room.Broadcast()
	o.wakeLocked()
	o.mu.Unlock()
}

func (o *output) decideLocked(e ending) {
	o.isEnded, o.ending = true, e
	if o.decided != nil {
		close(o.decided)
	}
}

// untilEnd gives a channel that is closed when the connection is to end. It is made for who asks, which is once at most.
func (o *output) untilEnd() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.decided = make(chan struct{})
	if o.isEnded {
		close(o.decided)
	}
	return o.decided
}

// ended tells how the connection ends, false while it goes on.
func (o *output) ended() (ending, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.ending, o.isEnded
}

// finish returns when the writer has closed the connection. The ending is decided.
func (o *output) finish() { <-o.closed }
