package mqttserver

import "hash/maphash"

// outboundAliases gives topic aliases to the topics that one client gets most often, as far as it allows
// ([MQTT-3.1.2-26], [MQTT-3.1.2-27]). The writer's own, made for the first message to a client that takes aliases.
//
// What is seen again gets an alias while there are some left. After that a topic must be clearly more frequent than one
// that has an alias, among a few that are looked at in turn: twice as often and a little more, so that topics of like
// frequency do not push each other out, which would cost bytes instead of saving them. Counts are halved from time to
// time, so that what was frequent once gives way. A message costs a lookup, and for a topic without an alias a hash and
// a look at four counters.
type outboundAliases struct {
	max   int
	given map[string]uint16
	slots []aliasSlot // of alias 1, 2, …
	last  uint16      // the alias used last: messages come in runs
	hand  int         // the slot that is looked at next when one is to be taken

	rivals []rival // topics without an alias: rivalWays to a bucket, by their hash
	toAge  int     // messages until counts are halved

	offered *rival // what offer has last returned a new alias for
}

type aliasSlot struct {
	topic string
	count uint32
}

// rival is a topic without an alias, known by a part of its hash alone: one taken for another gets an alias a little
// sooner than it should, which harms nobody.
type rival struct {
	print uint32
	count uint32
}

const (
	aliasTopicMin = 6       // an alias takes 3 bytes
	aliasTopicMax = 4 << 10 // what a connection remembers of long topics is bounded

	aliasSample   = 16 // slots looked at for one to be taken
	aliasLead     = 4  // see outboundAliases: twice as often, and so much more
	rivalWays     = 4
	rivalsPer     = 4       // for each alias
	rivalsMax     = 4 << 10 // of a connection
	aliasAge      = 64      // messages for each alias, after which counts are halved
	aliasAgeLeast = 1 << 10
)

var aliasSeed = maphash.MakeSeed()

func newOutboundAliases(most int) *outboundAliases {
	buckets := 1
	for buckets*rivalWays < min(rivalsPer*most, rivalsMax) {
		buckets *= 2
	}
	return &outboundAliases{
		max: most, given: make(map[string]uint16), rivals: make([]rival, buckets*rivalWays),
		toAge: max(aliasAge*most, aliasAgeLeast),
	}
}

// offer counts a message on topic and returns the alias to send it with, 0 for none. known: the client has it, and the
// topic is left out. If not, the topic is sent along, and keep called when it was.
func (a *outboundAliases) offer(topic string) (alias uint16, known bool) {
	if a.toAge--; a.toAge <= 0 {
		a.age()
	}
	if alias = a.last; alias == 0 || a.slots[alias-1].topic != topic {
		alias, known = a.given[topic]
	} else {
		known = true
	}
	if known {
		a.last = alias
		a.slots[alias-1].count++
		return alias, true
	}
	if len(topic) < aliasTopicMin || len(topic) > aliasTopicMax {
		return 0, false
	}
	r := a.sighted(topic)
	if r == nil || r.count < 2 {
		return 0, false
	}
	a.offered = r
	switch {
	case len(a.slots) < a.max:
		return uint16(len(a.slots) + 1), false
	case r.count%aliasLead != 0: // not to look for a weak slot with every message
		return 0, false
	}
	weak := a.weakest()
	if r.count < 2*a.slots[weak].count+aliasLead {
		return 0, false
	}
	return uint16(weak + 1), false
}

// keep notes that the client has got topic with this alias, which offer has returned last. Only now, for a packet that
// turns out larger than the client takes tells it nothing.
func (a *outboundAliases) keep(topic string, alias uint16) {
	count := a.offered.count
	a.offered.count = 0
	if int(alias) > len(a.slots) {
		a.slots = append(a.slots, aliasSlot{})
	} else {
		old := a.slots[alias-1]
		delete(a.given, old.topic)
		a.comeBack(old)
	}
	a.slots[alias-1] = aliasSlot{topic, count}
	a.given[topic] = alias
}

// weakest is the least used of the next few slots.
func (a *outboundAliases) weakest() int {
	weak := a.hand
	for range min(aliasSample, len(a.slots)) {
		if a.slots[a.hand].count < a.slots[weak].count {
			weak = a.hand
		}
		a.hand = (a.hand + 1) % len(a.slots)
	}
	return weak
}

func (a *outboundAliases) bucket(topic string) (of []rival, print uint32) {
	hash := maphash.String(aliasSeed, topic)
	at := int(hash) & (len(a.rivals) - 1) &^ (rivalWays - 1)
	return a.rivals[at : at+rivalWays], uint32(hash >> 32)
}

// sighted counts a topic that has no alias. A bucket that is full of others loses one count of its weakest, whose place
// is taken when it has no more: what comes once and never again leaves no trace. nil: topic found no place.
func (a *outboundAliases) sighted(topic string) *rival {
	of, print := a.bucket(topic)
	weak := 0
	for i := range of {
		if of[i].print == print && of[i].count > 0 {
			of[i].count++
			return &of[i]
		}
		if of[i].count < of[weak].count {
			weak = i
		}
	}
	if of[weak].count > 1 {
		of[weak].count--
		return nil
	}
	of[weak] = rival{print, 1}
	return &of[weak]
}

// comeBack makes a topic that has lost its alias a rival, if it is stronger than one of its bucket.
func (a *outboundAliases) comeBack(s aliasSlot) {
	of, print := a.bucket(s.topic)
	weak := 0
	for i := range of {
		if of[i].count < of[weak].count {
			weak = i
		}
	}
	if of[weak].count < s.count {
		of[weak] = rival{print, s.count}
	}
}

func (a *outboundAliases) age() {
	a.toAge = max(aliasAge*a.max, aliasAgeLeast)
	for i := range a.slots {
		a.slots[i].count /= 2
	}
	for i := range a.rivals {
		a.rivals[i].count /= 2
	}
}
