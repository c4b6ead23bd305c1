package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"emanet/internal/disk/powercut"
)

// written makes a journal of three segments in use, closed, and answers what is in it.
func written(t *testing.T, dir string) (want []record) {
	t.Helper()
	j := mustStart(t, dir, small())
	for i := range 22 {
		payload := fmt.Sprintf("record %d %s", i, strings.Repeat("w", 400))
		want = append(want, record{mustAppend(t, j, payload), payload})
	}
	if s := j.Stats(); s.SegmentsFree != 1 {
		t.Fatalf("%d segments free", s.SegmentsFree)
	}
	mustClose(t, j)
	return want
}

func mustReadFile(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func mustWriteFile(t *testing.T, name string, b []byte) {
	t.Helper()
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// editFile changes a file's bytes in place.
func editFile(t *testing.T, name string, edit func(b []byte)) {
	t.Helper()
	b := mustReadFile(t, name)
	edit(b)
	mustWriteFile(t, name, b)
}

// found opens the journal and reads everything; a *CorruptError is answered, anything else is fatal.
func found(t *testing.T, dir string) ([]record, *CorruptError) {
	t.Helper()
	j, err := Open(dir, small())
	if err != nil {
		var corrupt *CorruptError
		if !errors.As(err, &corrupt) {
			t.Fatal(err)
		}
		return nil, corrupt
	}
	defer mustClose(t, j)
	return readAll(t, j, 0), nil
}

func TestABitFlippedAnywhereIsDetectedOrHarmless(t *testing.T) {
	t.Parallel()
	fsys, o := onDisk(t)
	var want []record
	j := mustStart(t, "/data/j", o)
	for i := range 22 {
		payload := fmt.Sprintf("record %d %s", i, strings.Repeat("w", 400))
		want = append(want, record{mustAppend(t, j, payload), payload})
	}
	mustClose(t, j)
	detected, harmless := 0, 0
	for _, name := range []string{"head", "0000.seg", "0001.seg", "0002.seg", "0003.seg"} {
		size := 4096
		if name == "head" {
			size = headFileLen
		}
		for at := range size {
			flip := func(b []byte) { b[at] ^= 1 << (at % 8) }
			if err := fsys.Damage("/data/j/"+name, flip); err != nil {
				t.Fatal(err)
			}
			j, err := Open("/data/j", o)
			switch {
			case errors.Is(err, ErrCorrupt) || errors.Is(err, ErrNewer):
				detected++
			case err != nil:
				t.Fatal(err)
			default:
				harmless++
				wantRecords(t, readAll(t, j, 0), want)
				mustClose(t, j)
			}
			if err := fsys.Damage("/data/j/"+name, flip); err != nil {
				t.Fatal(err)
			}
		}
	}
	used := 0
	for _, r := range want {
		used += groupHeaderLen + recordHeaderLen + len(r.payload)
	}
	if detected < used {
		t.Fatalf("%d flips were detected, %d bytes hold records", detected, used)
	}
	t.Logf("%d flips detected, %d harmless", detected, harmless)
}

// Groups of one record each, eight to a segment, 22 in all.
var damages = map[string]struct {
	damage func(t *testing.T, dir string)
	file   string
	offset int64
	reason string
}{
	"a record in the first segment": {
		func(t *testing.T, dir string) {
			editFile(t, filepath.Join(dir, "0000.seg"), func(b []byte) { b[2000] ^= 1 })
		}, "0000.seg", 0, "before 0001.seg"},
	"a record in the last segment": {
		func(t *testing.T, dir string) {
			editFile(t, filepath.Join(dir, "0002.seg"), func(b []byte) { b[segmentHeaderLen+groupHeaderLen+20] ^= 1 })
		}, "0002.seg", segmentHeaderLen, "a whole one follows"},
	"a sector of zeros": {
		func(t *testing.T, dir string) {
			editFile(t, filepath.Join(dir, "0001.seg"), func(b []byte) { clear(b[1024:1536]) })
		}, "0001.seg", 0, "before 0002.seg"},
	"the header of a segment": {
		func(t *testing.T, dir string) {
			editFile(t, filepath.Join(dir, "0001.seg"), func(b []byte) { clear(b[:32]) })
		}, "0000.seg", 0, "before 0002.seg"},
	"the header of the last segment": {
		func(t *testing.T, dir string) {
			editFile(t, filepath.Join(dir, "0002.seg"), func(b []byte) { clear(b[:32]) })
		}, "0002.seg", 0, "header is damaged"},
	"the last group": {
		func(t *testing.T, dir string) {
			j := mustOpen(t, dir, small())
			end := j.ring.live[2].end
			mustClose(t, j)
			editFile(t, filepath.Join(dir, "0002.seg"), func(b []byte) { b[end-20] ^= 1 })
		}, "0002.seg", 0, "was flushed"},
	"a missing segment": {
		func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, "0001.seg")); err != nil {
				t.Fatal(err)
			}
		}, "0001.seg", 0, "missing"},
	"a shortened segment": {
		func(t *testing.T, dir string) {
			if err := os.Truncate(filepath.Join(dir, "0001.seg"), 512); err != nil {
				t.Fatal(err)
			}
		}, "0001.seg", 512, "512 bytes"},
	"both copies of the head": {
		func(t *testing.T, dir string) {
			editFile(t, filepath.Join(dir, "head"), func(b []byte) { clear(b) })
		}, "head", 0, "neither copy"},
	"a missing head": {
		func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, "head")); err != nil {
				t.Fatal(err)
			}
		}, "", 0, "no file head"},
	"two segments swapped": {
		func(t *testing.T, dir string) {
			a, b := filepath.Join(dir, "0000.seg"), filepath.Join(dir, "0001.seg")
			x, y := mustReadFile(t, a), mustReadFile(t, b)
			mustWriteFile(t, a, y)
			mustWriteFile(t, b, x)
		}, "0002.seg", 0, "missing before"},
}

