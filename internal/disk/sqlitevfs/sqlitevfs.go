// Package sqlitevfs lets SQLite run on a [disk.FS], so that the power-cut disk can take the
// unflushed part of its files as well. WAL mode works for several connections of one process.
//
// It is not for the live files of a server on disk.OS(): there SQLite's own VFS takes the
// locks that the sqlite3 shell and other processes know.
package sqlitevfs

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/util/vfsutil"
	"github.com/ncruces/go-sqlite3/vfs"

	"emanet/internal/disk"
)

// Register makes fsys known to SQLite under name: open "file:/path/x.db?vfs=name". shmDir is a
// real directory, outside fsys, for the WAL's shared memory, which must be a file the operating
// system can map; it holds nothing that outlives the process. After a power cut or a kill the
// next view of the disk needs a name and a shmDir of its own, for locks and shared memory end with the process.
//
// unregister forgets the name; close every connection first.
func Register(name string, fsys disk.FS, shmDir string) (unregister func()) {
	vfs.Register(name, &fileSystem{fs: fsys, shmDir: shmDir, locks: map[string]*locks{}})
	return func() { vfs.Unregister(name) }
}

type fileSystem struct {
	fs     disk.FS
	shmDir string

	mu    sync.Mutex
	locks map[string]*locks // by database, kept: databases are few
}

func (s *fileSystem) FullPathname(name string) (string, error) { return filepath.Abs(name) }

func (s *fileSystem) Open(name string, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	if name == "" {
		// Temporary files of one connection need no disk.
		return &tempFile{}, flags | vfs.OPEN_MEMORY, nil
	}
	var mode disk.Mode
	if flags&vfs.OPEN_READONLY != 0 {
		mode |= disk.ReadOnly
	}
	if flags&vfs.OPEN_CREATE != 0 {
		mode |= disk.Create
	}
	if flags&vfs.OPEN_EXCLUSIVE != 0 {
		mode |= disk.Exclusive
	}
	f, err := s.fs.OpenFile(name, mode)
	if err != nil {
		return nil, flags, systemError(err, sqlite3.CANTOPEN)
	}
	const logs = vfs.OPEN_MAIN_JOURNAL | vfs.OPEN_SUPER_JOURNAL | vfs.OPEN_WAL
	return &file{
		File:     f,
		system:   s,
		name:     name,
		readOnly: flags&vfs.OPEN_READONLY != 0,
		remove:   flags&vfs.OPEN_DELETEONCLOSE != 0,
		// A log is of use only if its name is durable, so its first flush includes the directory's.
		syncDir: flags&vfs.OPEN_CREATE != 0 && flags&logs != 0,
		locks:   s.locksOf(name),
		shm:     vfs.NewSharedMemory(s.shmPath(name), flags),
	}, flags, nil
}

func (s *fileSystem) shmPath(name string) string {
	return filepath.Join(s.shmDir, fmt.Sprintf("%x-shm", sha256.Sum256([]byte(name))))
}

func (s *fileSystem) locksOf(name string) *locks {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.locks[name]
	if l == nil {
		l = &locks{}
		s.locks[name] = l
	}
	return l
}

func (s *fileSystem) Delete(name string, syncDir bool) error {
	err := s.fs.Remove(name)
	switch {
	case errors.Is(err, disk.ErrNotExist):
		return sqlite3.IOERR_DELETE_NOENT
	case err != nil:
		return systemError(err, sqlite3.IOERR_DELETE)
	}
	if syncDir {
		return systemError(s.fs.SyncDir(filepath.Dir(name)), sqlite3.IOERR_DIR_FSYNC)
	}
	return nil
}

func (s *fileSystem) Access(name string, _ vfs.AccessFlag) (bool, error) {
	_, err := s.fs.Stat(name)
	if errors.Is(err, disk.ErrNotExist) {
		return false, nil
	}
	return err == nil, systemError(err, sqlite3.IOERR_ACCESS)
}

// systemError gives err the code SQLite acts on; a full disk has its own.
func systemError[T sqlite3.ErrorCode | sqlite3.ExtendedErrorCode](err error, code T) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, disk.ErrNoSpace):
		return vfs.SystemError(err, sqlite3.FULL)
	}
	return vfs.SystemError(err, code)
}

// tempFile is a temporary file in memory; only its own connection knows it, so locks are free.
type tempFile struct{ vfsutil.SliceFile }

func (*tempFile) Lock(vfs.LockLevel) error         { return nil }
func (*tempFile) Unlock(vfs.LockLevel) error       { return nil }
func (*tempFile) CheckReservedLock() (bool, error) { return false, nil }

// file is one open file of one connection.
type file struct {
	disk.File
	system     *fileSystem
	name       string
	readOnly   bool
	remove     bool
	syncDir    bool
	persistWAL bool
	locks      *locks
	level      vfs.LockLevel
	shm        vfs.SharedMemory // nil unless it is a database
}

var (
	_ vfs.FileLockState    = (*file)(nil)
	_ vfs.FilePersistWAL   = (*file)(nil)
	_ vfs.FileSharedMemory = (*file)(nil)
)

func (f *file) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(p, off)
	if n < len(p) && !errors.Is(err, io.EOF) { // which SQLite's glue looks for itself
		err = systemError(err, sqlite3.IOERR_READ)
	}
	return n, err
}

func (f *file) WriteAt(p []byte, off int64) (int, error) {
	n, err := f.File.WriteAt(p, off)
	return n, systemError(err, sqlite3.IOERR_WRITE)
}

func (f *file) Truncate(size int64) error {
	return systemError(f.File.Truncate(size), sqlite3.IOERR_TRUNCATE)
}

func (f *file) Sync(vfs.SyncFlag) error {
	if err := f.File.Sync(); err != nil {
		return systemError(err, sqlite3.IOERR_FSYNC)
	}
	if f.syncDir {
		if err := f.system.fs.SyncDir(filepath.Dir(f.name)); err != nil {
			return systemError(err, sqlite3.IOERR_DIR_FSYNC)
		}
		f.syncDir = false
	}
	return nil
}

func (f *file) Size() (int64, error) {
	n, err := f.File.Size()
	return n, systemError(err, sqlite3.IOERR_FSTAT)
}

func (f *file) Close() error {
	var errs []error
	if f.shm != nil {
		errs = append(errs, f.shm.Close())
	}
	errs = append(errs, f.Unlock(vfs.LOCK_NONE), f.File.Close())
	if f.remove {
		errs = append(errs, f.system.fs.Remove(f.name))
	}
	return systemError(errors.Join(errs...), sqlite3.IOERR_CLOSE)
}

func (f *file) SharedMemory() vfs.SharedMemory { return f.shm }
func (f *file) PersistWAL() bool               { return f.persistWAL }
func (f *file) SetPersistWAL(keep bool)        { f.persistWAL = keep }
func (f *file) LockState() vfs.LockLevel       { return f.level }
func (f *file) SectorSize() int                { return 4096 }

// DeviceCharacteristics promises what SQLite's own VFS promises: a write touches no byte beside its own.
func (f *file) DeviceCharacteristics() vfs.DeviceCharacteristic {
	return vfs.IOCAP_POWERSAFE_OVERWRITE | vfs.IOCAP_SUBPAGE_READ
}
