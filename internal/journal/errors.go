package journal

import (
	"errors"
	"fmt"
)

// What Begin answers: nothing was taken, the append lock is not held.
var (
	ErrFull     = errors.New("journal is full")
	ErrBusy     = errors.New("too many unflushed bytes")
	ErrTooLarge = errors.New("record is larger than a journal segment takes")
	ErrFailed   = errors.New("journal has failed")
	ErrClosed   = errors.New("journal is closed")
)

// What Open answers, beside *CorruptError.
var (
	ErrCorrupt     = errors.New("journal is damaged")
	ErrNewer       = errors.New("journal has a newer format")
	ErrSegmentSize = errors.New("journal has another segment size")
)

// ErrReleased: a reader asks for records that were released and may be overwritten.
var ErrReleased = errors.New("records are no longer in the journal")

// CorruptError names where a journal is damaged. It wraps ErrCorrupt.
type CorruptError struct {
	File   string
	Offset int64
	Reason string
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("%v: %s at offset %d: %s", ErrCorrupt, e.File, e.Offset, e.Reason)
}

func (e *CorruptError) Unwrap() error { return ErrCorrupt }

// Lost is a range of LSNs that salvage could not keep. It is an upper bound: starts
// leave gaps in the LSNs. The damaged segment was copied to Aside first, empty if it could not be.
type Lost struct {
	First, Last LSN
	File        string
	Offset      int64
	Aside       string
}
