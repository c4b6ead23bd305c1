// Package powercut is a simulated disk that forgets what was not flushed. It is an in-memory
// [disk.FS] with a seeded random source that keeps, for every file and every directory, what
// the medium has and what was only written. [FS.Cut] ends the power: a random part of what was
// not flushed survives, in pieces of a sector, the last write torn; [FS.Kill] ends the process
// alone: everything written is still there, but none of it is flushed, so that a later Cut may
// still take it. Faults come from a hook and a quota.
//
// What it assumes of a real disk: a flushed byte stays; a write touches no byte beside its own.
// A file's size is flushed with its content, a name with its directory.
package powercut

import (
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"emanet/internal/disk"
)

// Kind of an operation.
type Kind string

const (
	Write    Kind = "write"
	Sync     Kind = "sync"
	Truncate Kind = "truncate"
	Names    Kind = "names" // create, rename, remove, mkdir
	SyncDir  Kind = "syncdir"
	Read     Kind = "read"
)

// Op is what a hook is asked about before it happens.
type Op struct {
	Kind Kind
	Name string
	Off  int64
	Len  int // bytes, Read and Write

	file *inode
}

// FS is the disk as one life of the process sees it: from New, Cut or Kill to the next Cut or Kill.
type FS struct{ m *medium }

// medium is shared by no two lives: Cut and Kill take it over and leave the old one dead.
type medium struct {
	mu    sync.Mutex
	rng   *rand.Rand
	names names
	locks map[string]bool
	dead  bool
	left  int // operations until the power ends by itself, -1: never
	quota int64
	hook  func(Op) error
	syncs int
}

// New is an empty disk. The same seed and the same calls give the same survivals.
func New(seed uint64) *FS {
	return &FS{&medium{
		rng:   rand.New(rand.NewPCG(seed, 0x656d616e6574)),
		names: newNames(),
		locks: map[string]bool{},
		left:  -1,
	}}
}

// Cut ends the power and returns the disk as the next start finds it. Every handle of f, and f
// itself, answers disk.ErrPowerLost from now on. Hook, quota and CutAfter end with it.
func (f *FS) Cut() *FS {
	next := f.take()
	next.eachFile(func(n *inode) {
		n.lose(next.rng)
		n.cache = slices.Clone(n.durable)
	})
	// Journalling file systems keep a prefix of what happened; others any part.
	if next.rng.IntN(2) == 0 {
		left := next.rng.IntN(len(next.names.log) + 1)
		next.names.lose(func() bool { left--; return left >= 0 })
	} else {
		next.names.lose(func() bool { return next.rng.IntN(2) == 0 })
	}
	return &FS{next}
}

// Kill ends the process and returns the disk as the next start finds it: everything that was
// written, nothing more of it flushed than before. Handles of f answer disk.ErrPowerLost.
func (f *FS) Kill() *FS { return &FS{f.take()} }

// take makes a new medium of the old one's state and kills the old one.
func (f *FS) take() *medium {
	m := f.m
	m.mu.Lock()
	defer m.mu.Unlock()
	next := &medium{rng: m.rng, names: m.names, locks: map[string]bool{}, left: -1}
	m.dead, m.names, m.hook = true, newNames(), nil
	return next
}

// eachFile visits every file that has or had a name, in an order that does not depend on maps.
func (m *medium) eachFile(visit func(*inode)) {
	seen := map[*inode]bool{}
	see := func(n *node) {
		if n != nil && n.file != nil && !seen[n.file] {
			seen[n.file] = true
			visit(n.file)
		}
	}
	for _, tree := range []map[string]*node{m.names.durable, m.names.cache} {
		for _, name := range slices.Sorted(maps.Keys(tree)) {
			see(tree[name])
		}
	}
	for _, c := range m.names.log {
		see(c.what)
	}
}

// CutAfter lets the power end within the n-th operation from now that changes anything
// (1 is the next): a write gets partly done. Then call Cut or Kill.
func (f *FS) CutAfter(n int) {
	f.m.mu.Lock()
	f.m.left = n
	f.m.mu.Unlock()
}

// SetHook has h called before every operation, without any lock: its error is the operation's,
// and it may block (a slow disk). An error for Sync drops the dirty pages, as Linux does; a Write fails
// before its first byte.
func (f *FS) SetHook(h func(Op) error) {
	f.m.mu.Lock()
	f.m.hook = h
	f.m.mu.Unlock()
}

