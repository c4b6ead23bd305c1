package handshake

// state is one node of the graph. It holds bytes and bools only, without padding or pointers, so that it is its own
// canonical form and a map key. Unused slots are zero.
type state struct {
	disk  durable
	pend  [maxPending]op // appended and visible, not flushed
	npend uint8

	pub publisher
	sub subscriber

	// cursor: seqs below were put on this connection. high: seqs below were put on some connection, as the broker's
	// memory has it. Both are exclusive bounds.
	cursor, high, window uint8

	// What an outside observer knows; the broker never reads it.
	acked     uint8 // by message: the publisher was told
	everSent  uint8 // by seq: a PUBLISH was put on some connection
	maybeSent uint8 // by seq: unsettled within the window when the session was attached at a crash
	crashes   uint8 // faults used up
	pubDrops  uint8
	subDrops  uint8
	expiries  uint8
	connects  uint8 // of the subscriber, modulo the number of windows
	bad       verdict
}

type link uint8

const (
	linkDown link = iota
	linkUp
	linkDead // the broker's end is gone, the client still reads what had arrived
)

type publisher struct {
	link    link
	out, in wire // to the broker, from the broker
	stale   wire // left over from a connection that was taken over; only if that rule is broken
	answers fifo
	message [maxMessages]struct{ phase, id uint8 }
}

// Phases of a message in the publisher's own session store.
const (
	unsent uint8 = iota
	published
	releasing
	done
)

type subscriber struct {
	link      link
	out, in   wire // to the broker, from the broker
	stale     wire
	answers   fifo
	held      [maxIDs + 1]uint8 // QoS 2 packet id -> message+1
	delivered uint8             // by message
}

type packetKind uint8

const (
	_ packetKind = iota
	pPublish
	pPuback
	pPubrec
	pPubrel
	pPubcomp
	pConnack
)

type packet struct {
	kind packetKind
	id   uint8
	msg  uint8 // PUBLISH only
	dup  bool
}

// wire is one direction of a connection: packets arrive in order or not at all.
type wire struct {
	n uint8
	p [maxWire]packet
}

func (w *wire) full() bool { return w.n == maxWire }

func (w *wire) push(p packet) {
	w.p[w.n] = p
	w.n++
}

func (w *wire) pop() packet {
	p := w.p[0]
	copy(w.p[:], w.p[1:])
	w.n--
	w.p[maxWire-1] = packet{}
	return p
}

// answer waits until as many further batches as wait says are on disk.
type answer struct {
	wait uint8
	p    packet
}

type fifo struct {
	n uint8
	a [maxWire]answer
}

func (f *fifo) full() bool { return f.n == maxWire }

func (f *fifo) push(wait uint8, p packet) {
	f.a[f.n] = answer{wait, p}
	f.n++
}

func (f *fifo) remove(i uint8) {
	copy(f.a[i:], f.a[i+1:])
	f.n--
	f.a[maxWire-1] = answer{}
}

func (f *fifo) flushed() {
	for i := range f.n {
		if f.a[i].wait > 0 {
			f.a[i].wait--
		}
	}
}

// durable is what the journal says: on disk, or, with the pending batches applied, in memory.
type durable struct {
	entry    [maxSeqs]entry
	next     uint8
	received uint8 // by packet id
	attached bool
	high     uint8
	window   uint8
	// wasAttached is the truth about the session at this point of the journal, whatever the records say.
	wasAttached bool
}

type entry struct {
	msg   uint8 // message+1; 0: no such entry
	state entryState
}

type entryState uint8

const (
	waiting entryState = iota // queued or in flight: the difference is not written
	released
	settled
	dropped
)

func (e entry) unsettled() bool { return e.msg != 0 && e.state < settled }

type opKind uint8

const (
	_ opKind = iota
	opPublish
	opReceived
	opUnreceived
	opRelease
	opSettle
	opExpire
	opAttached
	opDetached
	opConnect // Session record of the publisher
)

// op is one batch. opPublish: a message, its packet id to record or 0, seq+1 of the entry the bound drops or 0.
type op struct {
	kind    opKind
	a, b, c uint8
}

func (d *durable) apply(o op, broken Rule) {
	switch o.kind {
	case opPublish:
		d.entry[d.next] = entry{msg: o.a + 1}
		d.next++
		if o.b != 0 {
			d.received |= 1 << o.b
		}
		if o.c != 0 {
			d.entry[o.c-1].state = dropped
		}
	case opReceived:
		d.received |= 1 << o.a
	case opUnreceived:
		d.received &^= 1 << o.a
	case opRelease:
		d.entry[o.a].state = released
	case opSettle:
		d.entry[o.a].state = settled
	case opExpire:
		d.entry[o.a].state = dropped
	case opAttached:
		d.attached, d.high, d.window = true, o.a, o.b
		if broken&AttachedWithoutHigh != 0 {
			d.high = 0
		}
		d.wasAttached = true
	case opDetached:
		if o.b == 0 { // a broken rule may leave the record out; the truth is noted all the same
			d.attached, d.high = false, o.a
		}
		d.wasAttached = false
	}
}

// memory is the state in journal order: the disk with all that is visible and not flushed.
func (m *model) memory(s *state) durable {
	d := s.disk
	for i := range s.npend {
		d.apply(s.pend[i], m.Broken)
	}
	return d
}

// lsnOf is how many batches must still be flushed until the last pending batch that matches is on disk.
func (s *state) lsnOf(match func(op) bool) uint8 {
	for i := s.npend; i > 0; i-- {
		if match(s.pend[i-1]) {
			return i
		}
	}
	return 0
}

func (s *state) append(o op) (lsn uint8) {
	s.pend[s.npend] = o
	s.npend++
	return s.npend
}

// verdict names the broken promise; fine is none.
type verdict uint8

const (
	fine verdict = iota
	badTwice
	badRoutedTwice
	badIDReused
	badOrder
	badAckOrder
	badDupMissing
	badDupWrong
	badProtocol
	badStuck
	badLost
	badLeft
	badCycle
)

var verdictText = map[verdict]string{
	badTwice:       "a QoS 2 message is delivered twice",
	badRoutedTwice: "a QoS 2 message is routed twice",
	badIDReused:    "a packet id reaches the subscriber for a second message while it still holds the first: the second is swallowed",
	badOrder:       "a message is delivered for the first time after a later one",
	badAckOrder:    "a PUBACK or PUBREC overtakes an earlier one",
	badDupMissing:  "a message surely sent before is resent with DUP=0",
	badDupWrong:    "a message never sent, of a session detached at the crash, carries DUP=1",
	badProtocol:    "PUBCOMP for a message whose PUBREC the broker does not know",
	badStuck:       "no step is left and the publisher is not done",
	badLost:        "no step is left and an acknowledged message was neither delivered nor dropped by the bound",
	badLeft:        "no step is left and a packet id or an entry is still held",
	badCycle:       "steps without faults go round in a circle",
}

func (v verdict) String() string { return verdictText[v] }
