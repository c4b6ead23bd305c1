// Package storetest is what every engine behind the store contract must pass: one exercise for each
// capability, and a model that runs random operations beside a trivial in-memory store, opens again at
// random and compares.
package storetest

import (
	"testing"

	"emanet/internal/store"
)

// Subject is one data directory under test, empty in the beginning.
type Subject struct {
	// Open opens what is there, before Load. It fails the test on an error.
	Open func(tb testing.TB) store.Store
	// Check has the engine verify its own files. Nobody has them open.
	Check func(tb testing.TB)
	// Kill ends the open store as kill -9 does, Cut as a power cut does: what was not flushed may be gone,
	// or not. Nil when the subject cannot simulate it.
	Kill, Cut func(tb testing.TB)
	// CutSoon lets the power end within some operation on the disk that is about to come; Cut follows. May be nil.
	CutSoon func()
}

// Factory makes a new subject; it cleans up with tb.
type Factory func(tb testing.TB) *Subject

// Run passes the whole suite over an engine.
func Run(t *testing.T, f Factory) {
	for _, e := range []struct {
		name string
		f    func(*testing.T, *Subject)
	}{
		{"a batch comes back whole after it was flushed", exerciseBatch},
		{"an aborted or empty batch leaves no trace", exerciseAbort},
		{"LSNs rise and are not used again after a start", exerciseLSN},
		{"a waiter is told once its group is flushed", exerciseNotify},
		{"records keep their newest value", exerciseRecords},
		{"a prefix deletes the records before it and not those after", exerciseDeletePrefix},
		{"a topic has its newest retained message", exerciseRetained},
		{"received packet ids are remembered until they are released", exerciseReceived},
		{"entries come back in order with all their fields", exerciseEntries},
		{"a mailbox that was emptied goes on with its seq", exerciseNextSeq},
		{"settled entries stay away, folded or not", exerciseSettle},
		{"a released entry keeps its place without its body", exerciseRelease},
		{"deliveries are remembered", exerciseDeliveries},
		{"a moved entry is in the other mailbox only", exerciseMove},
		{"a body lives as long as one of its entries", exerciseFanOut},
		{"a deleted mailbox is gone and its id is not given again", exerciseMailboxDelete},
		{"a large purge takes effect at once and survives a start", exercisePurge},
		{"entries are read by page, from anywhere to anywhere", exerciseReadEntries},
		{"a read ends after the entry that comes to its bytes", exerciseReadBytes},
		{"reading while folding sees whole states", exerciseReadWhileFolding},
		{"what is folded can be read", exerciseOnFold},
		{"a record of the largest size passes and a larger one is refused", exerciseTooLarge},
		{"a full store refuses publishes, drains, and takes them again", exerciseFull},
		{"nothing works after Close but closing again", exerciseClosed},
	} {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			e.f(t, f(t))
		})
	}
	t.Run("random operations leave the state of the model", func(t *testing.T) {
		t.Parallel()
		Model(t, f, Plan{Seed: Seed(t), Lives: 6, Batches: 150})
	})
}