func TestDamageIsRefusedNamingFileAndOffset(t *testing.T) {
	t.Parallel()
	for name, c := range damages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			written(t, dir)
			c.damage(t, dir)
			_, corrupt := found(t, dir)
			if corrupt == nil {
				t.Fatal("opened")
			}
			if filepath.Base(corrupt.File) != c.file && c.file != "" ||
				c.offset != 0 && corrupt.Offset != c.offset || !strings.Contains(corrupt.Reason, c.reason) {
				t.Fatalf("named %s at %d: %s", corrupt.File, corrupt.Offset, corrupt.Reason)
			}
		})
	}
}

func TestANewerFormatIsRefusedByName(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	written(t, dir)
	editFile(t, filepath.Join(dir, "head"), func(b []byte) { b[8], b[headStride+8] = 2, 2 })
	if _, err := Open(dir, small()); !errors.Is(err, ErrNewer) || !strings.Contains(err.Error(), "version 2") {
		t.Fatalf("got %v", err)
	}
}

func TestATornLastGroupIsCutOffAndItsLSNsAreNotGivenOutAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := mustStart(t, dir, small())
	first := mustAppend(t, j, "first")
	end := j.ring.live[0].end
	torn := mustAppend(t, j, strings.Repeat("t", 1000))
	// As after a power cut: no Close, the head does not know of the group.
	image := mustReadFile(t, filepath.Join(dir, "0000.seg"))
	head := mustReadFile(t, filepath.Join(dir, headName))
	mustClose(t, j)
	for _, cut := range []int64{end + 1, end + groupHeaderLen - 1, end + groupHeaderLen, end + 600} {
		clear(image[cut:])
		mustWriteFile(t, filepath.Join(dir, "0000.seg"), image)
		mustWriteFile(t, filepath.Join(dir, headName), head)
		j = mustStart(t, dir, small())
		wantRecords(t, readAll(t, j, 0), []record{{first, "first"}})
		if lsn := mustAppend(t, j, "next"); lsn <= torn {
			t.Fatalf("LSN %d after a torn group up to %d", lsn, torn)
		}
		mustClose(t, j)
	}
}

// A torn group whose missing bytes arrive later, with the equally torn write of another group of
// the same content, must not come to life: that start has gone on without it.
func TestATornGroupIsNotMadeWholeByTheRemainsOfALaterOne(t *testing.T) {
	t.Parallel()
	fsys, o := onDisk(t)
	j := mustStart(t, "/data/j", o)
	mustAppend(t, j, "first")
	end := j.ring.live[0].end
	reached, release := hold(fsys)
	if _, err := appendRecord(j, Control, []byte(strings.Repeat("t", 1000))); err != nil {
		t.Fatal(err)
	}
	<-reached
	o.FS = fsys.Kill() // written, not flushed; then torn as below
	release()
	_ = j.Close() // of a dead process
	fsys = o.FS.(*powercut.FS)
	var tail []byte
	damage := func(edit func(b []byte)) {
		if err := fsys.Damage("/data/j/0000.seg", edit); err != nil {
			t.Fatal(err)
		}
	}
	damage(func(b []byte) {
		tail = bytes.Clone(b[end+500 : end+1100])
		clear(b[end+500 : end+1100])
	})
	mustClose(t, mustStart(t, "/data/j", o))
	damage(func(b []byte) { copy(b[end+500:], tail) })
	j = mustOpen(t, "/data/j", o)
	defer mustClose(t, j)
	if got := readAll(t, j, 0); len(got) != 1 {
		t.Fatalf("%d records, want the first alone", len(got))
	}
}

