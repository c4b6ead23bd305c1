package mailbox

import (
	"testing"
	"unsafe"
)

func TestAnItemIsOneCacheLine(t *testing.T) {
	equal(t, "bytes", unsafe.Sizeof(item{}), 64)
}
