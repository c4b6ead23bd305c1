package main

import (
	"fmt"

	"emanet/internal/app"
)

type versionCommand struct{}

// Run prints one line: the version and what it was built with.
func (versionCommand) Run(s streams) error {
	_, err := fmt.Fprintln(s.out, "emanet", app.Version())
	return err
}
