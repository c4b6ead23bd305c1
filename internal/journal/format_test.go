package journal

import (
	"encoding/binary"
	"hash/crc32"
	"testing"
)

func TestARecordsChecksumIsCRC32COverSaltLSNLengthAndPayload(t *testing.T) {
	t.Parallel()
	s := newSeal([16]byte{1, 2, 3, 15: 9})
	b := append(binary.LittleEndian.AppendUint32(nil, 5), "hello"...)
	for _, lsn := range []LSN{1, 0xff00, 1<<63 + 77} {
		whole := append(s.salt[:len(s.salt):len(s.salt)], binary.LittleEndian.AppendUint64(nil, uint64(lsn))...)
		want := crc32.Checksum(append(whole, b...), castagnoli)
		if got := s.record(lsn, b); got != want {
			t.Errorf("LSN %d: %08x, want %08x", lsn, got, want)
		}
	}
}
