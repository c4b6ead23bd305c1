package journal

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"emanet/internal/disk/powercut"
)

func salvaging() Options {
	o := small()
	o.Salvage = true
	return o
}

// wantSalvaged opens with Salvage and checks that exactly the records of which lost answers true
// are gone, that they are reported, and that the journal is whole from then on.
func wantSalvaged(t *testing.T, dir string, want []record, lost func(i int) bool) *Journal {
	t.Helper()
	j := mustOpen(t, dir, salvaging())
	var kept []record
	for i, r := range want {
		if lost(i) {
			if !reported(j, r.lsn) {
				t.Errorf("LSN %d is lost and not reported: %+v", r.lsn, j.Lost())
			}
			continue
		}
		if reported(j, r.lsn) {
			t.Errorf("LSN %d is reported lost and is not: %+v", r.lsn, j.Lost())
		}
		kept = append(kept, r)
	}
	wantRecords(t, readAll(t, j, 0), kept)
	if err := j.Start(0); err != nil {
		t.Fatal(err)
	}
	next := mustAppend(t, j, "after the salvage")
	if next <= want[len(want)-1].lsn {
		t.Fatalf("LSN %d after the salvage is not new", next)
	}
	mustClose(t, j)
	j = mustOpen(t, dir, small())
	wantRecords(t, readAll(t, j, 0), append(kept, record{next, "after the salvage"}))
	return j
}

func reported(j *Journal, lsn LSN) bool {
	for _, l := range j.Lost() {
		if l.First <= lsn && lsn <= l.Last {
			return true
		}
	}
	return false
}

func TestSalvageKeepsWhatIsWholeBeforeAndAfterTheDamage(t *testing.T) {
	t.Parallel()
	// Eight groups of one record fill a segment; 25 records in all.
	group := func(i int) int { return segmentHeaderLen + i*472 }
	for name, c := range map[string]struct {
		file   string
		damage func(b []byte)
		lost   func(i int) bool
	}{
		"one payload":           {"0000.seg", func(b []byte) { b[group(3)+100] ^= 1 }, func(i int) bool { return i == 3 }},
		"one record's length":   {"0000.seg", func(b []byte) { b[group(3)+groupHeaderLen+4] ^= 1 }, func(i int) bool { return i == 3 }},
		"one group header":      {"0000.seg", func(b []byte) { b[group(3)+20] ^= 1 }, func(i int) bool { return false }},
		"a group and its rest":  {"0000.seg", func(b []byte) { clear(b[group(3) : group(4)-8]) }, func(i int) bool { return i == 3 }},
		"a segment header":      {"0001.seg", func(b []byte) { clear(b[:40]) }, func(i int) bool { return false }},
		"the last header":       {"0003.seg", func(b []byte) { clear(b[:40]) }, func(i int) bool { return false }},
		"a whole segment":       {"0001.seg", func(b []byte) { garble(b) }, func(i int) bool { return i/8 == 1 }},
		"the first segment":     {"0000.seg", func(b []byte) { garble(b) }, func(i int) bool { return i/8 == 0 }},
		"the last segment":      {"0003.seg", func(b []byte) { garble(b) }, func(i int) bool { return i/8 == 3 }},
		"the last group's body": {"0003.seg", func(b []byte) { b[group(0)+90] ^= 1 }, func(i int) bool { return i == 24 }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			j := mustStart(t, dir, small())
			var want []record
			for i := range 25 {
				payload := fmt.Sprintf("record %02d %s", i, strings.Repeat("w", 400))
				want = append(want, record{mustAppend(t, j, payload), payload})
			}
			mustClose(t, j)
			path := filepath.Join(dir, c.file)
			editFile(t, path, c.damage)
			damaged := mustReadFile(t, path)
			mustClose(t, wantSalvaged(t, dir, want, c.lost))
			entries, err := os.ReadDir(filepath.Join(dir, salvageDir))
			if err != nil || len(entries) == 0 {
				t.Fatalf("nothing was set aside: %v", err)
			}
			aside := false
			for _, e := range entries {
				aside = aside || bytes.Equal(damaged, mustReadFile(t, filepath.Join(dir, salvageDir, e.Name())))
			}
			if !aside {
				t.Fatal("the damaged segment was not set aside as it was")
			}
		})
	}
}

// garble leaves nothing of b, and no zeros either.
func garble(b []byte) {
	for i := range b {
		b[i] = byte(i*7 + 1)
	}
}

