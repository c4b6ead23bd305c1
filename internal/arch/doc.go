// Package arch has no code of its own: its test holds the house rules that a
// compiler does not. Which package may see which, how long files and functions
// may get, which names and habits are not wanted. An exception is an entry in
// exceptions_test.go with its reason.
package arch