// SetQuota bounds the sum of all file sizes: growing beyond it is disk.ErrNoSpace. 0: no bound.
func (f *FS) SetQuota(bytes int64) {
	f.m.mu.Lock()
	f.m.quota = bytes
	f.m.mu.Unlock()
}

// Syncs is the number of File.Sync calls that returned without an error.
func (f *FS) Syncs() int {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	return f.m.syncs
}

// Damage lets edit change a file's bytes where they are, in the cache and on the medium alike.
func (f *FS) Damage(name string, edit func(content []byte)) error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	n := f.m.names.lookup(filepath.Clean(name))
	if n == nil || n.file == nil {
		return notExist("damage", name)
	}
	edit(n.file.cache)
	n.file.durable, n.file.log = slices.Clone(n.file.cache), nil
	return nil
}

// begin asks the hook and spends one operation. It returns with the lock held when there is no
// error; last: the power ends within this very operation.
func (m *medium) begin(op Op) (last bool, err error) {
	m.mu.Lock()
	hook := m.hook
	if op.file != nil {
		op.Name = op.file.name
	}
	m.mu.Unlock()
	if hook != nil {
		err = hook(op)
	}
	m.mu.Lock()
	switch {
	case m.dead || m.left == 0:
		err = disk.ErrPowerLost
	case err == nil && op.Kind != Read && m.left > 0:
		m.left--
		last = m.left == 0
	}
	if err != nil {
		if op.Kind == Sync && !m.dead && m.left != 0 {
			op.file.dropDirty(m.rng)
		}
		m.mu.Unlock()
		return false, fmt.Errorf("%s %s: %w", op.Kind, op.Name, err)
	}
	return last, nil
}

func (m *medium) used() (total int64) {
	for _, n := range m.names.cache {
		if n.file != nil {
			total += int64(len(n.file.cache))
		}
	}
	return total
}

// grow says whether a file may get larger by n bytes.
func (m *medium) grow(n int64) error {
	if n > 0 && m.quota > 0 && m.used()+n > m.quota {
		return disk.ErrNoSpace
	}
	return nil
}

func notExist(op, name string) error { return fmt.Errorf("%s %s: %w", op, name, disk.ErrNotExist) }

// changeNames runs edit, which says what changes, as one operation on the tree.
func (f *FS) changeNames(name string, edit func(t *names) error) error {
	last, err := f.m.begin(Op{Kind: Names, Name: name})
	if err != nil {
		return err
	}
	defer f.m.mu.Unlock()
	if err := edit(&f.m.names); err != nil {
		return err
	}
	return lostIf(last)
}

func lostIf(last bool) error {
	if last {
		return disk.ErrPowerLost
	}
	return nil
}

