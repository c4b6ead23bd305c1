// Package transport carries byte streams between clients and protocol servers: TCP and Unix sockets, and on them TLS,
// WebSocket and the PROXY protocol. It knows nothing of what is said over them.
//
// A connection is a Conn, one socket with up to two layers:
//
//	protocol server
//	WebSocket frames    [frames.go, control.go]
//	TLS records         [crypto/tls]
//	socket              [socket.go]
//
// Each layer reads what has come and never waits; only the socket is waited for, and without a buffer in hand. So an
// idle connection costs what its layers remember, which is little. On the way out all layers write into one buffer
// that leaves in few writes.
package transport
