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
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
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
