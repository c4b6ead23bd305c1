package doctor

import (
	"fmt"
	"os"
	"path/filepath"

	"emanet/internal/disk"
)

// spaceForGrowth is what the database may want beside the journal: below it a backlog soon has no room.
const spaceForGrowth = 1 << 30

// space compares what is free with what a start takes: all of the journal, or what there is not yet of it.
func space(where, dir string, newBytes int64) []Finding {
	free, err := disk.OS().Free(where)
	if err != nil {
		return []Finding{problem("space", "", "what is free cannot be told: %v", err)}
	}
	need := max(newBytes-size(filepath.Join(dir, "journal"))-size(dir), 0)
	const change = "free some, or use a larger disk; --journal-segments and --journal-segment-bytes decide what the journal takes"
	found := []Finding{ok("space", "%s are free; a start takes %s of it", human(free), human(need))}
	switch {
	case need == 0:
		found[0].Found = human(free) + " are free; the journal has its own already"
	case free < need:
		found[0] = problem("space", change, "%s are free, a start takes %s", human(free), human(need))
	}
	if found[0].Level == OK && free-need < spaceForGrowth {
		found[0] = warning("space", change, "%s are free beside what the journal takes: a backlog goes there, and when it is full publishers wait",
			human(free-need))
	}
	if files, known := freeFiles(where); known && files < filesNeeded {
		found = append(found, problem("inodes", "remove files, or make the file system anew with more inodes", "%d more files can be created, %d are needed",
			files, filesNeeded))
	}
	return found
}

// filesNeeded is more than the journal and the database have with the defaults.
const filesNeeded = 100

// size is that of the files of a directory, 0 when it is not there.
func size(dir string) (n int64) {
	list, err := os.ReadDir(dir)
	if err != nil {
		return 0
	}
	for _, e := range list {
		if st, err := e.Info(); err == nil && st.Mode().IsRegular() {
			n += st.Size()
		}
	}
	return n
}

// human is a size for people.
func human(n int64) string {
	for _, unit := range []struct {
		name  string
		bytes int64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if n >= unit.bytes {
			return fmt.Sprintf("%.1f %s", float64(n)/float64(unit.bytes), unit.name)
		}
	}
	return fmt.Sprintf("%d bytes", n)
}
