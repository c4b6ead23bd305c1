// Package config holds what an operator can set, with defaults, and where
// each value came from. A value is looked for in this order: the command line,
// the environment (EMANET_ and the flag's name in capitals), the TOML file
// named by --config, the default. Nothing that is set is ever ignored: an
// unknown key is an error that names the nearest known one.
//
// The package knows no other package of ours; app translates these values into
// the options of the parts it starts.
package config
