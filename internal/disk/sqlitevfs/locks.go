package sqlitevfs

import (
	"sync"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/vfs"
)

// locks is the state of one database's file lock among the connections of this process:
// any number of readers, of which one may reserve to write, and announce (pending) that it
// will; that keeps new readers out until the old ones are gone. https://sqlite.org/lockingv3.html
type locks struct {
	mu       sync.Mutex
	shared   int
	reserved bool
	pending  bool
}

// Lock never waits: SQLite has its own busy handler.
func (f *file) Lock(level vfs.LockLevel) error {
	if f.level >= level {
		return nil
	}
	if f.readOnly && level >= vfs.LOCK_RESERVED {
		return sqlite3.IOERR_LOCK
	}
	l := f.locks
	l.mu.Lock()
	defer l.mu.Unlock()
	switch level {
	case vfs.LOCK_SHARED:
		if l.pending {
			return sqlite3.BUSY
		}
		l.shared++
	case vfs.LOCK_RESERVED:
		if l.reserved {
			return sqlite3.BUSY
		}
		l.reserved = true
	case vfs.LOCK_EXCLUSIVE:
		// From SHARED as well: a hot journal is rolled back without a reservation.
		if f.level < vfs.LOCK_PENDING {
			if l.pending || l.reserved && f.level < vfs.LOCK_RESERVED {
				return sqlite3.BUSY
			}
			l.pending = true
			l.reserved = true
			f.level = vfs.LOCK_PENDING
		}
		if l.shared > 1 {
			return sqlite3.BUSY
		}
	}
	f.level = level
	return nil
}

func (f *file) Unlock(level vfs.LockLevel) error {
	if f.level <= level {
		return nil
	}
	l := f.locks
	l.mu.Lock()
	defer l.mu.Unlock()
	if f.level >= vfs.LOCK_RESERVED {
		l.reserved = false
	}
	if f.level >= vfs.LOCK_PENDING {
		l.pending = false
	}
	if level < vfs.LOCK_SHARED {
		l.shared--
	}
	f.level = level
	return nil
}

func (f *file) CheckReservedLock() (bool, error) {
	f.locks.mu.Lock()
	defer f.locks.mu.Unlock()
	return f.locks.reserved, nil
}
