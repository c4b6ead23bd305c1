package local_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"emanet/internal/store/storetest"
)

// TestNothingAcknowledgedIsLostInPowerCutsAndKills is the promise itself: random lives that end in a power
// cut or a kill, at any operation of the disk, also while the start is under way and twice in a row. After
// each, the store has the state after a batch not older than the last flushed one.
func TestNothingAcknowledgedIsLostInPowerCutsAndKills(t *testing.T) {
	t.Parallel()
	seed := storetest.Seed(t)
	for round := range storetest.Rounds(200) {
		roundSeed := seed + uint64(round)
		opt := tiny()
		if roundSeed%4 == 0 {
			opt = small()
		}
		t.Run(fmt.Sprint("EMANET_SEED=", roundSeed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(roundSeed, 2))
			storetest.Model(t, func(tb testing.TB) *storetest.Subject {
				return newSimulated(tb, roundSeed, opt).subject(func() int { return 1 + rng.IntN(150) })
			}, storetest.Plan{Seed: roundSeed, Lives: 3, Batches: 150, Crash: true})
		})
	}
}

// TestPagesOfAFewEntriesHoldTheSameState presses what makes, merges, splits and compacts pages.
func TestPagesOfAFewEntriesHoldTheSameState(t *testing.T) {
	t.Parallel()
	seed := storetest.Seed(t)
	for round := range storetest.Rounds(20) {
		roundSeed := seed + uint64(round)
		t.Run(fmt.Sprint("EMANET_SEED=", roundSeed), func(t *testing.T) {
			storetest.Model(t, func(tb testing.TB) *storetest.Subject {
				return newSimulated(tb, roundSeed, tiny()).subject(nil)
			}, storetest.Plan{Seed: roundSeed, Lives: 4, Batches: 400})
		})
	}
}
