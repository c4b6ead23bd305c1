package handshake

import "fmt"

type stepKind uint8

const (
	stepPublish stepKind = iota
	stepPublisherConnects
	stepPublisherReads
	stepBrokerReadsPublisher
	stepBrokerReadsStalePublisher
	stepSubscriberConnects
	stepSubscriberDetaches
	stepSubscriberReads
	stepBrokerReadsSubscriber
	stepBrokerReadsStaleSubscriber
	stepPump
	stepFlush
	stepExpire
	stepCrash
)

type step struct {
	kind  stepKind
	kept  uint8 // crash: pending batches that survive
	fault bool
}

func (m *model) initial() state {
	var s state
	if !m.Direct {
		s.pub.link = linkUp
	}
	return s
}

// successors yields every state one step away until yield returns false.
//
// Leaving a connection and coming back are one step: the broker may read on meanwhile, but so it may before the
// step, and what it sends then is lost in both cases.
func (m *model) successors(s *state, yield func(step, state) bool) {
	more := true
	try := func(st step, change func(*state) bool) {
		if !more {
			return
		}
		n := *s
		if !change(&n) {
			return
		}
		m.drain(&n)
		settleLinks(&n)
		more = yield(st, n)
	}
	if s.npend > 0 {
		try(step{kind: stepFlush}, func(n *state) bool { m.flush(n); return true })
	}
	if s.expiries < m.Expiries {
		try(step{kind: stepExpire, fault: true}, func(n *state) bool { n.expiries++; return m.expire(n) })
	}
	m.publisherSteps(s, try)
	if !m.NoSubscriber {
		m.subscriberSteps(s, try)
	}
	if s.crashes < m.Crashes {
		for k := uint8(0); k <= s.npend; k++ {
			try(step{kind: stepCrash, kept: k, fault: true}, func(n *state) bool { m.crash(n, k); return true })
		}
	}
}

// settleLinks: a dead connection with nothing left to read is no connection.
func settleLinks(s *state) {
	if s.pub.link == linkDead && s.pub.in.n == 0 {
		s.pub.link = linkDown
	}
	if s.sub.link == linkDead && s.sub.in.n == 0 {
		s.sub.link = linkDown
	}
}

func (m *model) publisherSteps(s *state, try func(step, func(*state) bool)) {
	try(step{kind: stepPublish}, m.publishNext)
	if m.Direct {
		return
	}
	if s.pub.out.n > 0 {
		try(step{kind: stepBrokerReadsPublisher}, func(n *state) bool {
			return m.receive(n, n.pub.out.pop(), &n.pub.answers)
		})
	}
	if s.pub.stale.n > 0 {
		try(step{kind: stepBrokerReadsStalePublisher}, func(n *state) bool {
			return m.receive(n, n.pub.stale.pop(), &fifo{})
		})
	}
	if s.pub.in.n > 0 {
		try(step{kind: stepPublisherReads}, m.publisherReads)
	}
	switch {
	case s.pub.link != linkUp:
		try(step{kind: stepPublisherConnects}, m.connectPublisher)
	case s.pubDrops < m.PublisherDrops:
		try(step{kind: stepPublisherConnects, fault: true}, func(n *state) bool {
			n.pubDrops++
			return m.connectPublisher(n)
		})
	}
}

func (m *model) subscriberSteps(s *state, try func(step, func(*state) bool)) {
	try(step{kind: stepPump}, m.pump)
	if s.sub.out.n > 0 {
		try(step{kind: stepBrokerReadsSubscriber}, func(n *state) bool {
			return m.settle(n, n.sub.out.pop(), &n.sub.answers)
		})
	}
	if s.sub.stale.n > 0 {
		try(step{kind: stepBrokerReadsStaleSubscriber}, func(n *state) bool {
			return m.settle(n, n.sub.stale.pop(), &fifo{})
		})
	}
	if s.sub.in.n > 0 {
		try(step{kind: stepSubscriberReads}, m.subscriberReads)
	}
	switch {
	case s.sub.link != linkUp:
		try(step{kind: stepSubscriberConnects}, m.attach)
	case s.subDrops < m.SubscriberDrops:
		try(step{kind: stepSubscriberConnects, fault: true}, func(n *state) bool {
			n.subDrops++
			return m.attach(n)
		})
		try(step{kind: stepSubscriberDetaches, fault: true}, func(n *state) bool {
			n.subDrops++
			return m.detach(n)
		})
	}
}

