package handshake

import "testing"

// broken says which scenario shows what each rule is there for.
var broken = []struct {
	rule     Rule
	scenario Scenario
	promise  verdict
}{
	{PubackBeforeFlush, inTwoIDs, badLost},
	{PubrecBeforeFlush, inOneID, badLost},
	{DuplicateBeforeOriginal, inOneID, badLost},
	{ReceivedAfterMessage, inOneID, badRoutedTwice},
	{ReceivedBeforeMessage, inOneID, badLost},
	{PubcompBeforeFlush, inOneID, badLost},
	{PubcompAgainBeforeFlush, inOneID, badLost},
	{AnswersOvertake, inTwoIDs, badAckOrder},
	{StalePublisherConnection, inOneID, badRoutedTwice},
	{DeliverBeforeFlush, lenient(outBound1), badIDReused},
	{PubrelBeforeFlush, outWrap, badTwice},
	{IDFreeBeforeFlush, outUneven, badTwice},
	{IDNotAwaited, outUneven, badTwice},
	{IDAwaitsHigher, outExpiry, badLost},
	{CreditFreeBeforeFlush, outMixed, badDupMissing},
	{GoneNotAwaited, outExpiry, badDupMissing},
	{GoneNotAwaited, lenient(outExpiry), badOrder},
	{InFlightDropped, outBound1, badIDReused},
	{RecoveredDropped, outBound1, badIDReused},
	{EarlyPubrecAnswered, lenient(outRepeats), badTwice},
	{PubrecAgainAnswered, outRepeats, badProtocol},
	{StaleSubscriberConnection, outQoS1, badLost},
	{NextSeqLost, outWrap, badDupWrong},
	{DupForgotten, outMixed, badDupMissing},
	{AttachedIgnored, outMixed, badDupMissing},
	{SendBeforeAttached, outMixed, badDupMissing},
	{AttachedWithoutHigh, outWindows, badDupMissing},
	{DetachNotRecorded, outMixed, badDupWrong},
	{StartWithoutDetach, outCrashes, badDupWrong},
}

func lenient(sc Scenario) Scenario {
	sc.Lenient = true
	return sc
}

func TestABrokenRuleBreaksAPromise(t *testing.T) {
	seen := PubrelOnResumeBeforeFlush | WindowDropped // have tests of their own
	for _, b := range broken {
		seen |= b.rule
		t.Run(b.rule.String(), func(t *testing.T) {
			sc := b.scenario
			sc.Broken = b.rule
			r, err := Check(sc)
			if err != nil {
				t.Fatal(err)
			}
			if r.Counterexample == nil {
				t.Fatalf("%q, %d states: the rule is broken and no promise is", sc.Name, r.States)
			}
			if r.Counterexample.Promise != b.promise.String() {
				t.Errorf("broke the promise %q, want %q", r.Counterexample.Promise, b.promise)
			}
			t.Logf("%q, %d states:\n%v", sc.Name, r.States, r.Counterexample)
		})
	}
	for _, r := range Rules() {
		if seen&r == 0 {
			t.Errorf("%v: no scenario breaks it", r)
		}
	}
}

// CONNACK waits for the attached record, which stands in the journal behind all that was visible when the client came
// back; so on a resume nothing can rest on an unflushed Release. The rule counts only where CONNACK does not wait.
func TestTheAttachedRecordCoversPubrelOnResume(t *testing.T) {
	eitherHolds(t, lenient(outWrap), PubrelOnResumeBeforeFlush, SendBeforeAttached, badTwice)
}

// The same for the publisher: behind a CONNACK that waits for a record written at every CONNECT, no answer to a resend
// can rest on anything unflushed. Without that record inOneID above shows both rules to be needed.
func TestARecordAtEveryConnectCoversAnswersToResends(t *testing.T) {
	for _, sc := range []Scenario{inOneID, inTwoIDs} {
		sc.PublisherRecorded = true
		explore(t, sc)
		sc.Broken = DuplicateBeforeOriginal | PubcompAgainBeforeFlush
		explore(t, sc)
	}
}

// A drop behind the window is on disk before the window reaches it, because what frees the credit stands behind it in
// the journal. So sparing the window and waiting for a drop each do. Sparing it also keeps a flood of drops from
// starving the consumer, which the model does not show: its floods end. Expiry cannot spare anything and has to wait.
func TestSparingTheWindowCoversWaitingForADrop(t *testing.T) {
	eitherHolds(t, outBound2, WindowDropped, GoneNotAwaited, badDupMissing)
}

func eitherHolds(t *testing.T, sc Scenario, a, b Rule, both verdict) {
	t.Helper()
	for _, rule := range []Rule{a, b} {
		sc.Broken = rule
		explore(t, sc)
	}
	sc.Broken = a | b
	r, err := Check(sc)
	if err != nil {
		t.Fatal(err)
	}
	if r.Counterexample == nil || r.Counterexample.Promise != both.String() {
		t.Fatalf("%v broken, got %v", sc.Broken, r.Counterexample)
	}
	t.Logf("%v, %d states:\n%v", sc.Broken, r.States, r.Counterexample)
}
