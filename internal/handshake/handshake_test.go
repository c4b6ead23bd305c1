package handshake

import (
	"os"
	"testing"
	"time"
)

// "in" scenarios look at the mailbox, "out" ones append messages directly, the others go from end to end.
var (
	inOneID = Scenario{Name: "in: QoS 2, one id used again and again", NoSubscriber: true, QoS: []uint8{2, 2, 2},
		PublisherIDs: 1, Modulus: 3, Crashes: 2, PublisherDrops: 2}
	inTwoIDs = Scenario{Name: "in: QoS 1 and 2, two ids", NoSubscriber: true, QoS: []uint8{1, 2, 2, 1},
		PublisherIDs: 2, Modulus: 3, Crashes: 1, PublisherDrops: 1}
	outWrap = Scenario{Name: "out: QoS 2, ids wrap at 2", Direct: true, QoS: []uint8{2, 2, 2, 2}, Modulus: 2,
		Windows: []uint8{2}, Crashes: 1, SubscriberDrops: 1}
	outUneven = Scenario{Name: "out: QoS 1 settles ahead of QoS 2, ids wrap at 2", Direct: true,
		QoS: []uint8{2, 1, 2, 1}, Modulus: 2, Windows: []uint8{2}, Crashes: 1, SubscriberDrops: 1}
	outQoS1 = Scenario{Name: "out: QoS 1, one id", Direct: true, QoS: []uint8{1, 1, 1}, Modulus: 1,
		Windows: []uint8{1}, Crashes: 1, SubscriberDrops: 2}
	outMixed = Scenario{Name: "out: QoS 1 and 2, ids wrap at 3", Direct: true, QoS: []uint8{1, 2, 2, 1}, Modulus: 3,
		Windows: []uint8{2}, Crashes: 1, SubscriberDrops: 1}
	outWindows = Scenario{Name: "out: window 2, then 1", Direct: true, QoS: []uint8{2, 2, 2}, Modulus: 3,
		Windows: []uint8{2, 1}, Crashes: 1, SubscriberDrops: 2}
	outBound1 = Scenario{Name: "out: bound 1", Direct: true, QoS: []uint8{2, 2, 2, 2}, Modulus: 2,
		Windows: []uint8{1}, Bound: 1, Crashes: 1, SubscriberDrops: 1}
	outBound2 = Scenario{Name: "out: bound 2", Direct: true, QoS: []uint8{2, 1, 2, 2}, Modulus: 3,
		Windows: []uint8{1, 2}, Bound: 2, Crashes: 1, SubscriberDrops: 1}
	outExpiry = Scenario{Name: "out: expiry", Direct: true, QoS: []uint8{2, 1, 2}, Modulus: 2,
		Windows: []uint8{1, 2}, Expiries: 2, Crashes: 1, SubscriberDrops: 1}
	outRepeats = Scenario{Name: "out: PUBREC repeated on CONNECT", Direct: true, QoS: []uint8{2, 1, 2}, Modulus: 2,
		Windows: []uint8{2}, SubscriberRepeats: true, Crashes: 1, SubscriberDrops: 1}
	outCrashes = Scenario{Name: "out: crash during recovery", Direct: true, QoS: []uint8{2, 2, 2}, Modulus: 2,
		Windows: []uint8{2}, Crashes: 2, SubscriberDrops: 1}
	endToEnd = Scenario{Name: "end to end: QoS 2", QoS: []uint8{2, 2}, PublisherIDs: 1, Modulus: 1,
		Windows: []uint8{1}, Crashes: 1, PublisherDrops: 1, SubscriberDrops: 1}
	endToEndMixed = Scenario{Name: "end to end: QoS 2 and 1", QoS: []uint8{2, 1}, PublisherIDs: 2, Modulus: 2,
		Windows: []uint8{2}, Crashes: 1, PublisherDrops: 1, SubscriberDrops: 1}
)

var scenarios = []Scenario{
	inOneID, inTwoIDs, outWrap, outUneven, outQoS1, outMixed, outWindows, outBound1, outBound2, outExpiry, outRepeats, outCrashes, endToEnd, endToEndMixed,
}

// deeper allows one more crash and one more lost connection; such scenarios run when EMANET_SOAK is set.
func deeper(sc Scenario) Scenario {
	sc.Name += ", deeper"
	sc.Crashes++
	if sc.NoSubscriber {
		sc.PublisherDrops++
	} else {
		sc.SubscriberDrops++
	}
	return sc
}

func TestTheTableKeepsEveryPromise(t *testing.T) {
	all := scenarios
	if os.Getenv("EMANET_SOAK") != "" {
		for _, sc := range scenarios {
			if sc.Name == inTwoIDs.Name {
				sc.QoS = []uint8{2, 2, 2, 1} // each QoS 1 resend takes a seq, and seqs are bounded
			}
			all = append(all, deeper(sc))
		}
	}
	for _, sc := range all {
		t.Run(sc.Name, func(t *testing.T) { explore(t, sc) })
	}
}

func explore(t *testing.T, sc Scenario) Result {
	t.Helper()
	begin := time.Now()
	r, err := Check(sc)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d states, %d steps, depth %d, %d final, %v", r.States, r.Steps, r.Depth, r.Final,
		time.Since(begin).Round(time.Millisecond))
	if r.Counterexample != nil {
		t.Fatalf("counterexample:\n%v", r.Counterexample)
	}
	return r
}