func TestStaleBytesOfARecycledSegmentPassForNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := mustStart(t, dir, small())
	var want []record
	for i := range 200 {
		payload := fmt.Sprintf("round %d %s", i, strings.Repeat("s", 200)) // same places in every round
		lsn, err := appendRecord(j, Control, []byte(payload))
		if errors.Is(err, ErrFull) {
			if err := j.Release(j.Flushed()); err != nil {
				t.Fatal(err)
			}
			lsn, err = appendRecord(j, Control, []byte(payload))
		}
		if err != nil {
			t.Fatal(err)
		}
		awaitFlush(j)
		want = append(want, record{lsn, payload})
		if i%10 != 0 {
			continue
		}
		floor := j.ring.live[0].prev
		for len(want) > 0 && want[0].lsn <= floor {
			want = want[1:]
		}
		got := readAll(t, j, floor)
		wantRecords(t, got, want)
		// The same as a crash at this moment would find it.
		copyDir := t.TempDir()
		for _, name := range []string{"head", "0000.seg", "0001.seg", "0002.seg", "0003.seg"} {
			mustWriteFile(t, filepath.Join(copyDir, name), mustReadFile(t, filepath.Join(dir, name)))
		}
		crashed := mustOpen(t, copyDir, small())
		wantRecords(t, readAll(t, crashed, floor), want)
		mustClose(t, crashed)
	}
	mustClose(t, j)
}

// hostile is a payload that tries to be a group and records in every alignment: made with the
// format's own code, with every LSN that may come, but without the salt.
func hostile(size int, next LSN) []byte {
	guess := newSeal([16]byte{}) // a client can do no better than guess
	var b bytes.Buffer
	for i := 0; b.Len() < size; i++ {
		body := make([]byte, recordHeaderLen+8)
		binary.LittleEndian.PutUint32(body[4:], 8)
		copy(body[8:], "invented")
		first := next + LSN(i%7)
		guess.sealRecords(body, first)
		g := make([]byte, groupHeaderLen)
		guess.putGroupHeader(g, groupHeader{length: groupHeaderLen + len(body), count: 1, first: first, prev: next - 1, time: 1})
		b.Write(g)
		b.Write(body)
		b.WriteString("x"[:i%2]) // shifts the alignment
	}
	return b.Bytes()[:size]
}

func TestAHostilePayloadPassesForNothingWhateverIsTornOrDamaged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := mustStart(t, dir, small())
	mustAppend(t, j, "first")
	payload := hostile(3000, j.next+1)
	mustAppend(t, j, string(payload))
	image := mustReadFile(t, filepath.Join(dir, "0000.seg"))
	head := mustReadFile(t, filepath.Join(dir, headName))
	want := readAll(t, j, 0)
	end := j.ring.live[0].end
	mustClose(t, j)
	// Every tear of the group that carries it, and every place a damaged length could lead to.
	for at := int64(segmentHeaderLen); at < end; at += 13 {
		b := bytes.Clone(image)
		clear(b[at:min(at+40, end)])
		mustWriteFile(t, filepath.Join(dir, "0000.seg"), b)
		mustWriteFile(t, filepath.Join(dir, headName), head)
		o := small()
		o.Salvage = true
		j := mustOpen(t, dir, o)
		for _, r := range readAll(t, j, 0) {
			if r != want[0] && r != want[1] {
				t.Fatalf("zeros at %d: record (%d, %.20q) is invented", at, r.lsn, r.payload)
			}
		}
		mustClose(t, j)
	}
}

func TestAPayloadThatKnewTheSaltWouldPass(t *testing.T) {
	t.Parallel()
	// The proof that the test above can fail: with the salt the search does find the crafted group.
	s := newSeal([16]byte{})
	if at := s.findGroup(hostile(3000, 5), 0, 1); at != 0 {
		t.Fatalf("found at %d", at)
	}
}
