package handshake

import (
	"errors"
	"testing"
)

func TestACircleIsFound(t *testing.T) {
	// 0 -> 1 -> 2, 0 -> 2; then the same with 2 -> 1.
	if at := circle([]int32{1, 2, 2}, []int{2, 3, 3}); at != -1 {
		t.Errorf("no circle, found one at %d", at)
	}
	if at := circle([]int32{1, 2, 2, 1}, []int{2, 3, 4}); at != 1 {
		t.Errorf("circle at %d, want 1", at)
	}
}

func TestAScenarioBeyondTheRepresentationIsRefused(t *testing.T) {
	for name, sc := range map[string]Scenario{
		"no message":            {Direct: true, Modulus: 1, Windows: []uint8{1}},
		"too many ids":          {Direct: true, QoS: []uint8{1}, Modulus: maxIDs + 1, Windows: []uint8{1}},
		"no window":             {Direct: true, QoS: []uint8{1}, Modulus: 1},
		"no publisher id":       {NoSubscriber: true, QoS: []uint8{1}, Modulus: 1},
		"resends may need more": {NoSubscriber: true, QoS: []uint8{1, 1}, Modulus: 1, PublisherIDs: 2, Crashes: 4},
	} {
		if _, err := Check(sc); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestTooManyStatesIsAnErrorNotAPass(t *testing.T) {
	sc := outWrap
	sc.MaxStates = 100
	if _, err := Check(sc); !errors.Is(err, ErrTooLarge) {
		t.Errorf("got %v, want %v", err, ErrTooLarge)
	}
}
