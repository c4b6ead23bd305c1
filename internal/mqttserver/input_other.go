//go:build !unix

package mqttserver

// poll: reads block, with a buffer in hand.
func (in *input) poll() {}
