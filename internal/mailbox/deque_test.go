package mailbox

import (
	"strconv"
	"testing"
	"unsafe"
)

func TestAnItemIsOneCacheLine(t *testing.T) {
	if strconv.IntSize < 64 {
		t.Skip("pointers are shorter, so that an item is less than a line")
	}
	equal(t, "bytes", unsafe.Sizeof(item{}), 64)
}
