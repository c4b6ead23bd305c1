package local

import (
	"log/slog"
	"time"

	"emanet/internal/disk"
	"emanet/internal/journal"
)

// Options of Open. The zero value of a field means its default.
type Options struct {
	FS      disk.FS         // default disk.OS()
	VFS     string          // name of the SQLite VFS that stands on FS, default the operating system's
	Journal journal.Options // FS, Logger, Now and OnFail are filled in
	Logger  *slog.Logger    // default: discard
	Now     func() time.Time

	// FoldEvery is how old a record gets before it is folded, default 1 s.
	FoldEvery time.Duration
	// FoldBytes of unfolded journal fold earlier; it also bounds a transaction. Default a 32nd of the journal.
	FoldBytes int
	// WALBytes is the room that broker.db-wal has from the start, so that settlements fold on a full disk, and
	// BallastBytes that of the file given up when space runs out, no smaller. Default an 8th of the journal.
	WALBytes, BallastBytes int64
	// WALMax is from when on folding waits for whoever holds up the checkpoint. Default 8 times WALBytes.
	WALMax int64
	// Readers is how many ReadEntries may run at once, default 3.
	Readers int

	geometry geometry
}

func (o *Options) complete() {
	if o.FS == nil {
		o.FS = disk.OS()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.FoldEvery == 0 {
		o.FoldEvery = time.Second
	}
	if o.Journal.SegmentBytes == 0 {
		o.Journal.SegmentBytes = 16 << 20
	}
	if o.Journal.Segments == 0 {
		o.Journal.Segments = 16
	}
	total := o.Journal.SegmentBytes * int64(o.Journal.Segments)
	if o.FoldBytes == 0 {
		o.FoldBytes = int(min(max(total/32, 64<<10), 1<<30)) // an int has 32 bits on a small machine
	}
	if o.WALBytes == 0 {
		o.WALBytes = max(total/8, 1<<20)
	}
	// Given up, the ballast must take what is in the WAL and makes broker.db grow.
	o.BallastBytes = max(o.BallastBytes, o.WALBytes)
	if o.WALMax == 0 {
		o.WALMax = 8 * o.WALBytes
	}
	if o.geometry == (geometry{}) {
		o.geometry = defaultGeometry()
	}
	if o.Readers == 0 {
		o.Readers = 3
	}
}
