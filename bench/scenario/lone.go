package scenario

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"emanet/bench/load"
	"emanet/bench/peer"
)

var lone = Scenario{
	Name: "lone",
	About: "one publisher, QoS 1, one message at a time, one offline persistent subscriber; beside it, in turns, a bare " +
		"write of the same bytes into a preallocated file with fdatasync",
	Metrics: []Metric{
		{Name: "p50", Unit: "us", Less: true},
		{Name: "p99", Unit: "us", Less: true},
		{Name: "bare write + fdatasync p50", Unit: "us", Less: true},
		{Name: "bare write + fdatasync p99", Unit: "us", Less: true},
		{Name: "p50 / bare p50", Unit: "x", Bar: "<= 1.6", Less: true},
	},
	Rounds: 3,
	Run:    runLone,
}

const (
	loneWarmUp = 300
	loneTurns  = 10
	loneTurn   = 400
)

func runLone(b *peer.Broker, s Settings) (Figures, error) {
	if err := b.Target().Offline("offline", "lone/#"); err != nil {
		return nil, err
	}
	c, err := b.Target().Dial("publisher", true)
	if err != nil {
		return nil, err
	}
	publisher, err := load.NewLone(c, "lone/t", PayloadSize)
	if err != nil {
		return nil, err
	}
	defer publisher.Close()
	disk, err := newBareDisk(s.Dir, publisher.Size(), loneWarmUp+loneTurns*loneTurn)
	if err != nil {
		return nil, err
	}
	defer disk.close()
	if _, err := publisher.Run(loneWarmUp); err != nil {
		return nil, err
	}
	if _, err := disk.run(loneWarmUp); err != nil {
		return nil, err
	}
	var acks, writes []time.Duration
	for range loneTurns {
		some, err := publisher.Run(loneTurn)
		if err != nil {
			return nil, err
		}
		acks = append(acks, some...)
		if some, err = disk.run(loneTurn); err != nil {
			return nil, err
		}
		writes = append(writes, some...)
	}
	slices.Sort(acks)
	slices.Sort(writes)
	return Figures{
		"p50":                        percentile(acks, 50),
		"p99":                        percentile(acks, 99),
		"bare write + fdatasync p50": percentile(writes, 50),
		"bare write + fdatasync p99": percentile(writes, 99),
		"p50 / bare p50":             percentile(acks, 50) / percentile(writes, 50),
	}, nil
}

// bareDisk is the least that a flushed message can cost on this disk: a write into a file that does not grow.
type bareDisk struct {
	file *os.File
	buf  []byte
	at   int64
}

func newBareDisk(dir string, size, count int) (*bareDisk, error) {
	file, err := os.Create(filepath.Join(dir, "bare"))
	if err != nil {
		return nil, err
	}
	// Zeroes are written, not only reserved: else each flush would also turn an extent from reserved to written.
	if _, err := file.Write(make([]byte, size*count)); err != nil {
		return nil, err
	}
	if err := file.Sync(); err != nil {
		return nil, fmt.Errorf("preparing the bare file: %w", err)
	}
	return &bareDisk{file: file, buf: make([]byte, size)}, nil
}

func (d *bareDisk) run(count int) ([]time.Duration, error) {
	took := make([]time.Duration, 0, count)
	for i := range count {
		d.buf[0] = byte(i)
		began := time.Now()
		if _, err := d.file.WriteAt(d.buf, d.at); err != nil {
			return nil, err
		}
		if err := syscall.Fdatasync(int(d.file.Fd())); err != nil {
			return nil, fmt.Errorf("fdatasync: %w", err)
		}
		took = append(took, time.Since(began))
		d.at += int64(len(d.buf))
	}
	return took, nil
}

func (d *bareDisk) close() {
	d.file.Close()
	os.Remove(d.file.Name())
}
