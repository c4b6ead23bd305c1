// Package handshake is an explicit-state model of the MQTT QoS 1 and 2 handshakes of docs/adr/0002, in both directions.
// It has no sockets and shares no code with the broker: it is the table, made executable.
//
// A publisher with a session store of its own, the broker with memory and disk kept apart, and a subscriber that
// dedupes QoS 2 by packet id alone are stepped in every order. Between any two steps the broker may crash, which takes
// its memory back to the flushed prefix of its journal or to any longer prefix, and either client may come back over a
// new connection, losing what was in the air. [Check] visits every state within the bounds of a [Scenario], breadth
// first, and returns the shortest path to a broken promise if there is one.
//
// [Rule] names each rule of the table. A scenario may break one; the tests show that the checker then objects.
package handshake

import "strings"

// Bounds of the representation. A scenario chooses smaller ones.
const (
	maxMessages = 5
	maxSeqs     = 8 // a QoS 1 resend takes a seq of its own
	maxPending  = 4 // batches appended and not flushed; append waits beyond, as the cap on unflushed bytes makes it
	maxWire     = 5 // packets under way in one direction
	maxIDs      = 4 // packet ids are 1..maxIDs at most
)

// Scenario bounds one exploration. The zero value of a field means none of it, except where said.
type Scenario struct {
	Name string
	// QoS of each message, in publish order; 1 or 2.
	QoS []uint8
	// Direct: messages are appended by somebody outside the model, who does not resend after a crash. A message counts
	// as acknowledged when it is on disk. Without it a modelled publisher sends them.
	Direct bool
	// NoSubscriber: the session stays away, its mailbox is what is examined.
	NoSubscriber bool
	// PublisherIDs is how many packet ids, and so how many open messages, the publisher has.
	PublisherIDs uint8
	// PublisherRecorded: CONNECT of the publisher writes a Session record, and its CONNACK waits for it.
	PublisherRecorded bool
	// SubscriberRepeats: on CONNECT the subscriber sends PUBREC again for all packet ids it holds, as some do.
	SubscriberRepeats bool
	// Modulus stands for 65,535: outgoing id = seq mod Modulus + 1.
	Modulus uint8
	// Windows of the subscriber's connections, used in rotation.
	Windows []uint8
	// Bound on queued entries, drop-oldest; 0: none.
	Bound uint8
	// Crashes of the broker, and connections lost or taken over by each client, at most.
	Crashes, PublisherDrops, SubscriberDrops uint8
	// Expiries of queued entries, at most.
	Expiries uint8
	// Broken holds the rules this run breaks; 0 for the table as it stands.
	Broken Rule
	// Lenient: the DUP flag is not judged, and a PUBCOMP for a message in flight is ignored.
	Lenient bool
	// MaxStates stops the run with an error; 0: 20 million.
	MaxStates int
}

// Rule names a rule of the state table that a scenario can break. Rules combine as bits.
type Rule uint32

// The rules, each named by what the broker does wrong when it is broken.
const (
	// We receive.
	PubackBeforeFlush        Rule = 1 << iota // PUBACK does not wait for its batch
	PubrecBeforeFlush                         // PUBREC does not wait for its batch
	DuplicateBeforeOriginal                   // PUBREC of a resend does not wait for the original's LSN
	ReceivedAfterMessage                      // the packet id is written in a batch of its own, behind the message
	ReceivedBeforeMessage                     // the packet id is written in a batch of its own, ahead of the message
	PubcompBeforeFlush                        // PUBCOMP does not wait for Unreceived
	PubcompAgainBeforeFlush                   // PUBCOMP for an id already released in memory does not wait for that release
	AnswersOvertake                           // an answer that has nothing to wait for overtakes one that waits
	StalePublisherConnection                  // packets of a connection that was taken over are still obeyed
	// We send.
	DeliverBeforeFlush        // an entry is sent before it is on disk
	PubrelBeforeFlush         // PUBREL does not wait for Release
	PubrelOnResumeBeforeFlush // PUBREL sent on a resume does not wait for a Release that is visible only
	IDFreeBeforeFlush         // the packet id is free when the settlement is visible
	IDNotAwaited              // the packet id is not waited for at all
	IDAwaitsHigher            // a higher seq that counts as sent holds the packet id, too
	CreditFreeBeforeFlush     // the credit is free when the settlement is visible
	GoneNotAwaited            // a send passes over an entry dropped or expired before that is on disk
	WindowDropped             // the bound drops entries within the window of a connection that were not sent yet
	InFlightDropped           // the bound drops the oldest entry, in flight or not
	RecoveredDropped          // after a crash what would carry DUP=1 may be dropped until it is sent again
	EarlyPubrecAnswered       // PUBREL for a PUBREC that came before its PUBLISH was resent on this connection
	PubrecAgainAnswered       // a second PUBREL for a PUBREC that comes again on one connection
	StaleSubscriberConnection // packets of a connection that was taken over are still obeyed
	NextSeqLost               // a mailbox with no unsettled entry begins at seq 0 after a crash
	// DUP.
	DupForgotten        // nothing counts as sent after a crash
	AttachedIgnored     // after a crash only the recorded highest seq counts, also when attached
	SendBeforeAttached  // PUBLISH goes out before the attached record is on disk
	AttachedWithoutHigh // the attached record does not carry the highest seq sent
	DetachNotRecorded   // the end of a connection is not recorded
	StartWithoutDetach  // the start does not record sessions as detached
)

var ruleNames = [...]string{
	"PubackBeforeFlush", "PubrecBeforeFlush", "DuplicateBeforeOriginal", "ReceivedAfterMessage",
	"ReceivedBeforeMessage", "PubcompBeforeFlush", "PubcompAgainBeforeFlush", "AnswersOvertake",
	"StalePublisherConnection", "DeliverBeforeFlush", "PubrelBeforeFlush", "PubrelOnResumeBeforeFlush",
	"IDFreeBeforeFlush", "IDNotAwaited", "IDAwaitsHigher", "CreditFreeBeforeFlush", "GoneNotAwaited", "WindowDropped", "InFlightDropped",
	"RecoveredDropped", "EarlyPubrecAnswered", "PubrecAgainAnswered", "StaleSubscriberConnection", "NextSeqLost", "DupForgotten", "AttachedIgnored",
	"SendBeforeAttached", "AttachedWithoutHigh", "DetachNotRecorded", "StartWithoutDetach",
}

func (r Rule) String() string {
	var names []string
	for i, name := range ruleNames {
		if r&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, "+")
}

// Rules lists every rule that can be broken.
func Rules() []Rule {
	var all []Rule
	for i := range ruleNames {
		all = append(all, 1<<i)
	}
	return all
}
