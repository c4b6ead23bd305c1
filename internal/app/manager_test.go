package app

import (
	"testing"

	"emanet/internal/store"
)

type fakeFlusher struct {
	appended, flushed store.LSN
	err               error
}

func (f *fakeFlusher) Appended() store.LSN { return f.appended }
func (f *fakeFlusher) Flushed() store.LSN  { return f.flushed }
func (f *fakeFlusher) Err() error          { return f.err }

func TestTheWatchdogIsKeptQuietOnlyWhileTheStoreGetsOn(t *testing.T) {
	t.Parallel()
	var p pulse
	for i, step := range []struct {
		store fakeFlusher
		want  bool
	}{
		{fakeFlusher{appended: 5, flushed: 5}, true},  // idle
		{fakeFlusher{appended: 5, flushed: 5}, true},  // still
		{fakeFlusher{appended: 9, flushed: 5}, true},  // a flush is under way
		{fakeFlusher{appended: 20, flushed: 9}, true}, // and has come; the next is under way
		{fakeFlusher{appended: 30, flushed: 9}, false},
		{fakeFlusher{appended: 30, flushed: 9}, false},
		{fakeFlusher{appended: 30, flushed: 30}, true}, // the disk is back
		{fakeFlusher{appended: 31, flushed: 30}, true},
		{fakeFlusher{appended: 31, flushed: 31, err: errBroken}, false},
	} {
		if got := p.alive(&step.store); got != step.want {
			t.Errorf("step %d, %+v: alive is %v", i, step.store, got)
		}
	}
}
