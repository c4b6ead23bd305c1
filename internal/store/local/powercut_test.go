package local_test

import (
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
		rng := rand.New(rand.NewPCG(roundSeed, 2))
		storetest.Model(t, func(tb testing.TB) *storetest.Subject {
			return newSimulated(tb, roundSeed).subject(func() int { return 1 + rng.IntN(150) })
		}, storetest.Plan{Seed: roundSeed, Lives: 3, Batches: 60, Crash: true})
	}
}
