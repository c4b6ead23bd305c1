//go:build !unix

package mqttserver

// poll: reads block, with a buffer in hand.
func (in *input) poll() {}

// tryWrite is never called where there is no descriptor to ask.
func (in *input) tryWrite([]byte) (n int, left bool) { return 0, false }