func TestSalvageWithoutAHeadTakesTheSaltFromTheSegments(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(t *testing.T, head string){
		"zeroed":  func(t *testing.T, head string) { mustWriteFile(t, head, make([]byte, headFileLen)) },
		"missing": func(t *testing.T, head string) { _ = os.Remove(head) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			want := written(t, dir)
			damage(t, filepath.Join(dir, headName))
			mustClose(t, wantSalvaged(t, dir, want, func(int) bool { return false }))
		})
	}
}

func TestSalvageReplacesAMissingSegment(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	want := written(t, dir)
	if err := os.Remove(filepath.Join(dir, "0001.seg")); err != nil {
		t.Fatal(err)
	}
	mustClose(t, wantSalvaged(t, dir, want, func(i int) bool { return i >= 8 && i < 16 }))
}

func TestSalvageKeepsTheWholeRecordsOfADamagedGroup(t *testing.T) {
	t.Parallel()
	fsys, o := onDisk(t)
	j := mustStart(t, "/data/j", o)
	reached, release := hold(fsys)
	first := appendMany(t, j, 1)
	<-reached
	many := appendMany(t, j, 20) // one group, as the flush is held
	release()
	awaitFlush(j)
	off := j.ring.live[0].end
	mustClose(t, j)
	size := int64(recordHeaderLen + len(many[0].payload))
	if err := fsys.Damage("/data/j/0000.seg", func(b []byte) { b[off-20*size+3*size+30] ^= 1 }); err != nil {
		t.Fatal(err)
	}
	o.Salvage = true
	j = mustOpen(t, "/data/j", o)
	defer mustClose(t, j)
	got := readAll(t, j, 0)
	if len(got) != 20 || got[0] != first[0] || len(j.Lost()) != 1 || j.Lost()[0].First != j.Lost()[0].Last {
		t.Fatalf("%d of 21 records kept, lost is %+v", len(got), j.Lost())
	}
}

func appendMany(t *testing.T, j *Journal, n int) (list []record) {
	t.Helper()
	for i := range n {
		payload := fmt.Sprintf("record %03d %s", i, strings.Repeat("m", 50))
		lsn, err := appendRecord(j, Control, []byte(payload))
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, record{lsn, payload})
	}
	return list
}

func TestSalvageOfRandomDamageInventsNothingAndReportsWhatIsMissing(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 2))
		fsys := powercut.New(seed)
		o := salvaging()
		o.FS = fsys
		if err := fsys.MkdirAll("/data"); err != nil {
			t.Fatal(err)
		}
		want := map[LSN]string{}
		for range 1 + rng.IntN(3) { // several starts: the LSNs have gaps
			j := mustStart(t, "/data/j", o)
			for range rng.IntN(20) {
				payload := strings.Repeat(string(rune('a'+rng.IntN(26))), 1+rng.IntN(250))
				want[mustAppend(t, j, payload)] = payload
			}
			mustClose(t, j)
		}
		for range 1 + rng.IntN(4) {
			name := fmt.Sprintf("/data/j/%04d.seg", rng.IntN(3))
			err := fsys.Damage(name, func(b []byte) {
				at := rng.IntN(len(b))
				n := rng.IntN(1 + rng.IntN(600))
				for i := at; i < min(at+n, len(b)); i++ {
					b[i] = byte(rng.IntN(256) * rng.IntN(2))
				}
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		j := mustOpen(t, "/data/j", o)
		for _, r := range readAll(t, j, 0) {
			if want[r.lsn] != r.payload {
				t.Fatalf("seed %d: record (%d, %.20q) is invented", seed, r.lsn, r.payload)
			}
			delete(want, r.lsn)
		}
		for lsn := range want {
			if !reported(j, lsn) {
				t.Fatalf("seed %d: LSN %d is missing and not reported: %+v", seed, lsn, j.Lost())
			}
		}
		mustClose(t, j)
		o.Salvage = false
		mustClose(t, mustOpen(t, "/data/j", o)) // whole again
	}
}

func TestSalvageOnAFullDiskStillStarts(t *testing.T) {
	t.Parallel()
	fsys, o := onDisk(t)
	j := mustStart(t, "/data/j", o)
	appendMany(t, j, 3)
	mustClose(t, j)
	if err := fsys.Damage("/data/j/0000.seg", func(b []byte) { b[segmentHeaderLen+groupHeaderLen+20] ^= 1 }); err != nil {
		t.Fatal(err)
	}
	fsys.SetQuota(1)
	o.Salvage = true
	j = mustOpen(t, "/data/j", o)
	defer mustClose(t, j)
	if lost := j.Lost(); len(lost) != 1 || lost[0].Aside != "" {
		t.Fatalf("lost is %+v", lost)
	}
}