func (p packet) String() string {
	name := [...]string{"", "PUBLISH", "PUBACK", "PUBREC", "PUBREL", "PUBCOMP", "CONNACK"}[p.kind]
	switch p.kind {
	case pConnack:
		return name
	case pPublish:
	default:
		return fmt.Sprintf("%s id %d", name, p.id)
	}
	dup := 0
	if p.dup {
		dup = 1
	}
	return fmt.Sprintf("%s id %d of message %d DUP=%d", name, p.id, p.msg, dup)
}

func (o op) String() string {
	switch o.kind {
	case opPublish:
		text := fmt.Sprintf("Message and Entry of message %d", o.a)
		if o.b != 0 {
			text += fmt.Sprintf(" + Received id %d", o.b)
		}
		if o.c != 0 {
			text += fmt.Sprintf(" + Settle seq %d (dropped)", o.c-1)
		}
		return text
	case opReceived:
		return fmt.Sprintf("Received id %d", o.a)
	case opUnreceived:
		return fmt.Sprintf("Unreceived id %d", o.a)
	case opRelease:
		return fmt.Sprintf("Release seq %d", o.a)
	case opSettle:
		return fmt.Sprintf("Settle seq %d", o.a)
	case opExpire:
		return fmt.Sprintf("Settle seq %d (expired)", o.a)
	case opConnect:
		return "Session of the publisher"
	case opAttached:
		return fmt.Sprintf("Session attached, sent below %d, window %d", o.a, o.b)
	}
	return fmt.Sprintf("Session detached, sent below %d", o.a)
}

func (m *model) describe(from *state, st step, to *state) string {
	switch st.kind {
	case stepFlush:
		return "flush: " + from.pend[0].String()
	case stepExpire:
		return "expiry" + appended(from, to)
	case stepPublish:
		if m.Direct {
			return "append: " + to.pend[from.npend].String()
		}
		return "publisher sends " + to.pub.out.p[from.pub.out.n].String()
	case stepPublisherConnects:
		text := "publisher connects"
		if from.pub.link == linkUp {
			text = "publisher takes over its own connection"
		}
		for i := range to.pub.out.n {
			text += ", resends " + to.pub.out.p[i].String()
		}
		return text
	case stepPublisherReads:
		return "publisher reads " + from.pub.in.p[0].String()
	case stepBrokerReadsPublisher:
		return "broker reads " + from.pub.out.p[0].String() + appended(from, to)
	case stepBrokerReadsStalePublisher:
		return "broker reads from the old connection " + from.pub.stale.p[0].String() + appended(from, to)
	case stepSubscriberConnects:
		if from.sub.link == linkUp {
			return "subscriber takes over its own connection" + appended(from, to)
		}
		return "subscriber connects" + appended(from, to)
	case stepSubscriberDetaches:
		return "subscriber's connection ends" + appended(from, to)
	case stepSubscriberReads:
		return "subscriber reads " + from.sub.in.p[0].String()
	case stepBrokerReadsSubscriber:
		return "broker reads " + from.sub.out.p[0].String() + appended(from, to)
	case stepBrokerReadsStaleSubscriber:
		return "broker reads from the old connection " + from.sub.stale.p[0].String() + appended(from, to)
	case stepPump:
		return "broker sends " + to.sub.in.p[from.sub.in.n].String()
	}
	text := "CRASH and start"
	if st.kept > 0 {
		text += fmt.Sprintf(", %d unflushed batches survive", st.kept)
	}
	if lost := from.npend - st.kept; lost > 0 {
		text += ", lost:"
		for i := st.kept; i < from.npend; i++ {
			text += " [" + from.pend[i].String() + "]"
		}
	}
	return text
}

func appended(from, to *state) string {
	text := ""
	for i := from.npend; i < to.npend; i++ {
		text += ", appends [" + to.pend[i].String() + "]"
	}
	return text
}
