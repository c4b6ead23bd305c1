package journal

import (
	"fmt"
	"log/slog"
	"time"

	"emanet/internal/disk"
)

const (
	segmentsMin     = 4 // one of them is the reserve
	segmentsMax     = 1 << 14
	segmentBytesMin = 4096
	segmentBytesMax = 1 << 30 // record lengths have 31 bits, and Open reads a segment at once
)

// Options of Open. The zero value of a field means its default.
type Options struct {
	FS           disk.FS          // default disk.OS()
	SegmentBytes int64            // size of a segment file, default 16 MiB, a multiple of 4096; fixed when the directory is created
	Segments     int              // number of segment files, default 16, at least 4; may change from start to start
	UnflushedMax int              // bytes appended and not flushed at which Publish gets ErrBusy, default half a segment
	Salvage      bool             // keep what is whole of a damaged journal instead of refusing to open it
	Logger       *slog.Logger     // default: discard
	Now          func() time.Time // stamps groups, default time.Now
	OnFail       func(error)      // called once, when a write or a flush has failed; must not block
}

func (o *Options) complete() error {
	if o.FS == nil {
		o.FS = disk.OS()
	}
	if o.SegmentBytes == 0 {
		o.SegmentBytes = 16 << 20
	}
	if o.Segments == 0 {
		o.Segments = 16
	}
	if o.UnflushedMax == 0 {
		o.UnflushedMax = int(o.SegmentBytes / 2)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.OnFail == nil {
		o.OnFail = func(error) {}
	}
	switch {
	case o.SegmentBytes < segmentBytesMin || o.SegmentBytes > segmentBytesMax || o.SegmentBytes%4096 != 0:
		return fmt.Errorf("journal segment size %d: not a multiple of 4096 from %d to %d", o.SegmentBytes, segmentBytesMin, segmentBytesMax)
	case o.Segments < segmentsMin || o.Segments > segmentsMax:
		return fmt.Errorf("journal with %d segments: from %d to %d are possible", o.Segments, segmentsMin, segmentsMax)
	case o.UnflushedMax < 0:
		return fmt.Errorf("journal with an unflushed cap of %d bytes: must be above 0", o.UnflushedMax)
	}
	return nil
}
