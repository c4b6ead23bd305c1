package powercut

import (
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"emanet/internal/disk"
)

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
