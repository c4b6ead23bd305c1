package main

import "emanet/internal/app"

type checkCommand struct {
	Dir string `arg:"" help:"Data directory of a broker that does not run."`
}

// Run prints what the directory holds; a problem in it is a failure.
func (c *checkCommand) Run(s streams) error { return app.Check(c.Dir, s.out) }
