package local

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/ncruces/go-sqlite3"

	"emanet/internal/disk"
)

// walRoom is an error while the WAL is at its cap, because somebody's snapshot keeps it from starting over.
func (d *database) walRoom() error {
	if d.walBytes < d.opt.WALMax {
		return nil
	}
	if err := d.checkpoint(); err != nil || d.walBytes < d.opt.WALMax {
		return err
	}
	return fmt.Errorf("broker.db-wal has reached its cap of %d bytes: another process keeps a transaction on broker.db open", d.opt.WALMax)
}

// checkpoint brings the WAL into broker.db and flushes it. When the WAL has outgrown its room it waits for
// readers, so that the next transaction starts at its beginning. A reader that holds it up is no error.
func (d *database) checkpoint() error {
	mode := sqlite3.CHECKPOINT_PASSIVE
	if d.walBytes > d.opt.WALBytes {
		mode = sqlite3.CHECKPOINT_RESTART
	}
	inLog, done, err := d.conn.WALCheckpoint("main", mode)
	if errors.Is(err, sqlite3.BUSY) {
		return nil
	}
	if err != nil {
		return err
	}
	if inLog == done {
		d.checkpointed = true
		d.walBytes = 0
	}
	return nil
}

// vacuumStep is how many pages are given back in one transaction.
const vacuumStep = 512

// freeMin pages are kept free in any case; above, up to a quarter of the file.
const freeMin = 256

// shrink gives back free pages for about as long as it is allowed to. more: there are others.
func (d *database) shrink(limit time.Duration) (more bool, err error) {
	for start := time.Now(); ; {
		free, err := number(d.freePages)
		if err != nil {
			return false, err
		}
		all, err := number(d.allPages)
		if err != nil {
			return false, err
		}
		if free <= max(freeMin, all/4) {
			return false, nil
		}
		if time.Since(start) > limit {
			return true, d.checkpoint()
		}
		if err := d.conn.Exec(fmt.Sprintf(`PRAGMA incremental_vacuum(%d)`, min(vacuumStep, free-freeMin/2))); err != nil {
			return false, fmt.Errorf("incremental vacuum: %w", err)
		}
		if d.walBytes > d.opt.WALBytes/2 {
			if err := d.checkpoint(); err != nil {
				return false, err
			}
		}
	}
}

func number(s *statement) (int64, error) {
	defer s.done()
	_, err := s.row()
	return s.ColumnInt64(0), err
}

func (d *database) ballastPath() string { return filepath.Join(filepath.Dir(d.path), "ballast") }

// dropBallast makes room on a full disk. It tells whether there was a ballast.
func (d *database) dropBallast() (bool, error) {
	d.roomy = false
	err := d.opt.FS.Remove(d.ballastPath())
	if errors.Is(err, disk.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("give up the ballast: %w", err)
	}
	return true, nil
}

// rebuildBallast gives the WAL and the ballast their size, when the disk has twice that room.
func (d *database) rebuildBallast() error {
	if d.roomy {
		return nil
	}
	if ok, err := d.hasRoom(); ok || err != nil {
		d.roomy = ok
		return err
	}
	need := d.opt.WALBytes + d.opt.BallastBytes
	free, err := d.opt.FS.Free(filepath.Dir(d.path))
	if err != nil {
		return fmt.Errorf("free space: %w", err)
	}
	if free < 2*need {
		return fmt.Errorf("disk space is low: %d bytes free; below %d the reserve for a full disk is not set aside", free, 2*need)
	}
	if err := d.growWAL(); err != nil {
		return err
	}
	f, err := disk.Preallocate(d.opt.FS, d.ballastPath(), d.opt.BallastBytes)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Close(), d.opt.FS.SyncDir(filepath.Dir(d.path))); err != nil {
		return fmt.Errorf("ballast: %w", err)
	}
	d.roomy = true
	return nil
}

// hasRoom tells whether WAL and ballast have their size already.
func (d *database) hasRoom() (bool, error) {
	for name, want := range map[string]int64{d.path + "-wal": d.opt.WALBytes, d.ballastPath(): d.opt.BallastBytes} {
		e, err := d.opt.FS.Stat(name)
		if errors.Is(err, disk.ErrNotExist) || err == nil && e.Size < want {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	return true, nil
}

// growWAL writes zeros behind the WAL: no frame there is valid, and SQLite writes over them. A WAL that is
// not there yet comes with the first transaction.
func (d *database) growWAL() error {
	f, err := d.opt.FS.OpenFile(d.path+"-wal", 0)
	if errors.Is(err, disk.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("grow WAL: %w", err)
	}
	size, err := f.Size()
	if err == nil && size < d.opt.WALBytes {
		if err = disk.Zero(f, size, d.opt.WALBytes); err == nil {
			err = f.Sync()
		}
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("grow WAL: %w", err)
	}
	return nil
}

// extend gives broker.db the bytes of all its pages while there is no ballast, so that what a commit puts
// into the WAL can always be checkpointed, and the WAL start over. With a ballast that is what it is for.
func (d *database) extend() error {
	if d.roomy {
		return nil
	}
	pages, err := number(d.allPages)
	if err != nil {
		return err
	}
	f, err := d.opt.FS.OpenFile(d.path, 0)
	if err != nil {
		return fmt.Errorf("extend %s: %w", d.path, err)
	}
	size, err := f.Size()
	if err == nil {
		err = disk.Zero(f, size, pages*sqlitePage)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("extend %s: %w", d.path, err)
	}
	return nil
}

// isNoSpace tells a full disk from other errors.
func isNoSpace(err error) bool {
	return errors.Is(err, sqlite3.FULL) || errors.Is(err, disk.ErrNoSpace)
}
