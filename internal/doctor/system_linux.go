package doctor

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// kinds are file systems by their magic numbers (statfs(2)), with what there is to know about them.
var kinds = map[int64]struct {
	name   string
	level  Level
	is     string
	change string
}{
	unix.TMPFS_MAGIC: {"tmpfs", Problem, "it is in memory: everything is gone with the power", "use a directory on a disk"},
	unix.RAMFS_MAGIC: {"ramfs", Problem, "it is in memory: everything is gone with the power", "use a directory on a disk"},
	unix.OVERLAYFS_SUPER_MAGIC: {"overlayfs", Warning, "it is the layer of a container: everything is gone with the container",
		"mount a volume"},
	unix.NFS_SUPER_MAGIC:   {"NFS", Warning, networkIs, networkChange},
	unix.SMB_SUPER_MAGIC:   {"SMB", Warning, networkIs, networkChange},
	unix.SMB2_SUPER_MAGIC:  {"SMB", Warning, networkIs, networkChange},
	unix.CIFS_SUPER_MAGIC:  {"CIFS", Warning, networkIs, networkChange},
	unix.V9FS_MAGIC:        {"9p", Warning, networkIs, networkChange},
	unix.FUSE_SUPER_MAGIC:  {"FUSE", Warning, "whether a flush is one is up to the program behind it", "use a disk of this machine"},
	unix.MSDOS_SUPER_MAGIC: {"FAT", Warning, "a power cut can damage it as a whole", "use ext4 or XFS"},
	unix.BTRFS_SUPER_MAGIC: {"btrfs", Warning, "it writes each block of the journal to a new place, which makes flushes slower",
		"chattr +C the empty directory before the first start, or use ext4 or XFS"},
	unix.EXT4_SUPER_MAGIC: {name: "ext4 (or ext3, ext2)", level: OK},
	unix.XFS_SUPER_MAGIC:  {name: "XFS", level: OK},
	unix.F2FS_SUPER_MAGIC: {name: "F2FS", level: OK},
	0x2fc12fc1:            {name: "ZFS", level: OK},
}

const (
	networkIs     = "a flush is as good as the server behind it"
	networkChange = "use a disk of this machine, or make sure that the server flushes (NFS: export with sync)"
)

func fileSystem(dir string) Finding {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return warning("file system", "", "it cannot be told: %v", err)
	}
	magic := int64(st.Type) & 0xffffffff //nolint:unconvert // its type differs between architectures
	kind, known := kinds[magic]
	switch {
	case !known:
		return ok("file system", "of a kind that is not known here (%#x)", magic)
	case kind.level == OK:
		return ok("file system", "%s", kind.name)
	}
	return Finding{"file system", kind.level, kind.name + ": " + kind.is, kind.change}
}

func freeFiles(dir string) (n uint64, known bool) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil || st.Files == 0 { // btrfs has no fixed number
		return 0, false
	}
	return st.Ffree, true
}

func clockSynchronised() (yes, known bool) {
	var t unix.Timex // modes 0 only reads
	state, err := unix.Adjtimex(&t)
	if err != nil {
		return false, false
	}
	return state != unix.TIME_ERROR && t.Status&unix.STA_UNSYNC == 0, true
}

// kernel compares settings with what many connections need.
func kernel(files uint64) []Finding {
	var found []Finding
	for _, s := range []struct {
		name string
		low  uint64
		why  string
	}{
		{"net.core.somaxconn", 1024, "so many connections may wait to be accepted: a fleet that comes back at once finds the door shut, and tries again later"},
		{"net.ipv4.tcp_max_syn_backlog", 512, "so many connections may be on their way: as above"},
		{"fs.file-max", files, "so many files may be open on the whole machine"},
	} {
		text, err := os.ReadFile("/proc/sys/" + strings.ReplaceAll(s.name, ".", "/"))
		if err != nil {
			continue // not everything is there in a container
		}
		value, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
		switch {
		case err != nil:
		case value < s.low:
			found = append(found, warning("kernel", "sysctl -w "+s.name+"="+strconv.FormatUint(max(s.low, 4096), 10)+", and in /etc/sysctl.d",
				"%s is %d: %s", s.name, value, s.why))
		default:
			found = append(found, ok("kernel", "%s is %d", s.name, value))
		}
	}
	return found
}
