package powercut

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"emanet/internal/disk"
)

func mustOpen(t *testing.T, f *FS, name string) disk.File {
	t.Helper()
	h, err := f.OpenFile(name, disk.Create)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func mustWrite(t *testing.T, h disk.File, p string, off int64) {
	t.Helper()
	_, err := h.WriteAt([]byte(p), off)
	must(t, err)
}

func content(t *testing.T, f *FS, name string) string {
	t.Helper()
	h, err := f.OpenFile(name, disk.ReadOnly)
	must(t, err)
	defer h.Close()
	size, err := h.Size()
	must(t, err)
	b := make([]byte, size)
	if size > 0 {
		_, err = h.ReadAt(b, 0)
		must(t, err)
	}
	return string(b)
}

func TestWhatWasFlushedSurvivesEveryCutAndTheRestOnlySome(t *testing.T) {
	flushed := strings.Repeat("F", 8192)
	wholly, partly, notAtAll := 0, 0, 0
	for seed := range uint64(300) {
		f := New(seed)
		h := mustOpen(t, f, "/a")
		mustWrite(t, h, flushed, 0)
		must(t, h.Sync())
		must(t, f.SyncDir("/"))
		mustWrite(t, h, strings.Repeat("u", 4096), 2048)
		got := content(t, f.Cut(), "/a")
		if got[:2048] != flushed[:2048] || got[6144:] != flushed[6144:] {
			t.Fatalf("seed %d: flushed bytes beside the last write have changed", seed)
		}
		switch n := strings.Count(got, "u"); n {
		case 0:
			notAtAll++
		case 4096:
			wholly++
		default:
			partly++
		}
	}
	if wholly == 0 || partly == 0 || notAtAll == 0 {
		t.Fatalf("of 300 cuts the write survived wholly %d, partly %d, not at all %d times", wholly, partly, notAtAll)
	}
}

func TestASectorShowsAMomentThatWas(t *testing.T) {
	seen := map[string]bool{}
	for seed := range uint64(200) {
		f := New(seed)
		h := mustOpen(t, f, "/a")
		mustWrite(t, h, "....", 0)
		must(t, h.Sync())
		must(t, f.SyncDir("/"))
		mustWrite(t, h, "1", 0)
		mustWrite(t, h, "2", 1)
		mustWrite(t, h, "3", 2)
		seen[content(t, f.Cut(), "/a")] = true
	}
	for got := range seen {
		switch got {
		case "....", "1...", "12..", "123.":
		default:
			t.Errorf("after a cut the sector holds %q, which it never did", got)
		}
	}
	if len(seen) != 4 {
		t.Errorf("only %d of 4 moments were seen", len(seen))
	}
}

func TestNamesAreDurableOnlyAfterSyncDir(t *testing.T) {
	lost, kept := 0, 0
	for seed := range uint64(100) {
		f := New(seed)
		must(t, f.MkdirAll("/d"))
		must(t, f.SyncDir("/"))
		h := mustOpen(t, f, "/d/old")
		mustWrite(t, h, "x", 0)
		must(t, h.Sync())
		must(t, f.SyncDir("/d"))
		must(t, f.Rename("/d/old", "/d/new"))
		next := f.Cut()
		_, errOld := next.Stat("/d/old")
		_, errNew := next.Stat("/d/new")
		if (errOld == nil) == (errNew == nil) {
			t.Fatalf("seed %d: a rename is whole or not at all, have\n%s", seed, next.Tree())
		}
		if errNew == nil {
			kept++
			continue
		}
		lost++
		must(t, next.Rename("/d/old", "/d/new"))
		must(t, next.SyncDir("/d"))
		if got := content(t, next.Cut(), "/d/new"); got != "x" {
			t.Fatalf("seed %d: after SyncDir the name holds %q", seed, got)
		}
	}
	if lost == 0 || kept == 0 {
		t.Fatalf("renames lost %d, kept %d of 100", lost, kept)
	}
}

func TestAKillKeepsWhatWasWrittenButALaterCutMayTakeIt(t *testing.T) {
	taken := 0
	for seed := range uint64(50) {
		f := New(seed)
		h := mustOpen(t, f, "/a")
		must(t, f.SyncDir("/"))
		mustWrite(t, h, "written", 0)
		killed := f.Kill()
		if got := content(t, killed, "/a"); got != "written" {
			t.Fatalf("seed %d: after the kill the file holds %q", seed, got)
		}
		if _, err := h.WriteAt([]byte("x"), 0); !errors.Is(err, disk.ErrPowerLost) {
			t.Fatalf("a handle of the killed process answers %v", err)
		}
		if content(t, killed.Cut(), "/a") != "written" {
			taken++
		}
	}
	if taken == 0 {
		t.Fatal("no cut after a kill took what was never flushed")
	}
}

func TestAFlushAfterAFailedFlushProvesNothing(t *testing.T) {
	lost, stillRead := 0, 0
	for seed := range uint64(50) {
		f := New(seed)
		h := mustOpen(t, f, "/a")
		must(t, f.SyncDir("/"))
		mustWrite(t, h, "dirty", 0)
		boom := errors.New("boom")
		f.SetHook(func(op Op) error {
			if op.Kind == Sync {
				return boom
			}
			return nil
		})
		if err := h.Sync(); !errors.Is(err, boom) {
			t.Fatalf("Sync answers %v", err)
		}
		f.SetHook(nil)
		must(t, h.Sync())
		if content(t, f, "/a") == "dirty" {
			stillRead++
			if content(t, f.Cut(), "/a") != "dirty" {
				lost++
			}
		}
	}
	if stillRead == 0 || lost == 0 {
		t.Fatalf("%d times still read, %d of those lost: both must happen", stillRead, lost)
	}
}

func TestTheQuotaRefusesGrowthOnly(t *testing.T) {
	f := New(1)
	h := mustOpen(t, f, "/a")
	f.SetQuota(1000)
	mustWrite(t, h, strings.Repeat("x", 1000), 0)
	if _, err := h.WriteAt([]byte("y"), 1000); !errors.Is(err, disk.ErrNoSpace) {
		t.Fatalf("growing answers %v, want ErrNoSpace", err)
	}
	mustWrite(t, h, "y", 999)
	if free, err := f.Free("/"); err != nil || free != 0 {
		t.Fatalf("free is %d, %v", free, err)
	}
	must(t, f.Remove("/a"))
	if free, err := f.Free("/"); err != nil || free != 1000 {
		t.Fatalf("free after the removal is %d, %v", free, err)
	}
}

func TestCutAfterTearsTheOperationItHits(t *testing.T) {
	f := New(7)
	h := mustOpen(t, f, "/a")
	must(t, h.Sync())
	must(t, f.SyncDir("/"))
	f.CutAfter(2)
	mustWrite(t, h, "first", 0)
	if _, err := h.WriteAt(bytes.Repeat([]byte{'s'}, 100), 5); !errors.Is(err, disk.ErrPowerLost) {
		t.Fatalf("the second operation answers %v", err)
	}
	if _, err := h.Size(); !errors.Is(err, disk.ErrPowerLost) {
		t.Fatalf("after the cut Size answers %v", err)
	}
	if got := content(t, f.Kill(), "/a"); !strings.HasPrefix(got, "first") || len(got) > 105 {
		t.Fatalf("the page cache holds %q", got)
	}
}

func TestALockEndsWithTheProcess(t *testing.T) {
	f := New(1)
	must(t, f.MkdirAll("/d"))
	_, err := f.Lock("/d")
	must(t, err)
	if _, err := f.Lock("/d"); !errors.Is(err, disk.ErrLocked) {
		t.Fatalf("second lock answers %v", err)
	}
	next := f.Kill()
	l, err := next.Lock("/d")
	must(t, err)
	must(t, l.Close())
	_, err = next.Lock("/d")
	must(t, err)
}

func TestWhatIsNotThereIsSaidSo(t *testing.T) {
	f := New(1)
	for op, err := range map[string]error{
		"open":   func() error { _, err := f.OpenFile("/x/y", disk.Create); return err }(),
		"stat":   func() error { _, err := f.Stat("/x"); return err }(),
		"rename": f.Rename("/x", "/y"),
		"remove": f.Remove("/x"),
		"list":   func() error { _, err := f.ReadDir("/x"); return err }(),
	} {
		if !errors.Is(err, disk.ErrNotExist) {
			t.Errorf("%s answers %v, want ErrNotExist", op, err)
		}
	}
}