func (f *FS) OpenFile(name string, mode disk.Mode) (disk.File, error) {
	name = filepath.Clean(name)
	f.m.mu.Lock()
	n, dead := f.m.names.lookup(name), f.m.dead || f.m.left == 0
	f.m.mu.Unlock()
	switch {
	case dead:
		return nil, fmt.Errorf("open %s: %w", name, disk.ErrPowerLost)
	case n != nil && n.file == nil:
		return nil, fmt.Errorf("open %s: is a directory", name)
	case n != nil && mode&disk.Exclusive != 0:
		return nil, fmt.Errorf("open %s: %w", name, disk.ErrExist)
	case n == nil && mode&disk.Create == 0:
		return nil, notExist("open", name)
	}
	if n == nil {
		err := f.changeNames(name, func(t *names) error {
			if n = t.lookup(name); n != nil {
				return nil // another goroutine was faster
			}
			if t.lookup(filepath.Dir(name)) == nil {
				return notExist("create", name)
			}
			n = &node{&inode{name: name}}
			t.change(nameChange{to: name, what: n})
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return &file{m: f.m, n: n.file, readOnly: mode&disk.ReadOnly != 0}, nil
}

func (f *FS) Stat(name string) (disk.Entry, error) {
	name = filepath.Clean(name)
	if _, err := f.m.begin(Op{Kind: Read, Name: name}); err != nil {
		return disk.Entry{}, err
	}
	defer f.m.mu.Unlock()
	n := f.m.names.lookup(name)
	if n == nil {
		return disk.Entry{}, notExist("stat", name)
	}
	return n.entry(name), nil
}

func (n *node) entry(name string) disk.Entry {
	if n.file == nil {
		return disk.Entry{Name: filepath.Base(name), Dir: true}
	}
	return disk.Entry{Name: filepath.Base(name), Size: int64(len(n.file.cache))}
}

func (f *FS) Rename(from, to string) error {
	from, to = filepath.Clean(from), filepath.Clean(to)
	return f.changeNames(from, func(t *names) error {
		n := t.lookup(from)
		if n == nil || t.lookup(filepath.Dir(to)) == nil {
			return notExist("rename", from)
		}
		if n.file == nil {
			return fmt.Errorf("rename %s: directories cannot be renamed here", from)
		}
		t.change(nameChange{from: from, to: to, what: n})
		n.file.name = to
		return nil
	})
}

func (f *FS) Remove(name string) error {
	name = filepath.Clean(name)
	return f.changeNames(name, func(t *names) error {
		n := t.lookup(name)
		if n == nil {
			return notExist("remove", name)
		}
		if n.file == nil && len(t.list(name)) > 0 {
			return fmt.Errorf("remove %s: directory is not empty", name)
		}
		t.change(nameChange{from: name, what: n})
		return nil
	})
}

// list is the sorted full names in a directory.
func (t *names) list(dir string) (list []string) {
	for name := range t.cache {
		if filepath.Dir(name) == dir {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list
}

func (f *FS) ReadDir(name string) ([]disk.Entry, error) {
	name = filepath.Clean(name)
	if _, err := f.m.begin(Op{Kind: Read, Name: name}); err != nil {
		return nil, err
	}
	defer f.m.mu.Unlock()
	if n := f.m.names.lookup(name); n == nil || n.file != nil {
		return nil, notExist("list", name)
	}
	var entries []disk.Entry
	for _, full := range f.m.names.list(name) {
		entries = append(entries, f.m.names.cache[full].entry(full))
	}
	return entries, nil
}

func (f *FS) MkdirAll(name string) error {
	name = filepath.Clean(name)
	if e, err := f.Stat(name); err == nil && e.Dir {
		return nil
	}
	return f.changeNames(name, func(t *names) error {
		var missing []string
		for dir := name; t.lookup(dir) == nil; dir = filepath.Dir(dir) {
			missing = append(missing, dir)
		}
		for _, dir := range slices.Backward(missing) {
			t.change(nameChange{to: dir, what: &node{}})
		}
		return nil
	})
}

func (f *FS) SyncDir(name string) error {
	name = filepath.Clean(name)
	last, err := f.m.begin(Op{Kind: SyncDir, Name: name})
	if err != nil {
		return err
	}
	defer f.m.mu.Unlock()
	if n := f.m.names.lookup(name); n == nil || n.file != nil {
		return notExist("sync", name)
	}
	if !last {
		f.m.names.sync(name)
	}
	return lostIf(last)
}

// Free is what the quota leaves; a lot without one.
func (f *FS) Free(name string) (int64, error) {
	if _, err := f.m.begin(Op{Kind: Read, Name: name}); err != nil {
		return 0, err
	}
	defer f.m.mu.Unlock()
	if f.m.quota == 0 {
		return 1 << 50, nil
	}
	return max(0, f.m.quota-f.m.used()), nil
}

func (f *FS) Lock(dir string) (io.Closer, error) {
	dir = filepath.Clean(dir)
	if _, err := f.m.begin(Op{Kind: Read, Name: dir}); err != nil {
		return nil, err
	}
	defer f.m.mu.Unlock()
	if f.m.locks[dir] {
		return nil, fmt.Errorf("%s: %w", dir, disk.ErrLocked)
	}
	f.m.locks[dir] = true
	return &dirLock{m: f.m, dir: dir}, nil
}

type dirLock struct {
	m   *medium
	dir string
}

func (l *dirLock) Close() error {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	delete(l.m.locks, l.dir)
	return nil
}

// Tree lists all files with their sizes, for a test's message.
func (f *FS) Tree() string {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(f.m.names.cache)) {
		fmt.Fprintf(&b, "%s %d\n", name, f.m.names.cache[name].entry(name).Size)
	}
	return b.String()
}
