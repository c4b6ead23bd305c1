package broker

import "testing"

func TestOnlySessionsThatEndWithTheirConnectionAreBoundedByBytes(t *testing.T) {
	b := &Broker{opt: Options{MaxBytes: 1 << 20}}
	if got := b.policy(false).MaxBytes; got != 1<<20 {
		t.Errorf("one that ends with its connection: %d bytes", got)
	}
	if got := b.policy(true).MaxBytes; got != 0 {
		t.Errorf("a durable one: %d bytes", got)
	}
}
