// Package app turns a configuration into a running broker and back into
// nothing. It alone knows every other part by name, store engines included.
//
// Run reads top to bottom: the parts are a list (parts.go), started in its
// order and stopped in the reverse one. Everything a part needs from the
// process around it (log, health, metrics, a way to report that it failed for
// good) it gets from the Host.
package app
